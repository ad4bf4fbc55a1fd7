"""Tables on a cluster: rows, metrics, messages and models equal one machine's."""

from contextlib import contextmanager

import numpy as np
import pytest
from clusters import Here
from inprocess import run_here

import fmcli
from fmcli.cluster import connection, partitions, scoring
from fmcli.cluster.cache import open_partitions
from fmcli.cluster.scoring import Scoring, loaded
from fmcli.cluster.tasks import BUILD, RowReading
from fmcli.data.stored.caching import Reading
from fmcli.data.tables.reading import By
from fmcli.data.text.faults import BadLines
from fmcli.data.text.formats import RowGroups, Stream
from fmcli.errors import BadInputError
from fmcli.scoring.evaluation import evaluate_model, figures
from fmcli.scoring.prediction import Counts, predict
from fmcli.scoring.summary import Combined

ROWS = 240
NAMED = {"label": "stars", "categorical": ["user", "film"], "several": ["tags"], "numeric": ["age"]}


def text_of(rng, gaps):
    """The rows of a table with delimiters, quotes and line breaks in quotes. gaps : whether some have no age."""
    lines = ["user,film,tags,age,stars"]
    for row in range(ROWS):
        tags = rng.choice(["", "new", '"a, ""b""\n|new"', '"\n\n""\n|""old"""'])
        age = "" if gaps and row % 10 == 0 else rng.integers(20, 60)
        lines.append(f"u{row % 12},f{row * 7 % 11},{tags},{age},{int(row % 12 + row * 7 % 11 > 10)}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model of a table, and two tables."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    for name, gaps in (("a1.csv", False), ("a2.csv", True)):
        (folder / name).write_text(text_of(rng, gaps))
    fmcli.train(folder / "a1.csv", **NAMED, epochs=3, holdout=0, quick_search=False).save(folder / "m.fm")
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(scoring, "PART_BYTES", 700)
    monkeypatch.setattr(partitions, "LEAST_BYTES", 900)


def scored(folder, stream, labeled=False, counts=None, model="m.fm", **more):
    """The scoring of both tables, which a pattern names."""
    scorer, model = loaded(str(folder / model))
    request = RowReading("auto", labeled, False, stream, **more)
    return scorer, Scoring(Here(2), model, [str(folder / "a*.csv")], request, counts or Counts(), BadLines())


def alone(scorer, inputs, stream):
    return b"".join(predict(scorer, inputs, output="prob", stream=stream, counts=Counts()))


@pytest.mark.parametrize("stream", [Stream(passthrough=True), Stream(id_name="tags"), Stream()])
def test_the_lines_are_those_of_one_machine(files, stream):
    counts = Counts()
    scorer, run = scored(files, stream, counts=counts)
    inputs = scorer.tables([str(files / name) for name in ("a1.csv", "a2.csv")])
    assert b"".join(run.predict("prob")) == alone(scorer, inputs, stream)
    assert run.progress.done > 10
    assert counts.gaps.filled == {"age": ROWS / 10}


def test_rows_without_a_match_are_counted(files):
    users = "".join(f"u{user},{user % 2}\n" for user in range(9))
    (files / "users.csv").write_text(f"user,job\n{users}")
    named = ["--label", "stars", "--several", "tags", "--join", f"user={files / 'users.csv'}"]
    assert run_here(["train", *named, "-e", "2", "-o", "j.fm", "a1.csv"], files).returncode == 0
    counts = Counts()
    joined = {"user": str(files / "users.csv")}
    scorer, run = scored(files, Stream(), counts=counts, model="j.fm", joined=joined)
    inputs = scorer.tables([str(files / name) for name in ("a1.csv", "a2.csv")], joined)
    assert b"".join(run.predict("prob")) == alone(scorer, inputs, Stream())
    assert counts.gaps.unmatched == {("user", joined["user"]): 2 * ROWS / 4}
    division = partitions.divide(inputs, "auto", False, "it", Stream(), None, BUILD)
    there = partitions.Inputs(division.partitions, Reading(division.format, False, False, True), False, None, BUILD)
    cache = open_partitions(Here(2), there, division.format, BadLines())
    assert len(cache.rows) > 3
    assert cache.gaps == counts.gaps


def test_metrics_of_groups_are_those_of_one_machine(files, monkeypatch):
    monkeypatch.setattr("clusters.pickle", pytest.importorskip("cloudpickle"))  # as a cluster does
    by, groups = By("user"), RowGroups(optional=True)
    scorer, run = scored(files, Stream(row_groups=groups), labeled=True, by=by)
    names, combined = ["auc", "gauc"], Combined()
    for _ in run.evaluate(names, False, combined):
        pass
    inputs = scorer.tables([str(files / name) for name in ("a1.csv", "a2.csv")], by=by)
    outcome = evaluate_model(scorer, inputs, format="auto", threads=1, counts=Counts(), row_groups=groups)
    assert combined.figures(names, scorer) == pytest.approx(figures(names, outcome, scorer))
    assert len(set(figures(names, outcome, scorer).values())) == 2


def test_an_error_has_its_line(files, tmp_path):
    text = (files / "a2.csv").read_text()
    wrong = text.replace("\nu3,f", "\nu3,1,f", 9).replace("\nu3,1,f", "\nu3,f", 8)
    (tmp_path / "a2.csv").write_text(wrong)
    (tmp_path / "m.fm").write_bytes((files / "m.fm").read_bytes())
    scorer, run = scored(tmp_path, Stream())
    with pytest.raises(BadInputError, match="expected 5 cells; the row has 6") as there:
        list(run.predict("prob"))
    with pytest.raises(BadInputError) as here:
        alone(scorer, scorer.tables([str(tmp_path / "a2.csv")]), Stream())
    assert str(there.value) == str(here.value)
    line = int(str(here.value).split(":")[1])
    assert wrong.split("\n")[line - 1].startswith("u3,1,")
    assert line > ROWS / 2


def test_training_finds_the_columns_there(files, tmp_path, monkeypatch, capfd):
    from fmcli.cli.train.command import command

    @contextmanager
    def connected(address, signals):
        here = Here(2)
        here.workers, here.dashboard = 2, None
        yield here

    monkeypatch.setattr(connection, "connected", connected)
    options = ["--label", "stars", "--several", "tags", "-s", "lbfgs", "-e", "4", "--holdout", "0", "--no-quick-search"]
    models = []
    for inputs in (["--cluster", "local:2", str(files / "a*.csv")], [str(files / "a1.csv"), str(files / "a2.csv")]):
        command.main([*options, "-o", str(tmp_path / "m.fm"), *inputs], standalone_mode=False)
        models.append(fmcli.load(tmp_path / "m.fm"))
    log = capfd.readouterr().err
    assert log.count("column tags  several") == 2
    assert "partitions" in log
    first, second = (model.predict(files / "a2.csv") for model in models)
    np.testing.assert_allclose(first, second, rtol=1e-3)
    assert first.std() > 0.01
