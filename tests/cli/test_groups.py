"""Metrics of groups on the command line."""

import json

import pytest

TRAIN = "".join(
    f"{int(item in (user % 3, 5))} qid:{user} {user}:1 {30 + item}:1 {40 + 7 * (user % 3) + item}:1\n"
    for user in range(30)
    for item in range(7)
)


@pytest.fixture
def rows(tmp_path):
    """The same rows as libsvm text with query numbers, and as ffm text."""
    libsvm, ffm = tmp_path / "rows.libsvm", tmp_path / "rows.ffm"
    libsvm.write_text(TRAIN)
    lines = [line.split() for line in TRAIN.splitlines()]
    ffm.write_text("".join(f"{y} 0:{a} 1:{b} 2:{c}\n" for y, _, a, b, c in lines))
    return libsvm, ffm


def test_groups_choose_the_epoch_and_are_evaluated(run, rows, tmp_path):
    libsvm, ffm = rows
    found = []
    for text, options in ((libsvm, []), (ffm, ["--group-field", "0"])):
        model, log = tmp_path / "model", tmp_path / "log"
        metrics = ["-x", "gauc", "-x", "ndcg@2", "--holdout", "0.25", "-e", "5", "--log-json", log]
        done = run.ok("train", "-q", *metrics, *options, "-o", model, text)
        epochs = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "epoch"]
        assert list(epochs[0]["valid"]) == ["gauc", "ndcg@2"]
        best = max(epochs, key=lambda epoch: epoch["valid"]["gauc"])
        done = run("evaluate", "--json", *options, model, text)
        figures = json.loads(done.stdout)["metrics"]
        assert figures["gauc"] > 0.9
        run.ok("predict", "--raw", "-q", "-o", tmp_path / "scores", model, text)
        done = run("evaluate", "--json", "--raw", "--predictions", tmp_path / "scores", "-x", "map", *options, text)
        assert json.loads(done.stdout)["metrics"]["map"] == pytest.approx(figures["map"], rel=1e-6)
        found.append((best["epoch"], figures))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--group-field", "0"], "--group-field applies only to --loss bpr and the metrics gauc, ndcg"),
        (["train", "--group-field", "0", "-x", "auc"], "--group-field applies only to --loss bpr and the metrics"),
        (["train", "-x", "gauc", "--disk", "--cache", "c"], "a cache does not keep the groups of rows"),
        (["train", "-x", "gauc", "--online"], "--online and ranking cannot be combined: it needs whole groups"),
        (["train", "-x", "gauc", "--group-field", "0"], "whose features have no fields"),
    ],
)
def test_misuse(run, rows, arguments, words):
    done = run(*arguments, rows[0])
    assert done.returncode in (2, 65)
    assert words in " ".join(done.stderr.split())
