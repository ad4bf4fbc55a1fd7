"""Gibbs sampling of features that do not occur: they are drawn from the prior of their group, if it is known."""

import numpy as np
import pytest
from problems import build, dataset
from test_every_pair import planted
from test_gibbs import saved, trained_model

from fmcli.data.fields import NO_GROUP, fields_of_features
from fmcli.data.text.prior_groups import PriorGroups
from fmcli.losses.loss import Squared
from fmcli.model_file.container import load
from fmcli.models.drawn import PRIORS
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import load_model
from fmcli.solvers.gibbs.sampler import GibbsSampler
from fmcli.training import job, saving

NEW = 400  # features without rows: enough to tell their distribution


def saved_path(trained, folder):
    saved(trained, folder / "m")
    return str(folder / "m")


def with_new_features(data):
    return data.changed(features=data.features + NEW)


@pytest.mark.parametrize("threads", [1, 2])
def test_features_without_rows_are_drawn_from_the_prior_of_their_group(threads, tmp_path):
    """Every second feature from group 9's prior; the last one, whose group has no other feature, stays 0."""
    data, _ = planted("fm", "squared", rows=200)
    old = data.features
    groups = {j: 9 if j % 2 else 3 for j in range(old + NEW - 1)} | {old + NEW - 1: 5}
    spec = make_spec("fm", "mcmc", "squared", {"epochs": 8, "burn_in": 2, "draws": 3, "rank": 2})
    given = PriorGroups("file", None, groups)
    trained = job.train(job.plan(with_new_features(data), spec, groups=given, threads=threads))
    saved(trained, tmp_path / "m")
    scorer = load_model(str(tmp_path / "m"))
    mean, precision = np.moveaxis(load(str(tmp_path / "m")).tensors[PRIORS].reshape(3, 2, 2, 3), 1, 0)
    draws = [each.parameters for each in scorer.draws]
    numbers = np.array([np.column_stack([draw["V"][0], draw["w"][0]]) for draw in draws])
    assert not numbers[:, -1].any()
    for place, group in enumerate((3, 9)):
        of_group = [j for j in range(old, old + NEW - 1) if groups[j] == group]
        z = (numbers[:, of_group] - mean[:, [place]]) * np.sqrt(precision[:, [place]])
        assert np.abs(z.mean(axis=1)).max() < 5 / len(of_group) ** 0.5
        assert np.abs((z**2).mean(axis=1) - 1).max() < 5 * (2 / len(of_group)) ** 0.5
        assert np.abs(np.corrcoef(z.swapaxes(0, 1).reshape(len(of_group), -1).T) - np.eye(9)).max() < 0.4


def test_features_without_rows_change_no_others_and_have_the_bytes_of_any_number_of_threads(tmp_path):
    data, _ = planted("fm", "squared", rows=200)
    files = {saved(trained_model(with_new_features(data), threads=n), tmp_path / str(n)) for n in (1, 2)}
    assert len(files) == 1
    one, other = (load_model(saved_path(trained_model(each), tmp_path)) for each in (data, with_new_features(data)))
    for ours, theirs in zip(one.draws, other.draws, strict=True):
        assert ours.parameters["V"].tobytes() == theirs.parameters["V"][:, : data.features].tobytes()


@pytest.mark.parametrize("options", [{"norm": True}, {"scale": "max-abs"}])
def test_features_without_rows_stay_0_if_their_values_are_not_those_of_the_model(options):
    data, _ = planted("fm", "squared", rows=200)
    assert not trained_model(with_new_features(data), **options).plan.model.parameters["w"][0, -NEW:].any()


def test_features_of_earlier_rows_stay_as_they_are(tmp_path):
    """An update does not have them, and does not draw them again."""
    data, _ = planted("fm", "squared", rows=200)
    warm_start = saving.load_warm_start(saved_path(trained_model(data), tmp_path))
    few = data.take(np.arange(2, dtype=np.int32))
    gone = warm_start.transform.seen & ~few.seen()
    spec = warm_start.continued(None, None, None, {"epochs": 3})
    second = job.train(job.plan(few, spec, warm_start=warm_start)).plan.model.parameters["V"][0]
    assert gone.any()
    np.testing.assert_array_equal(second[gone], warm_start.model.parameters["V"][0][gone])


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        ({1: 4, 4: 4, 5: 9, 8: 9, 10: 2}, [NO_GROUP, 1, 1, 1, 1, 2, 2, 2, 2, NO_GROUP, 0, NO_GROUP]),
        ({1: 4, 4: 4, 5: 9, 8: 9, 10: 4}, [NO_GROUP, 0, NO_GROUP, NO_GROUP, 0, 1, NO_GROUP, NO_GROUP, 1, NO_GROUP, 0]),
        ({}, [NO_GROUP]),
    ],
)
def test_features_between_two_of_a_field_are_in_it_if_those_of_each_are_numbered_one_after_the_other(of, wanted):
    data = dataset([dict.fromkeys(of.items(), 1.0)] if of else [{}], len(wanted), [1.0])
    found = fields_of_features(data if of else data.changed(field=np.zeros(0, dtype=np.int32)))
    assert found.place.tolist() == wanted
    assert found.numbers.tolist() == sorted(set(of.values()))


def test_features_that_a_block_does_not_have_are_not_drawn():
    model = build("linear", 4)
    model.allocate(0)
    priors = GibbsSampler(model, Squared(), Penalty(), dataset([{0: 1.0}], 4, [1.0])).priors
    for number, layout in enumerate(model.layout):
        for feature in (-1, 4) if layout.by_feature else (0,):
            with pytest.raises(IndexError, match="no such feature"):
                priors.draw(number, np.array([feature], dtype=np.int32))
