"""Checkpoints whose contents were changed, with correct checksums: they are refused, or the run goes on."""

import random
from collections import Counter
from itertools import cycle

import forging_checkpoints as forged
import numpy as np
import pytest
from forging import parsed
from test_corpus import inputs

from fmcli.model_file.container import ModelFile, save
from fmcli.training.checkpoint import CHOICES, RUN

FOBOS, ROUNDS, LLFM, FFM, CD, MCMC, LBFGS = 2, 4, 5, 7, 9, 10, 11


@pytest.fixture(scope="module")
def files():
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in forged.SMALL:
            patch.setattr(module, name, size)
        yield [parsed(data) for data in forged.corpus()]


def number(value):
    return np.array(value)


def changed_at(place, value):
    """A change of a number of an array."""

    def change(array):
        array = array.copy()
        array.reshape(-1)[place] = value
        return array

    return change


INVALID = {
    "a step that the tables do not have": (FOBOS, "0.trainer.visited.1", changed_at(1, 1000), "visited.1 is 1000"),
    "too many steps": (FOBOS, "0.trainer.steps", lambda _: number(2**20), "steps is 1048576; it must be from 0 to"),
    "another epoch": (FOBOS, "0.trainer.number", lambda _: number(3), "number is 3; it must be 1"),
    "a row beyond the last": (FOBOS, "0.trainer.done", lambda _: number(12), "done is 12; it must be from 0 to 11"),
    "a row within a round": (ROUNDS, "0.trainer.done", lambda array: array - 1, "no round of rows ends after"),
    "no number": (FOBOS, "0.trainer.total", lambda _: number(np.nan), "total has numbers that are not finite"),
    "updates": (FOBOS, "0.updates", lambda _: number(-1), "updates is -1; it must be from 0 to"),
    "the shape of parameters": (FOBOS, "0.model.1", lambda array: array[:1], "the array the model.1 is float"),
    "the type of parameters": (FOBOS, "0.model.0", lambda array: array.astype(np.int64), "the model.0 is int64"),
    "fewer arrays": (FOBOS, "0.model.1", None, "the model has 1 arrays; it must have 2"),
    "too few marks": (LLFM, "0.model.5", lambda array: array[:2], "the model.5 is uint8"),
    "the figures of epochs": (FFM, "0.epochs", lambda array: array[:, :2], "the array epochs is float64"),
    "more epochs": (FFM, "0.epochs", lambda array: np.resize(array, (9, array.shape[1])), "of epochs is 9"),
    "the best epoch": (FFM, "0.best.numbers", changed_at(0, 3), "the best epoch is 3; it must be from 0 to"),
    "its parameters": (FFM, "0.best.snapshot.0", lambda array: array[:1], "the array the model.0 is float"),
    "a search of another epoch": (CD, "0.trainer.ended", lambda _: number(1), "ended is 1; it must be 2"),
    "a draw": (MCMC, "0.best.draw.0.w", lambda array: array[0], "the array draw.0.w is float"),
    "the mean of the draws": (MCMC, "0.best.mean.total.0", lambda array: array[:1], "the array total.0 is float64"),
    "too many vectors": (LBFGS, "0.trainer.counts", changed_at(2, 99), "counts is 99; it must be from 0 to"),
    "a vector": (LBFGS, "0.trainer.gradient", changed_at(0, np.inf), "gradient has numbers that are not finite"),
    "an unknown array": (LBFGS, "0.trainer.more", lambda _: number(0), "the array 'more' is unknown"),
    "another run": (LBFGS, "x.updates", lambda _: number(0), "its arrays do not fit the run"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_array_is_refused(name, files, tmp_path):
    run, array, change, message = INVALID[name]
    file, path = files[run], str(tmp_path / "c")
    tensors = dict(file.tensors)
    if change is None:
        del tensors[array]
    else:
        tensors[array] = change(tensors.get(array))
    save(path, ModelFile(file.meta, tensors, kind=file.kind))
    outcome = forged.use(path)
    assert outcome.kind == "refused"
    assert message in outcome.message


SHAPES = {
    "a single number": lambda array: array.reshape(-1)[:1].reshape(()) if array.size else np.zeros((), array.dtype),
    "no numbers": lambda array: np.zeros(0, array.dtype),
    "one axis more": lambda array: array[None],
    "one row less": lambda array: array[:-1] if array.ndim else array[None],
}


def test_arrays_of_other_shapes_are_refused_or_can_be_continued_from(files, tmp_path):
    """Every array of every run is tried with one of the shapes: what is no FmcliError is a bug."""
    path, kinds, turn = str(tmp_path / "c"), Counter(), cycle(SHAPES.items())
    for file in files:
        for name, array in file.tensors.items():
            shape, change = next(turn)
            save(path, ModelFile(file.meta, {**file.tensors, name: change(array)}, kind=file.kind))
            kinds[shape, forged.use(path).kind] += 1
    assert all(kinds[shape, "refused"] > 20 for shape in SHAPES)


IDENTITIES = {
    "no table": (7, "does not say which run it belongs to"),
    "control characters": ({"program": "\x1b[31m"}, "does not say which run it belongs to"),
    "options": ({"options": [1]}, "the options of its run are not valid"),
    "names": ({"given": [[]]}, "the options of its run are not valid"),
    "another option": ({"options": {"rank": 10**9}}, "rank was 1000000000 and is 2"),
    "a long value": ({"solver": "x y " * 40}, "solver was x y x y"),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_invalid_identity_is_refused(name, files, tmp_path):
    value, message = IDENTITIES[name]
    file, path = files[FOBOS], str(tmp_path / "c")
    meta = {**file.meta, RUN: {**file.meta[RUN], **value} if isinstance(value, dict) else value}
    save(path, ModelFile(meta, file.tensors, kind=file.kind))
    outcome = forged.use(path)
    assert outcome.kind == "refused"
    assert message in outcome.message


CHOSEN = {
    "no table": [7],
    "nothing": {},
    "no whole number": {"refit_epochs": 0.5},
    "a negative number": {"alternative": -1},
    "a fraction of a number": {"reading": 0.5},
    "no options": {"options": [["rank", 3]]},
}


@pytest.mark.parametrize("name", CHOSEN)
def test_invalid_choices_are_refused(name, files, tmp_path):
    value = CHOSEN[name]
    file, path = files[FOBOS], str(tmp_path / "c")
    choices = {**file.meta[CHOICES], **value} if isinstance(value, dict) and value else value
    save(path, ModelFile({**file.meta, CHOICES: choices}, file.tensors, kind=file.kind))
    outcome = forged.use(path)
    assert outcome.kind == "refused"
    assert "it does not say what was chosen before the run" in outcome.message


def test_choices_that_the_run_cannot_have_change_nothing(files, tmp_path):
    file, path = files[FFM], str(tmp_path / "c")
    for options in ({"anchors": 3}, {"rank": 2.0}, {"rank": 0}, {"rank": [1]}, {"no option": 1}):
        choices = {"alternative": 9, "reading": 9, "options": options, "refit_epochs": 10**9}
        save(path, ModelFile({**file.meta, CHOICES: choices}, file.tensors, kind=file.kind))
        assert forged.use(path).kind == "continued"


def test_a_checkpoint_without_choices_is_refused(files, tmp_path):
    file, path = files[FFM], str(tmp_path / "c")
    save(path, ModelFile({RUN: file.meta[RUN]}, file.tensors, kind=file.kind))
    assert "it does not say which run it belongs to" in forged.use(path).message


@pytest.mark.filterwarnings("error")
def test_a_search_with_vectors_that_overflow_goes_on(files, tmp_path):
    file, path = files[LBFGS], str(tmp_path / "c")
    huge = {name: np.full(file.tensors[name].shape, 1e200) for name in ("0.trainer.step.0", "0.trainer.gradient")}
    save(path, ModelFile(file.meta, {**file.tensors, **huge}, kind=file.kind))
    assert forged.use(path).kind == "continued"


@pytest.mark.filterwarnings("error")
def test_parameters_that_are_not_finite_diverge(files, tmp_path):
    file, path = files[MCMC], str(tmp_path / "c")
    infinite = np.full_like(file.tensors["0.model.1"], np.inf)
    save(path, ModelFile(file.meta, {**file.tensors, "0.model.1": infinite}, kind=file.kind))
    assert forged.use(path).kind == "continued, then DivergedError"


def test_forged_checkpoints_are_refused_or_continued(files, tmp_path):
    path, counts = tmp_path / "c", Counter()
    for case in range(60):
        rng = random.Random(case)
        path.write_bytes(forged.changed(rng, rng.choice(files), files))
        counts[forged.use(str(path)).kind] += 1
    assert {"refused", "continued"} <= set(counts)


def test_the_checkpoints_that_the_fuzzer_has_found_are_refused_or_continued(files, tmp_path):
    path, counts = tmp_path / "c", Counter()
    for data in inputs("checkpoint"):
        path.write_bytes(data)
        counts[forged.use(str(path)).kind] += 1
    assert {"refused", "continued"} <= set(counts)
