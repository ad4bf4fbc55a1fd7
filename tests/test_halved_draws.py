"""Draws of large models are kept in 16 bits: what they predict, what a checkpoint has, and what is refused."""

import re

import numpy as np
import pytest
from modelfiles import copy_of
from problems import dataset
from test_checkpoint import Dying, Killed
from test_every_pair import planted
from test_new_features import learned

from fmcli.choosing.fitting import Events
from fmcli.errors import BadInputError
from fmcli.model_file.container import from_bytes, load, to_bytes
from fmcli.model_file.state import as_halves, draw_name
from fmcli.models.kept import HALF
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import scorer_of
from fmcli.training import draws, job, saving
from fmcli.training.several import ensemble

OPTIONS = {"epochs": 30, "burn_in": 10, "draws": 8}
PLANTED = [
    *((kind, "squared") for kind in ("fm", "ffm", "linear", "bilinear", "llfm")),
    ("fm", "probit"),
    ("fm", "ordinal"),
]


@pytest.fixture
def every_model_is_large(monkeypatch):
    monkeypatch.setattr(draws, "MOST_DRAWN", 1)


def file_of(trained):
    return saving.file_of(trained, job.summary(trained), "ffm" if trained.plan.data.field is not None else "libsvm")


def types(file):
    """The types of the numbers in the draws that are not the model's own."""
    return {array.dtype for name, array in file.tensors.items() if name.startswith("draw.")}


@pytest.mark.parametrize(("kind", "loss"), PLANTED)
def test_predictions_are_those_of_whole_draws_but_for_a_thousandth(kind, loss, monkeypatch):
    train, test = planted(kind, loss, rows=400)
    spec = make_spec(kind, "mcmc", loss, OPTIONS)
    files, scorers = [], []
    for most in (draws.MOST_DRAWN, 1):
        monkeypatch.setattr(draws, "MOST_DRAWN", most)
        trained = job.train(job.plan(train, spec))
        files.append(file_of(trained))
        scorers.append(scorer_of("m", from_bytes(to_bytes(files[-1]), "m")))
        np.testing.assert_array_equal(trained.outcome.score, scorers[-1].scores(train))
    whole, halved = files
    assert types(whole) == {REAL_TYPE}
    assert types(halved) == {REAL_TYPE, HALF}
    for name, array in whole.tensors.items():
        of_features = re.search(r"\.(w|V|UV)\Z", name)
        assert halved.tensors[name].dtype == (HALF if of_features else array.dtype)
        np.testing.assert_array_equal(halved.tensors[name], as_halves(array) if of_features else array)
    output = scorers[0].default_output()
    found = [scorer.predictions(test, output) for scorer in scorers]
    row = np.array([3], dtype=np.int32)
    np.testing.assert_array_equal(scorers[1].predictions(test.take(row), output), found[1][row])
    most = 1e-3 * train.label.std()
    assert 0 < np.abs(found[0] - found[1]).max() < most
    assert np.abs(scorers[0].spread(test) - scorers[1].spread(test)).max() < most
    if loss == "squared":
        assert np.abs(scorers[0].intervals(test, 0.9) - scorers[1].intervals(test, 0.9)).max() < 2 * most
    assert len(to_bytes(halved)) < len(to_bytes(whole))


def test_rows_with_large_numbers_need_whole_draws(every_model_is_large):
    """The score of a row is a small difference of large terms here."""
    rng = np.random.default_rng(0)
    for value, expected in ((1.0, {HALF, REAL_TYPE}), (40.0, {REAL_TYPE})):
        rows = [{int(j): value for j in sorted(rng.choice(9, 2, False))} for _ in range(30)]
        data = dataset(rows, 9, rng.normal(size=30))
        trained = job.train(job.plan(data, make_spec("fm", "mcmc", "squared", OPTIONS)))
        assert types(file_of(trained)) == expected


def test_an_array_is_halved_only_if_its_numbers_keep_their_digits():
    for number in (65504.0, -65504.0, 1.0, 2.0**-14, 0.0):
        assert as_halves(np.array([0, number], dtype=np.float32)).tolist() == [0, number]
        assert as_halves(np.array([0, number], dtype=np.float32)).dtype == HALF
    for number in (65505.0, -1e30, 1e-5, -1e-30, np.inf, np.nan):
        array = np.array([0, number], dtype=np.float32)
        assert as_halves(array) is array
    assert as_halves(np.empty((1, 0), dtype=np.float32)).shape == (1, 0)


