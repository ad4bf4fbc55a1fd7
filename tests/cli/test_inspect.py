"""fmcli inspect: the settings and the learned parameters of a model, as text and as JSON."""

import json
import re

import numpy as np
import pytest
from modelfiles import export_arrays

from fmcli.model_file.container import load
from fmcli.text import figure


def figures(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def trained(run, sample):
    """A function that trains on the adult sample and returns the path of the model."""

    def made(*options):
        run.ok("train", "-q", *options, "-o", "m", sample / "adult.train.libsvm")
        return "m"

    return made


def test_the_figures_are_those_of_the_arrays(run, adult_model):
    done = run("inspect", "--json", "--top", "5", adult_model)
    got = figures(done)
    assert list(got) == ["model", "options", "training", "arrays", "frequent", "weights", "importance", "pairs"]
    assert got["model"]["model"] == "fm"
    assert got["model"]["labels"] == [-1, 1]
    assert (got["model"]["features"], got["model"]["features_occurring"]) == (122, 117)
    assert got["options"]["rank"] == 8
    assert got["training"]["rows"] == 2500
    arrays = export_arrays(str(adult_model))
    assert [row["array"] for row in got["arrays"]] == list(arrays)
    for row in got["arrays"]:
        array = arrays[row["array"]]
        assert row["shape"] == list(array.shape)
        assert row["zeros"] == np.mean(array == 0)
        assert row["norm"] == pytest.approx(np.linalg.norm(array))
        assert (row["min"], row["max"]) == (array.min(), array.max())
    w = arrays["w"][0]
    places = np.argsort(-np.abs(w), kind="stable")[:5]
    assert [(row["feature"], row["weight"]) for row in got["weights"]] == [(j, w[j]) for j in places]
    assert done.stderr.endswith(" bytes, all checksums match\n")


def test_every_feature_is_counted_and_resuming_counts_on(run, sample, tmp_path):
    """Features and pairs of frequent features are counted over the rows of all runs. The second run has one feature
    more."""
    lines = (sample / "adult.train.libsvm").read_text().splitlines()
    (tmp_path / "old").write_text("\n".join(lines[:900]) + "\n")
    (tmp_path / "new").write_text("\n".join(f"{line} 130:1" for line in lines[900:1500]) + "\n")
    run.ok("train", "-q", "-e", "1", "-o", "m", "old")
    run.ok("train", "-q", "-e", "1", "-i", "m", "-o", "m", "new")
    got = figures(run("inspect", "--json", "--top", "5000", "m"))
    run.ok("train", "-q", "-e", "1", "-o", "once", "old")
    once = figures(run("inspect", "--json", "once"))["frequent"]
    run.ok("train", "-q", "-e", "1", "-i", "once", "-o", "once", "old")
    assert figures(run("inspect", "--json", "once"))["frequent"] == once  # the same rows again
    rows = [{int(entry.split(":")[0]) for entry in line.split()[1:]} for line in lines[:1500]]
    rows = [row | ({130} if place >= 900 else set()) for place, row in enumerate(rows)]
    assert got["model"]["pair_rows"] == 1500
    assert len(got["weights"]) > 100
    for row in got["weights"] + got["frequent"]:
        assert row["rows"] == sum(row["feature"] in x for x in rows)
    frequent = [row["feature"] for row in got["frequent"]]
    assert frequent == sorted(frequent, key=lambda j: (-sum(j in x for x in rows), j))
    often = [row for row in got["pairs"] if {row["feature"], row["other"]} <= set(frequent[:50])]
    assert len(often) > 500
    for row in often[::17]:
        assert row["rows"] == sum({row["feature"], row["other"]} <= x for x in rows) > 0


def test_text_has_the_same_figures(run, adult_model):
    text = run("inspect", "--top", "3", adult_model).stdout.decode()
    got = figures(run("inspect", "--json", "--top", "3", adult_model))
    frequent = "Most frequent features, and the number of training rows with each"
    pairs = "Strongest interactions of frequent features, and how many of pair-rows have both"
    weights = "Largest linear weights, and the number of training rows with the feature"
    importance = "Frequent features that change scores most, alone and in pairs (root mean square)"
    titles = ("Options", "Training", "Arrays", frequent, weights, importance, pairs)
    assert [part.splitlines()[0] for part in text.split("\n\n")[1:]] == list(titles)
    lines = text.split(f"{weights}\n")[1].split("\n\n")[0].splitlines()
    assert lines[0].split() == ["feature", "rows", "weight"]
    assert [int(line.split()[0]) for line in lines[1:]] == [row["feature"] for row in got["weights"]]
    assert re.search(rf"^train-auc +{figure(got['training']['train']['auc'])}$", text, re.M)


def test_names_of_features_are_readable(run, tmp_path):
    (tmp_path / "t").write_text("1 status=never%20married:1 a%3Ab:1\n-1 50%25:1 a%0Ab:1\n")
    run.ok("train", "-q", "-e", "1", "--holdout", "0", "-o", "m", "t")
    shown = run("inspect", "m").stdout.decode()
    assert "status=never married " in shown
    frequent = figures(run("inspect", "--json", "m"))["frequent"]
    assert {row["feature"] for row in frequent} == {"status=never%20married", "a%3Ab", "50%25", "a%0Ab"}
    lines = shown.split("each\n")[1].split("\n\n")[0].splitlines()
    assert {line[: line.index("  ")] for line in lines[1:]} == {"status=never married", "a:b", "50%", "a%0Ab"}


@pytest.mark.parametrize("kind", ["shfm", "sha2"])
def test_main_effects(run, trained, tmp_path, kind):
    got = figures(run("inspect", "--json", "--top", "1000", trained("-m", kind, "-s", "ftrl", "--l1", "10")))
    arrays = {name: array[0] for name, array in export_arrays(str(tmp_path / "m")).items()}
    V, constant = arrays["V"], arrays["v0"] * arrays.get("beta", 1)
    effects = V @ constant
    assert {row["feature"]: row["effect"] for row in got["main_effects"]} == pytest.approx(
        {j: effects[j] for j in np.flatnonzero(effects)}
    )
    sizes = [abs(row["effect"]) for row in got["main_effects"]]
    assert sizes == sorted(sizes, reverse=True)
    (row,) = got["hierarchy"]
    occurring = got["model"]["features_occurring"]
    assert row["zero"] == pytest.approx(1 - V.any(axis=1).sum() / occurring)
    assert 0 < row["zero"] < 1
    assert row["strong_hierarchy"] == (row["orthogonal"] == 0)
    assert "weights" not in got


@pytest.mark.parametrize(
    ("kind", "penalties"),
    [("sglfm", ["--l1", "1e-3", "--group-l1", "1e-3"]), ("glfm", ["--group-l1", "3e-3"]), ("l1fm", ["--l1", "5e-4"])],
)
def test_what_a_sparse_group_lasso_left(run, trained, tmp_path, kind, penalties):
    got = figures(run("inspect", "--json", trained("-m", kind, *penalties)))
    arrays = export_arrays(str(tmp_path / "m"))
    V, w = arrays["V"][0], arrays["w"][0]
    occurring = got["model"]["features_occurring"]
    gone = np.sum((w == 0) & ~V.any(axis=1)) - (122 - occurring)
    assert 0 < gone < occurring
    assert got["rows"] == [{"features": occurring, "zero": gone, "share": gone / occurring}]
    histogram = {row["factors"]: row["features"] for row in got["factors"]}
    kept = np.bincount((V != 0).sum(axis=1), minlength=9)
    kept[0] -= 122 - occurring
    assert histogram == {n: count for n, count in enumerate(kept) if count}
    assert len(histogram) > 1


def test_classes_each_have_their_rows(run, trained, tmp_path):
    got = figures(run("inspect", "--json", "--top", "2", trained("-m", "l1fm", "--loss", "softmax")))
    w = export_arrays(str(tmp_path / "m"))["w"]
    assert [(row["class"], row["feature"]) for row in got["weights"]] == [
        (label, j) for label, weights in zip((-1, 1), w, strict=True) for j in np.argsort(-np.abs(weights))[:2]
    ]
    assert [row["class"] for row in got["rows"]] == [-1, 1]


def test_inspect_without_lists_and_with_nothing_to_list(run, trained):
    path = trained("-m", "linear", "-e", "0")
    assert figures(run("inspect", "--json", path))["weights"] == []
    assert run("inspect", path).stdout.decode().endswith("with the feature\nnone\n")
    assert figures(run("inspect", "--json", "--top", "0", path))["weights"] == []


@pytest.mark.parametrize(
    ("options", "draws", "lists_of"),
    [
        (("-s", "mcmc", "--draws", "2"), 2, "the last draw"),
        (("-s", "mcmc", "--draws", "1"), None, None),
        (("--ensemble", "2"), None, "the last member"),
        (("-s", "mcmc", "--draws", "2", "--ensemble", "2"), 4, "the last draw of the last member"),
    ],
)
def test_the_draw_and_the_member_that_are_shown(run, trained, tmp_path, options, draws, lists_of):
    """Which are the last ones, whose arrays have no prefix in the file."""
    path = trained(*options, "-e", "4", "-k", "2")
    shown = figures(run("inspect", "--json", path))["model"]
    assert (shown.get("draws"), shown.get("lists_of")) == (draws, lists_of)
    text = run("inspect", path).stdout.decode()
    assert ("lists-of" in text) == (lists_of is not None)
    low = float(load(str(tmp_path / path)).tensors["V"].min())
    arrays = {row["array"]: row for row in figures(run("inspect", "--json", path))["arrays"]}
    assert arrays["V"]["min"] == pytest.approx(low)


def test_verify_finds_what_is_wrong_in_a_large_model(run, adult_model, tmp_path, monkeypatch):
    content = bytearray(adult_model.read_bytes())
    content[-70] ^= 1
    (tmp_path / "m").write_bytes(content)
    run.fails(65, "inspect", "m")
    monkeypatch.setattr("fmcli.model_file.container.ALWAYS_VERIFIED", 0)
    done = run.ok("inspect", "m")
    assert "the checksum of the header matches; use --verify to check the rest" in done.stderr
    assert figures(run("inspect", "--json", "m"))["model"]["verified"] is False
    done = run.fails(65, "inspect", "--verify", "m")
    assert "does not match its checksum" in done.stderr
    done = run("inspect", "--verify", adult_model)
    assert "all checksums match" in done.stderr


def test_errors(run, sample):
    run.fails(2, "inspect")
    run.fails(2, "inspect", "--top", "-1", "m")
    run.fails(66, "inspect", "missing")
    done = run.fails(65, "inspect", sample / "adult.test.libsvm")
    assert "is a text file, not an fmcli model" in done.stderr
