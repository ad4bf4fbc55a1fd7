"""Choices of a run that Python shares with the command: each acts, or is refused in the words of Python."""

import numpy as np
import pytest

import fmcli
from fmcli.api.parameters import PARAMETERS
from fmcli.registry.choices import CHOICES

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = (X[:, 0] + RNG.normal(size=400) > 1).astype(int)
NAMES = "\xe4b"
QUICK = {"epochs": 3, "quick_search": False, "holdout": 0}


def test_the_weight_of_positive_rows_multiplies_their_odds():
    usual, weighted = (fmcli.train((X, Y), pos_weight=weight, **QUICK).predict(X).mean() for weight in (None, 5.0))
    by_label = fmcli.train((X, Y), class_weight={1: 5.0}, **QUICK).predict(X).mean()
    assert weighted > usual + 0.1
    assert weighted == by_label


def test_features_share_priors_by_a_file(tmp_path):
    (tmp_path / "groups").write_text("".join(f"{feature % 2}\n" for feature in range(5)))
    options = {"solver": "mcmc", "epochs": 10}
    one, two = (
        fmcli.train((X, Y), prior_groups=groups, **options).predict(X) for groups in (None, tmp_path / "groups")
    )
    assert np.abs(one - two).max() > 1e-3


@pytest.fixture
def table(tmp_path):
    """A table in Latin-1, whose codes are numbers unless a schema says otherwise."""
    lines = [f"{NAMES[row % 2]},{row % 7},{row % 3}\n".encode("latin-1") for row in range(120)]
    (tmp_path / "t.csv").write_bytes(b"n\xe4me,code,y\n" + b"".join(lines))
    return tmp_path / "t.csv"


def test_tables_may_be_in_latin_1(table):
    with pytest.raises(ValueError, match="the header is not UTF-8; use encoding='latin-1'"):
        fmcli.train(table, label="y", **QUICK)
    assert len(fmcli.train(table, label="y", encoding="latin-1", **QUICK).predict(table)) == 120


def test_a_schema_tells_the_columns(run, table, tmp_path):
    printed = run.ok(
        "train", "--label", "y", "--encoding", "latin-1", "--categorical", "code", "--print-schema", "t.csv"
    )
    (tmp_path / "s.json").write_bytes(printed.stdout)
    run.ok("train", "-q", "--schema", "s.json", "-e", "3", "--no-quick-search", "--holdout", "0", "-o", "m.fm", "t.csv")
    model = fmcli.train(table, schema=tmp_path / "s.json", **QUICK)
    np.testing.assert_array_equal(model.predict(table), fmcli.load(tmp_path / "m.fm").predict(table))
    with pytest.raises(ValueError, match="knows the column 'code' as names; leave out numeric"):
        fmcli.train(table, schema=tmp_path / "s.json", numeric="code", **QUICK)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"pos_weight": -1}, "pos_weight is -1.0; it must be > 0"),
        ({"pos_weight": 2, "class_weight": "balanced"}, "class_weight and pos_weight cannot be combined"),
        ({"prior_groups": "g"}, "prior_groups tells which features share a prior, and adagrad has none; "),
        ({"encoding": "latin1"}, "encoding is 'latin1'; it must be utf-8 or latin-1"),
        ({"encoding": "latin-1"}, "only tables have columns to name"),
        ({"rare": "share"}, "rare needs min_count; give both"),
        ({"rare": "keep", "min_count": 2}, "rare is 'keep'; it must be drop or share"),
    ],
)
def test_what_does_not_act_is_refused(choices, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fmcli.train((X, Y), **choices)


@pytest.mark.parametrize("name", sorted(CHOICES.keys() - PARAMETERS.keys() - {"valid"}))
def test_a_choice_of_the_command_alone_says_why(name):
    with pytest.raises(ValueError, match=f"there is no option '{name}'[:;] .") as caught:
        fmcli.train((X, Y), **{name: "x"})
    assert CHOICES[name].absent in str(caught.value) or "did you mean" in str(caught.value)
