"""Ensembles: which models they have, and what these predict together."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from modelfiles import SMALL, copy_of
from problems import dataset
from test_every_pair import planted

from fmcli.choosing.fitting import Events
from fmcli.errors import BadInputError, NotEnoughMemoryError
from fmcli.losses.links import expit, normal
from fmcli.model_file import container
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.scoring.averages import MeanScore, spread
from fmcli.scoring.metrics import predicted_numbers
from fmcli.scoring.rows import score_rows
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving
from fmcli.training.account import need_of
from fmcli.training.several.ensemble import ensemble_summary, memory_of, train_ensemble

MEMBERS, SEED = 3, 7


def rows_of(kind, loss):
    """Training and test rows for a kind."""
    return planted("fm" if MODELS[kind].closed_form else kind, loss, rows=300)


def plan_of(kind, loss="squared", solver=None, *, threads=1, valid=True, holdout=0.0, seed=SEED, **options):
    train, test = rows_of(kind, loss)
    small = {name: value for name, value in SMALL.items() if name in MODELS[kind].options}
    epochs = {} if MODELS[kind].closed_form else {"epochs": 4}
    sampled = {"draws": 2, "burn_in": 1} if solver == "mcmc" else {}
    spec = make_spec(kind, solver, loss, {"seed": seed, **epochs, **small, **sampled, **options})
    valid = test if valid and not holdout else None
    return job.plan(train, spec, valid=valid, threads=threads, patience=1, holdout=holdout)


def ensemble(path, *arguments, **options):
    plan = plan_of(*arguments, **options)
    trained, members = train_ensemble(plan, MEMBERS, Events().observed)
    saving.save_model(str(path), trained, ensemble_summary(trained, members), "libsvm")
    return path


def single(path, *arguments, **options):
    trained = job.train(plan_of(*arguments, **options))
    saving.save_model(str(path), trained, job.summary(trained), "libsvm")
    return path


# Kinds with constants, with anchors, of several draws, and of several outputs.
RUNS = [
    ("fm", "squared", "adagrad"),
    ("fm", "logistic", "sgd"),
    ("linear", "softmax", "ftrl"),
    ("fm", "poisson", "fobos"),
    ("ffm", "squared", "cd"),
    ("bilinear", "squared", "lbfgs"),
    ("llfm", "ordinal", "mcmc"),
    ("kernel-basis", "squared", None),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run[0])
def test_a_member_is_the_model_of_its_seed_and_threads_do_not_matter(run, tmp_path):
    path = ensemble(tmp_path / "all", *run)
    assert path.read_bytes() == ensemble(tmp_path / "again", *run, threads=2).read_bytes()
    found = load_model(str(path))
    members = [load_model(str(single(tmp_path / "one", *run, seed=SEED + number))) for number in range(MEMBERS)]
    wanted = [model for member in members for model in member.draws]
    models = list(found.draws)
    assert (len(models), found.members) == (len(wanted), MEMBERS)
    for model, expected in zip(models, wanted, strict=True):
        for name, array in {**expected.parameters, **expected.constants}.items():
            assert np.asarray({**model.parameters, **model.constants}[name]).tobytes() == array.tobytes(), name
    assert any(not np.array_equal(score_rows(wanted[0], d), score_rows(wanted[-1], d)) for d in rows_of(*run[:2]))


def test_held_out_rows_are_the_same_for_all_members_and_figures_are_of_the_mean(tmp_path):
    path = ensemble(tmp_path / "m", "fm", "squared", holdout=0.2)
    meta = container.load(str(path)).meta
    plan = plan_of("fm", "squared", holdout=0.2)
    mean = MeanScore("squared")
    own = []
    for number in range(MEMBERS):
        each = plan_of("fm", "squared", holdout=0.2, seed=SEED + number)
        each = type(each)(**{**vars(each), "source": plan.source, "validation": plan.validation})
        trained = job.train(each)
        outcome = plan.validation.outcome(trained.plan.model)
        mean.add(outcome.score)
        own.append(plan.validation.measure(trained.plan.model)["rmse"])
    wanted = plan.validation.measure(plan.model, plan.validation.outcome_of(mean.score()))["rmse"]
    assert meta["training"]["valid"]["rmse"] == wanted < np.mean(own)
    assert meta["training"]["members"]["valid_rmse"] == own
    assert meta["training"]["members"]["seed"] == [SEED, SEED + 1, SEED + 2]
    assert meta["options"]["seed"] == SEED


@pytest.mark.parametrize(
    ("loss", "predicted"),
    [
        ("squared", lambda score: score),
        ("hinge", lambda score: score),
        ("logistic", expit),
        ("soft-logistic", expit),
        ("probit", normal),
        ("poisson", lambda score: predicted_numbers("poisson", score)),
        ("softmax", lambda score: np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)),
    ],
)
def test_what_is_averaged_are_predictions(loss, predicted):
    scores = np.random.default_rng(0).normal(0, 2, (4, 5, 3 if loss == "softmax" else 1))
    mean = MeanScore(loss)
    for score in scores:
        mean.add(score)
    each = np.array([predicted(score) for score in scores])
    np.testing.assert_allclose(predicted(mean.score()), each.mean(axis=0), rtol=1e-12)
    found = spread(loss, SimpleNamespace(scores=lambda data: iter(scores)), dataset([{}] * 5, 1))
    np.testing.assert_allclose(found, each.std(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_means_of_tiny_probabilities_are_not_lost(loss):
    mean = MeanScore(loss)
    for score in (-900.0, -1000.0):
        mean.add(np.array([[score]] if loss == "logistic" else [[0.0, score]]))
    found = mean.score()[0]
    np.testing.assert_allclose(found[-1] - (found[0] if loss == "softmax" else 0), -900 - np.log(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": 2}, "it has 3 draws of 2 members"),
        ({"members": 1}, "it has 3 draws of 1 members"),
        ({"draws": 6}, "it has 6 draws of 3 members"),
        ({"members": 0}, "members is 0; it must be"),
        ("draw.1.UV", "the array draw.1.UV is missing"),
        ("draw.1.group", "'draw.1.group'"),
        ("draw.2.UV", "the array 'draw.2.UV' is unknown"),
    ],
)
def test_files_that_are_not_valid_are_refused(change, message, tmp_path):
    file = copy_of(container.load(str(ensemble(tmp_path / "m", "bilinear", "squared"))))
    if isinstance(change, dict):
        file.meta.update(change)
    elif change in file.tensors:
        del file.tensors[change]
    else:
        file.tensors[change] = file.tensors["bias"]
    container.save(str(tmp_path / "forged"), file)
    with pytest.raises(BadInputError, match=re.escape(message)):
        load_model(str(tmp_path / "forged"))


def test_the_memory_of_all_members_is_counted():
    plan = plan_of("fm", threads=2)
    one, many = need_of(plan), memory_of(plan, 8)
    assert many.total == one.held + 2 * (one.total - one.held) + 8 * plan.model.bytes_needed(0)
    with pytest.raises(NotEnoughMemoryError, match="training 1000000000 models, 2 at a time"):
        train_ensemble(plan, 10**9, Events().observed)