def test_an_array_with_numbers_out_of_range_is_whole(every_model_is_large, monkeypatch):
    """Labels without a unit, so the weights are as large."""
    data, _ = planted("linear", "squared", rows=100)
    data = data.changed(label=data.label * 1e6)
    spec = make_spec("linear", "mcmc", "squared", {**OPTIONS, "scale_labels": False})
    trained = job.train(job.plan(data, spec))
    assert types(file_of(trained)) == {REAL_TYPE}
    np.testing.assert_array_equal(trained.outcome.score, scorer_of("m", file_of(trained)).scores(data))


def test_a_run_that_is_killed_again_and_again_keeps_the_same_draws(every_model_is_large, tmp_path):
    data, _ = planted("fm", "squared", rows=60)
    spec = make_spec("fm", "mcmc", "squared", OPTIONS)
    whole = to_bytes(untimed(file_of(job.train(job.plan(data, spec)))))
    for killed in range(40):
        keeper = Dying(str(tmp_path / "checkpoint"), np.inf)
        keeper.left = 7
        if killed:
            keeper.read()
        plan = job.plan(data, spec)
        keeper.belongs_to(plan, False)
        try:
            found = job.train(plan, keeper=keeper)
            break
        except Killed:
            continue
    assert killed > 2
    assert to_bytes(untimed(file_of(found))) == whole


def untimed(file):
    file.meta["training"] = {}
    return file


def test_new_features_are_learned_beside_halved_draws(every_model_is_large, tmp_path):
    data, _ = planted("fm", "squared", rows=100)
    trained = job.train(job.plan(data, make_spec("fm", "mcmc", "squared", OPTIONS)))
    path, old = str(tmp_path / "m"), data.features
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    before = load(path)
    for value, expected in ((1.0, HALF), (40.0, REAL_TYPE)):
        rows = dataset([{j: 1.0, old + j % 2: value} for j in range(4)], old + 2, np.arange(4.0))
        run, grown = learned(path, rows)
        for name in (draw_name(0, "w"), draw_name(3, "V")):
            assert grown.tensors[name].dtype == expected
            np.testing.assert_array_equal(grown.tensors[name][:, :old], before.tensors[name])
            assert grown.tensors[name][:, old:].all()
        assert np.abs(run.outcome.score - scorer_of("m", grown).scores(rows)).max() < 1e-2


def test_members_of_an_ensemble_are_whole_models(every_model_is_large):
    data, test = planted("fm", "squared", rows=100)
    for solver, options in (("cd", {"epochs": 3}), ("mcmc", OPTIONS)):
        plan = job.plan(data, make_spec("fm", solver, "squared", options))
        trained, members = ensemble.train_ensemble(plan, 2, Events().observed)
        file = saving.file_of(trained, ensemble.ensemble_summary(trained, members), "libsvm")
        alone = []
        for seed in (0, 1):
            spec = make_spec("fm", solver, "squared", {**options, "seed": seed})
            alone.append(scorer_of("m", file_of(job.train(job.plan(data, spec)))).predictions(test, "value"))
        np.testing.assert_allclose(scorer_of("m", file).predictions(test, "value"), np.mean(alone, axis=0), rtol=1e-9)
        own = {file.tensors[draw_name(len(members[0].draws) - 1, name)].dtype for name in ("w", "V")}
        assert own == {REAL_TYPE}
        assert (HALF in types(file)) == (solver == "mcmc")


def test_forged_numbers_of_16_bits_are_refused(every_model_is_large, tmp_path):
    data, _ = planted("fm", "squared", rows=60)
    good = file_of(job.train(job.plan(data, make_spec("fm", "mcmc", "squared", OPTIONS))))
    for number in (np.inf, -np.inf, np.nan):
        forged = copy_of(good)
        forged.tensors["draw.2.V"][0, 1, 0] = number
        with pytest.raises(BadInputError, match=r"m: is not a valid model: the array draw\.2\.V has .* not finite"):
            scorer_of("m", forged)
    for name in ("V", "bias", "noise", "seen"):
        forged = copy_of(good)
        forged.tensors[name] = forged.tensors[name].astype(HALF)
        with pytest.raises(BadInputError, match=f"the array {name} is float16"):
            scorer_of("m", forged)
    forged = copy_of(good)
    forged.meta["members"] = forged.meta["draws"]
    with pytest.raises(BadInputError, match=r"the array draw\.\d\.[wV] is float16"):
        scorer_of("m", forged)
