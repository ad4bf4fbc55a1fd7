"""The page about the papers' experiments follows from the numbers that are kept, and the smallest experiment runs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fmcli.cli.guide import as_text

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ROOT / "scripts" / "papers"
MOST_COLUMNS, MOST_LINES = 80, 90  # of the page of the guide in a terminal
PRIVATE = {"sets", "experiments", "experiment", "fitting", "page", "others", "watching", "convergence"}


@pytest.fixture(scope="module")
def page():
    """The module that writes the page, imported as the script does."""
    sys.path.insert(0, str(PAPERS))
    import page

    yield page
    sys.path.remove(str(PAPERS))
    for name in [name for name in sys.modules if name.partition(".")[0] in PRIVATE]:
        del sys.modules[name]


def test_the_page_and_its_figures_are_those_of_the_numbers(page):
    written = page.written()
    for path, text in written.items():
        assert path.read_text() == text, f"{path.name} is out of date: run python scripts/papers"
    images = set(page.FIGURES.iterdir())
    assert images == set(written) - {page.GUIDE}
    assert all(path.name in (PAPERS / "README.md").read_text() for path in images)
    assert len(as_text(written[page.GUIDE], MOST_COLUMNS).splitlines()) <= MOST_LINES


def test_every_experiment_is_shown_and_drawn(page, tmp_path):
    runs = page.kept()
    for one in page.ALL:
        shown = page.results(runs, [one.name])
        assert all(
            rule.text in shown and rule.reason in shown
            for rule in one.rules
            if rule.verdict(runs[one.name]["numbers"]) == "FAIL"
        )
        assert all("<path" in image for image in page.drawn(runs, [one.name], tmp_path).values())


def test_every_experiment_has_rules_and_each_failure_a_reason(page):
    runs = page.kept()
    assert set(runs) <= {one.name for one in page.ALL}
    for one in page.ALL:
        assert one.rules
        if run := runs.get(one.name):
            assert all(rule.reason for rule in one.rules if rule.verdict(run["numbers"]) == "FAIL"), one.name


def test_the_smallest_experiment_runs(page, tmp_path, monkeypatch):
    from experiments import pn_beta
    from sets.raw import Raw

    random = np.random.default_rng(0)
    x = random.normal(size=(40, 3)).round(3)
    lines = [f"{a * b:g} 1:{a:g} 2:{b:g} 3:{c:g}" for a, b, c in x]
    (tmp_path / "diabetes.libsvm").write_text("\n".join(lines) + "\n")
    for name, value in {"SEEDS": 1, "RANKS": (2,), "MANY": 2, "EPOCHS": 20}.items():
        monkeypatch.setattr(pn_beta, name, value)
    raw = Raw(tmp_path)
    numbers = json.loads(json.dumps(pn_beta.run(raw)))
    assert raw.built["diabetes"]["rows"] == len(x)
    experiment = pn_beta.EXPERIMENT
    assert all(table.rows for table in experiment.tables(numbers))
    assert all("<path" in page.svg(figure) for figure in experiment.figures(numbers).values())
    constant = 0.5  # the loss of the mean of standardised labels
    assert numbers["objectives"]["anova, m = 2"]["2"]["fitted"][0] < constant / 4


def test_sets_that_are_missing_are_skipped(page, tmp_path, capsys):
    """Two of the sets are there, in two folders; the rules about others are not judged."""
    from experiments import peers
    from others import BANANA, U1
    from sets.raw import Raw

    random = np.random.default_rng(0)
    folders = tmp_path / "one", tmp_path / "two"
    for folder, name in zip(folders, ("banana", "diabetes"), strict=True):
        (folder / name).mkdir(parents=True)
        for part in ("train", "test"):
            x = random.normal(size=(60, 2)).round(3)
            lines = [f"{1 if a * b > 0 else 0} 1:{a:g} 2:{b:g}" for a, b in x]
            (folder / name / f"{part}.libsvm").write_text("\n".join(lines) + "\n")
    numbers = json.loads(json.dumps(peers.run(Raw(*folders))))
    assert set(numbers) == {BANANA, "diabetes"}
    assert f"{U1} is skipped: " in capsys.readouterr().out
    experiment = peers.EXPERIMENT
    assert [rule.verdict(numbers) for rule in experiment.rules][:8] == ["NOT RUN"] * 8
    errors = experiment.tables(numbers)[0]
    assert next(row[2] for row in errors.rows if row[0] == U1) == "fmcli: no data"


def test_labels_0_and_1_are_measured_like_minus_1_and_1(page):
    from fitting import fit, on_test

    from fmcli.data.dataset import Dataset

    random = np.random.default_rng(0)
    x, label = random.random(60).astype(np.float32), random.choice((-1.0, 1.0), 60)
    row = np.arange(61, dtype=np.int64)
    rows = [Dataset(row, np.zeros(60, dtype=np.int32), x, given, 1) for given in (label, (label + 1) / 2)]
    trained = fit("linear", {"solver": "adagrad", "loss": "logistic", "epochs": 2}, rows[0])
    found = [on_test(("logloss", "accuracy"), trained, one) for one in rows]
    assert found[0] == found[1]


@pytest.fixture
def few_rows():
    from fmcli.data.dataset import Dataset

    random = np.random.default_rng(0)
    index = np.concatenate([np.sort(random.permutation(8)[:3]) for _ in range(40)]).astype(np.int32)
    return Dataset(np.arange(0, 121, 3), index, np.ones(120, dtype=np.float32), random.normal(size=40), 8)


def test_what_is_watched_ends_where_training_ends(page, few_rows):
    from fitting import spec_of
    from watching import watched

    from fmcli.training import job

    def run(epochs, noted):
        spec = spec_of("fm", {"solver": "cd", "loss": "squared", "epochs": epochs, "tol": 1e-2})
        return watched(job.plan(few_rows, spec), few_rows, noted)

    long = run(1000, {1})
    first, last = long["epochs"]
    assert first == 1 < last < 1000
    # The last point is that of a run with so many epochs, and is not noted twice.
    for same in (run(last, {last}), run(1000, {last})):
        assert same["epochs"] == [last]
        assert same["objective"] == long["objective"][1:]


def test_a_divergence_is_watched(page, few_rows):
    from fitting import spec_of
    from watching import watched

    from fmcli.training import job

    spec = spec_of("fm", {"solver": "sgd", "loss": "squared", "epochs": 50, "learning_rate": 1e6})
    found = watched(job.plan(few_rows, spec), few_rows, {50})
    assert found["diverged"]
    assert not found["objective"]


def test_drawn_networks_are_half_links(page, tmp_path):
    from sets.network import SHAPES, drawn_network, smaller
    from sets.raw import Raw

    shape = smaller(SHAPES["NIPS"], 16)
    data = drawn_network(Raw(tmp_path), "NIPS", shape)
    assert data.rows == 2 * shape.links == 2 * np.count_nonzero(data.label > 0)
    assert set(np.diff(data.indptr)) == {2 * shape.ones}
    assert data.features == sum(shape.features)
