"""The page about the papers' experiments follows from the results that are kept, and tables do what they say."""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fmcli.cli.pages.guide import as_text

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ROOT / "scripts" / "papers"
MOST_COLUMNS, MOST_LINES = 80, 90  # of the page of the guide in a terminal
RULES = 102  # a rule that fails stays


@pytest.fixture(scope="module")
def page():
    """The module that writes the page, imported as the script does."""
    sys.path.insert(0, str(PAPERS))
    import page

    yield page
    sys.path.remove(str(PAPERS))
    for path in PAPERS.glob("[!_]*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def by_name(page):
    return {one.name: one for one in page.ALL}


def test_the_page_and_its_figures_are_those_of_the_results(page):
    written = page.written()
    for path, text in written.items():
        assert path.read_text() == text, f"{path.name} is out of date: run python scripts/papers"
    images = set(page.FIGURES.iterdir())
    assert images == set(written) - {page.GUIDE}
    assert all(path.name in (PAPERS / "README.md").read_text() for path in images)
    assert len(as_text(written[page.GUIDE], MOST_COLUMNS).splitlines()) <= MOST_LINES


def test_every_rule_is_judged_and_each_failure_has_a_reason(page):
    runs = page.kept()
    assert set(runs) == {one.name for one in page.ALL}
    assert sum(len(one.rules) for one in page.ALL) >= RULES
    for one in page.ALL:
        results, shown = page.Results(runs[one.name]["rows"]), page.results(runs, [one.name])
        for rule in one.rules:
            verdict = one.verdict(rule, results)
            assert verdict == "PASS" or (verdict == "FAIL" and rule.reason and rule.found), rule.text
            assert f"- **{verdict}**: {rule.text}" in shown
            # Without rows, a rule cannot hold.
            assert one.verdict(rule, page.Results()) == "NOT RUN", rule.text


def test_every_experiment_is_drawn_and_has_a_result_for_every_case(page, tmp_path):
    from measures import spec_of
    from runner import candidates
    from sets import SETS

    runs = page.kept()
    for one in page.ALL:
        images = page.drawn(runs, [one.name], tmp_path)
        assert len(images) == len(one.plots)
        assert all("<path" in image for image in images.values())
        rows = set(runs[one.name]["rows"])
        for case in one.cases:
            assert case.set in SETS
            for options, added in product(case.options, case.then.values()):
                spec_of(options | candidates(added)[0])  # raises an error for options that fmcli does not have
            assert case.choose or len(case.options) == 1, case.row
            ends = [", ".join(filter(None, (case.row, end))) for end in case.then]
            # Of a range over options, only its ends were kept.
            assert set(ends) <= rows or "over the options of cd" in case.row, case.row


def regression(path, rows):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 3)).round(3)
    lines = [f"{a * b:g} 1:{a:g} 2:{b:g} 3:{c:g}" for a, b, c in x]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_an_experiment_runs(page, by_name, tmp_path):
    """The cases of one set and a few bases."""
    from dataclasses import replace

    from sets import Raw

    regression(tmp_path / "abalone.libsvm", 600)
    experiment = by_name["pn_bases"]
    few = [
        case for case in experiment.cases if case.row.startswith("abalone") and case.row.endswith(("k = 3", "ridge"))
    ]
    rows, skipped = replace(experiment, cases=few).run(Raw(tmp_path))
    assert skipped == []
    assert set(rows) == {case.row for case in few}
    for row in rows.values():
        assert len(row["r2"]) == 5
        assert row["options"]["l2"] in (1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
    # With all bases, the product of two columns is found; three rows of the data are too few.
    assert min(rows["abalone, kernel ridge"]["r2"]) > max(rows["abalone, random, k = 3"]["r2"])


def test_sets_that_are_missing_are_skipped(page, by_name, tmp_path, capsys):
    """One of the sets is there; the rules about others are not judged."""
    from dataclasses import replace

    from sets import Raw

    for part in ("train", "test"):
        regression(tmp_path / "one" / "diabetes" / f"{part}.libsvm", 60)
    experiment = by_name["peers"]
    few = [case for case in experiment.cases if case.set in ("diabetes", "ctr")]
    (tmp_path / "two").mkdir()
    rows, skipped = replace(experiment, cases=few).run(Raw(tmp_path / "two", tmp_path / "one"))
    assert skipped == [case.row for case in few if case.set == "ctr"]
    kinds = ("linear, defaults", "fm, defaults", "fm, cd, tuned", "reading")
    assert set(rows) == {f"diabetes, {kind}" for kind in kinds}
    assert "ctr, fm, tuned is skipped: " in capsys.readouterr().out
    results = page.Results(json.loads(json.dumps(rows)))
    verdicts = [experiment.verdict(rule, results) for rule in experiment.rules]
    assert verdicts[:8] == ["NOT RUN"] * 8
    assert replace(experiment, cases=few).run(Raw(tmp_path / "two")) == ({}, [case.row for case in few])


def test_a_table_states_its_cases(page):
    from runner import cases_of

    table = {
        "row": "{kind}, k = {k}",
        "set": "u1 to u5",
        "run": "rank={k * 2} l2=1,2.5",
        "measure": "last rmse",
        "axes": {"kind": {"fm": "kind=fm", "both": "kind=pn l1=1 | kind=shfm l1=2"}, "k": [4, 8]},
    }
    shared = {"run": "augment=true"}
    cases = list(cases_of(table, shared, {}))
    assert [case.row for case in cases] == ["fm, k = 4", "fm, k = 8", "both, k = 4", "both, k = 8"]
    every = {"augment": True, "rank": 16}
    assert cases[1].options == [every | {"l2": l2, "kind": "fm"} for l2 in (1, 2.5)]
    assert cases[3].options == [
        every | {"l2": l2, "kind": kind, "l1": l1} for kind, l1 in (("pn", 1), ("shfm", 2)) for l2 in (1, 2.5)
    ]
    for wrong in ({"splits_used": 1}, {"choose": {"metric": "rmse"}}):
        with pytest.raises(TypeError):
            list(cases_of(table | wrong, shared, {}))


@pytest.fixture
def few_rows():
    from fmcli.data.dataset import Dataset

    random = np.random.default_rng(0)
    index = np.concatenate([np.sort(random.permutation(8)[:3]) for _ in range(40)]).astype(np.int32)
    return Dataset(np.arange(0, 121, 3), index, np.ones(120, dtype=np.float32), random.normal(size=40), 8)


def plan_of(data, **options):
    from measures import spec_of

    from fmcli.training import job

    return job.plan(data, spec_of({"kind": "fm", "loss": "squared", **options}))


def test_labels_0_and_1_are_measured_like_minus_1_and_1(page):
    from measures import evaluated
    from sets import Pair

    from fmcli.data.dataset import Dataset

    random = np.random.default_rng(0)
    x, label = random.random(60).astype(np.float32), random.choice((-1.0, 1.0), 60)
    row = np.arange(61, dtype=np.int64)
    rows = [Dataset(row, np.zeros(60, dtype=np.int32), x, given, 1) for given in (label, (label + 1) / 2)]
    plan = plan_of(rows[0], kind="linear", solver="adagrad", loss="logistic", epochs=2)
    found = [evaluated("logloss", "accuracy").of(plan, Pair(one, one)) for one in rows]
    assert [found[0][name] for name in ("logloss", "accuracy")] == [found[1][name] for name in ("logloss", "accuracy")]


def test_what_is_watched_ends_where_training_ends(page, few_rows):
    from measures import watched
    from sets import Pair

    def run(epochs, *noted):
        plan = plan_of(few_rows, solver="cd", epochs=epochs, tol=1e-2)
        return watched("at", *noted).of(plan, Pair(few_rows))

    long = run(1000, "1")
    first, last = long["epochs"]
    assert first == 1 < last < 1000
    # The last point is the end of a run with this number of epochs, and is not noted twice.
    for same in (run(last, str(last)), run(1000, str(last))):
        assert same["epochs"] == [last]
        assert same["objective"] == long["objective"][1:]


def test_a_divergence_is_watched(page, few_rows):
    from measures import watched
    from sets import Pair

    plan = plan_of(few_rows, solver="sgd", epochs=50, learning_rate=1e6)
    found = watched("at", "50").of(plan, Pair(few_rows))
    assert found["diverged"]
    assert not found["objective"]


def test_ratings_have_a_user_and_a_film(page, tmp_path):
    from sets import Raw, one_hot

    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t5\t891717742\n196\t302\t1\t878887116\n")
    data = one_hot(Raw(tmp_path))
    assert data.features == 4
    assert data.indptr.tolist() == [0, 2, 4, 6]
    users, films = data.index[::2], data.index[1::2]
    assert users[0] == users[2] != users[1]
    assert films[0] != films[1] == films[2]
    assert data.label.tolist() == [3, 5, 1]


def test_drawn_networks_are_half_links(page, tmp_path):
    from planted import SHAPES, network
    from sets import Raw

    shape = SHAPES["NIPS"].smaller(2)
    data = network(Raw(tmp_path), "NIPS", shape)
    assert data.rows == 2 * shape.links == 2 * np.count_nonzero(data.label > 0)
    assert set(np.diff(data.indptr)) == {2 * shape.ones}
    assert data.features == sum(shape.features)
