"""Defaults that depend on the training data: described in the help, resolved once, saved as numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from problems import dataset

from fmcli.cli.models import lines
from fmcli.registry import catalog
from fmcli.registry.derived import Derived
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec, resolve
from fmcli.registry.words import defaults_in_words, notes
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving

ROWS = [{0: 1.0, 2: 1.0}, {1: 1.0}, {0: 1.0, 1: 2.0}, {2: 1.0}]
# Rules that use every fact, for options of every run, an option of a solver, and one (l2) that others refine.
RULES = {
    "init_std": Derived("1 / 2^rows", lambda facts: 0.5**facts.rows),
    "alpha": Derived("1/non-zeros", lambda facts: 1 / facts.nonzeros),
    "l2": Derived("0.1, 0.2 with validation data", lambda facts: 0.2 if facts.validated else 0.1),
    "epochs": Derived("the rank", lambda facts: facts.values["rank"]),
    "batch_size": Derived("2 for ftrl", lambda facts: 2 if facts.solver == "ftrl" else 1),
}


@pytest.fixture
def rules(monkeypatch):
    for name, rule in RULES.items():
        monkeypatch.setitem(OPTIONS, name, replace(OPTIONS[name], default=rule))
    # The solver defaults of ftrl would take precedence over these rules.
    monkeypatch.setitem(SOLVERS, "ftrl", replace(SOLVERS["ftrl"], defaults={}))


@pytest.fixture
def data():
    return dataset(ROWS, 3, [1.0, 2.0, 4.0, 3.0])


def planned(data, options=None, **plan):
    return job.plan(data, make_spec("fm", "ftrl", None, options), **plan)


def test_derived_defaults_use_the_facts_of_the_run(rules, data):
    values = planned(data, {"rank": 3}).spec.values
    expected = {"init_std": 1 / 16, "alpha": 1 / 6, "l2": 0.1, "epochs": 3, "batch_size": 2}
    assert {name: values[name] for name in RULES} == expected
    judged = planned(data, valid=data).spec.values
    assert (judged["l2"], judged["init_std"]) == (0.2, 1 / 16)
    held = planned(data, holdout=0.25)
    assert (held.spec.values["l2"], held.spec.values["init_std"]) == (0.2, 1 / 8)
    assert held.spec.values["alpha"] == 1 / int(np.diff(held.data.indptr)[held.rows].sum())


def test_options_that_refine_another_take_its_resolved_value(rules, data):
    values = planned(data).spec.values
    assert [values[name] for name in ("l2_w", "l2_v", "alpha_w", "alpha_v")] == [0.1, 0.1, 1 / 6, 1 / 6]
    values = planned(data, {"l2_v": 5.0, "alpha": 2.0}).spec.values
    assert [values[name] for name in ("l2_w", "l2_v", "alpha_w", "alpha_v")] == [0.1, 5.0, 2.0, 2.0]


def test_a_given_value_is_taken_as_it_is(rules, data):
    given = {"init_std": 0.5, "alpha": 0.25, "l2": 0.0, "epochs": 2, "batch_size": 3}
    values = planned(data, given).spec.values
    assert {name: values[name] for name in RULES} == given


def test_the_model_file_has_numbers(rules, data, tmp_path):
    trained = job.train(planned(data))
    path = str(tmp_path / "model.fm")
    saving.save_model(path, trained, job.summary(trained), "libsvm")
    options = load_model(path).meta["options"]
    assert (options["init_std"], options["l2_w"], options["epochs"]) == (1 / 16, 0.1, 8)
    assert saving.load_warm_start(path).run.options == options


def test_rows_are_held_out_where_the_number_of_epochs_is_derived(rules, data):
    many = data.take(np.tile(np.arange(4, dtype=np.int32), 2_500))
    assert len(planned(many, holdout=None).rows) == 9_500
    assert len(planned(many, {"epochs": 1}, holdout=None).rows) == 10_000


def test_derived_defaults_are_described_in_the_help(rules):
    assert "default: 1 / 2^rows; " in notes(OPTIONS["init_std"])
    assert defaults_in_words(OPTIONS["init_std"]).startswith("1 / 2^rows; ")
    listed = catalog.catalog()
    json.dumps(listed)
    assert next(piece for piece in listed["solvers"] if piece["name"] == "ftrl")["options"]["alpha"] == "1/non-zeros"
    assert "--alpha 1/non-zeros" in " ".join(line.strip() for line in lines(listed, []))


def test_a_default_of_a_piece_for_an_option_that_refines_another_is_shown():
    assert defaults_in_words(OPTIONS["l2_v"]).startswith("--l2; 10/rows for cd, lbfgs; ")


@pytest.mark.parametrize(("features", "strength"), [(25, 5 / 50), (26, 100 / 50)])
def test_more_features_than_half_the_rows_take_a_stronger_penalty_in_the_closed_form(features, strength):
    spec = resolve(make_spec("kernel-basis"), rows=50, nonzeros=500, features=features, validated=False)
    assert spec.values["l2_w"] == strength


@pytest.mark.parametrize(("features", "landmarks"), [(1000, 300), (1001, 100)])
def test_few_features_have_more_landmarks(features, landmarks):
    spec = resolve(make_spec("kernel-basis"), rows=50, nonzeros=500, features=features, validated=False)
    assert spec.values["rank"] == landmarks
    given = make_spec("kernel-basis", None, None, {"rank": 7})
    assert resolve(given, rows=50, nonzeros=500, features=features, validated=False).values["rank"] == 7
