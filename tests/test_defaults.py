"""Defaults: the default in the guide of each option is the one used by a run of each model and solver."""

import re

import pytest

from fmcli.registry.catalog import refusal
from fmcli.registry.models import MODELS
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import REFINES, make_spec, resolve
from fmcli.registry.words import defaults_in_words, in_words

PAIRS = [
    (model, solver)
    for model, kind in MODELS.items()
    for solver in ([None] if kind.closed_form else SOLVERS)
    if not refusal(model, solver)
]


def said(option, model, solver):
    """Return the default that the guide gives: the first that exists of the model with the solver, the model, the
    solver, and the general one."""
    usual, *special = re.split("; at most", defaults_in_words(option))[0].split("; ")
    found = {}
    for default in special:
        words, _, names = default.rpartition(" for ")
        names, _, beside = names.partition(" with ")
        found.update({(name, beside): words for name in names.split(", ")})
    for key in ((model, solver), (model, ""), (solver, "")):
        if key in found:
            return found[key]
    return usual


@pytest.mark.parametrize("model", MODELS)
def test_the_guide_says_the_default_in_force(model):
    for solver in (solver for name, solver in PAIRS if name == model):
        check_defaults(model, solver)


def check_defaults(model, solver):
    values = make_spec(model, solver).values
    pieces = [MODELS[model], *([SOLVERS[solver]] if solver else [])]
    for name, value in values.items():
        option = OPTIONS[name]
        if value is None or option.negative or any(name in piece.refuses for piece in pieces):
            continue
        words = said(option, model, solver)
        if name in REFINES and (words == OPTIONS[REFINES[name]].flag or REFINES[name] in MODELS[model].defaults):
            assert value == values.get(REFINES[name], OPTIONS[REFINES[name]].default), (name, solver)
        else:
            assert words == in_words(option, value), (name, solver)


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "ftrl", "fobos"])
def test_epochs_depend_on_validation_data(solver):
    """Validation data choose from 300 epochs, or from as many as visit 1e9 entries at rank 8."""
    epochs = [
        resolve(make_spec("fm", solver), rows=100, nonzeros=nonzeros, features=10, validated=validated).values["epochs"]
        for validated, nonzeros in ((False, 100), (True, 100), (True, 10**6), (True, 10**8))
    ]
    assert epochs == [10, 300, 125, 30]


def test_a_model_may_have_defaults_beside_one_solver():
    assert make_spec("poly2").values["learning_rate"] != make_spec("fm").values["learning_rate"]
    assert make_spec("ffm", "ftrl").values["l2_v"] == 1
    assert str(make_spec("ffm", "cd").values["l2_v"]) == "10/rows"
    assert make_spec("poly2", "sgd").values["learning_rate"] == make_spec("fm", "sgd").values["learning_rate"]
    assert make_spec("ffm", options={"l2": 0.5}).values["l2_w"] == 0.5


def resolved(model, solver=None, loss=None, *, rows, nonzeros, features):
    facts = {"rows": rows, "nonzeros": nonzeros, "features": features, "validated": False}
    return resolve(make_spec(model, solver, loss), **facts).values


def test_ffm_begins_with_larger_factors_for_classes():
    for loss, l2, init_std in (("logistic", 2e-5, 0.1), ("squared", 1e-4, 0.03), (None, 1e-4, 0.03)):
        values = resolved("ffm", loss=loss, rows=10, nonzeros=20, features=5)
        assert (values["l2_w"], values["l2_v"], values["init_std"]) == (l2, l2, init_std)
    assert resolved("ffm", "sgd", "logistic", rows=10, nonzeros=20, features=5)["init_std"] == 0.03


def test_lifted_pn_is_penalized_by_the_rows_of_its_features():
    for features, l2 in ((20, 0.02), (50, 0.05), (500, 0.1)):
        values = resolved("lifted-pn", rows=5000, nonzeros=20_000, features=features)
        assert (values["l2_v"], values["l2_w"]) == (pytest.approx(l2), 1e-5)


def test_kinds_without_linear_weights_have_penalties_of_their_own_under_descent():
    usual = {"rows": 100, "nonzeros": 300, "features": 10}
    assert [resolved(kind, **usual)["l2_v"] for kind in ("shfm", "hofm-simplex")] == [0.15, 0.1]
    assert [resolved(kind, **usual)["l2_v"] for kind in ("hofm-shared", "all-subsets")] == [0.3, 0.25]


def test_sparsity_is_off_unless_it_makes_the_model_what_it_is():
    """The L1 penalty of strongly hierarchical models by FTRL stays, because it costs nothing on held-out rows."""
    for model, solver in PAIRS:
        values = resolved(model, solver, rows=5000, nonzeros=9000, features=10)
        on = {name for name in ("l1", *GROUP_PENALTIES) if values.get(name)}
        usual = {"l1"} if solver == "ftrl" and model in ("shfm", "sha2") else set()
        assert on == usual | set(MODELS[model].positive), (model, solver)


@pytest.mark.parametrize("solver", ["sgd", "fobos"])
def test_plain_steps_are_smaller_if_rows_are_long(solver):
    def rate(longest, **options):
        spec = make_spec("fm", solver, None, options)
        values = resolve(spec, rows=9, nonzeros=9, features=3, longest=longest, validated=False).values
        assert values["learning_rate_w"] == values["learning_rate_v"] == values["learning_rate"]
        return values["learning_rate"]

    assert [rate(longest) for longest in (0.0, 2.0, 141.0)] == [0.01] * 3
    assert rate(1000.0) == pytest.approx(2e-4)
    assert rate(1000.0, learning_rate=0.5) == 0.5
    if solver == "fobos":
        assert rate(1000.0, adaptive=True) == 0.01


def test_ftrl_has_steps_of_its_own_unless_told():
    assert [make_spec("fm", "ftrl").values[name] for name in ("alpha_w", "alpha_v")] == [0.1, 0.05]
    assert make_spec("fm", "ftrl", options={"alpha": 0.2}).values["alpha_v"] == 0.2


@pytest.mark.parametrize("model", ["shfm", "sha2"])
def test_the_sparse_models_are_penalized_by_their_rows_under_ftrl(model):
    for rows, l1 in ((10, 0.01), (10**6, 1)):
        values = resolved(model, "ftrl", rows=rows, nonzeros=rows, features=10)
        assert (values["l1"], values["l1_v"]) == (l1, l1)
    assert make_spec(model, "adagrad").values["l1"] == 0


@pytest.mark.parametrize(("model", "step"), [("sha2", 0.05), ("shfm", 0.1)])
def test_small_values_have_a_weaker_penalty_and_larger_steps(model, step):
    """Rows of 25 entries of 0.1, and rows of ones, some of them shorter."""
    of_longest = {0.25: 0.1, 25.0: 1.0, 50.0: 1.0, 0.0: 1.0}
    for longest, size in of_longest.items():
        facts = {"rows": 100, "nonzeros": 2500, "features": 50, "longest": longest, "validated": True}
        values = resolve(make_spec(model, "ftrl"), **facts).values
        assert values["l1"] == pytest.approx(0.1 * size)
        assert values["alpha_v"] == pytest.approx(step / size)
