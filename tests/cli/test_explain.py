"""predict --explain and inspect --importance: parts that sum to scores, their names, and their order."""

import json

import numpy as np
import pytest
from inprocess import instead

import fmcli

RATINGS = "user,film,age,stars\n" + "".join(
    f"u{i % 20},The film {i * 7 % 30},{20.5 + i % 20},{1 + (i % 20 + i * 7 % 30) % 5}\n" for i in range(400)
)


@pytest.fixture
def adult(run, sample):
    """Train a model on some rows of the adult sample with these options, and return the names of the model and of some
    rows to score."""
    for name, rows in (("train", 300), ("test", 50)):
        lines = (sample / f"adult.{name}.libsvm").read_text().splitlines(keepends=True)
        (run.folder / name).write_text("".join(lines[:rows]))

    def made(*options):
        run.ok(
            "train", "-q", "--no-quick-search", *instead(["--holdout", "0", "-e", "3", "-o", "m"], *options), "train"
        )
        return "m", "test"

    return made


@pytest.fixture
def ratings(run, tmp_path):
    """The names of a model of a table, and of this table."""
    (tmp_path / "r.csv").write_text(RATINGS)
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "--label", "stars", "-o", "m", "r.csv")
    return "m", "r.csv"


def objects(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def sums(parts):
    """Return how far parts are from their score, relative to the sum of their absolute values."""
    shares = [parts["base"], *parts["features"].values()]
    gaps = [abs(sum(shares) - parts["score"]) / sum(map(abs, shares))]
    if "main" in parts:
        terms = [parts["base"], *parts["main"].values(), *parts.get("degrees", {}).values(), parts.get("rest", 0)]
        terms += [one["value"] for one in parts["interactions"]] if "interactions" in parts else []
        gaps.append(abs(sum(terms) - parts["score"]) / sum(map(abs, terms)))
    return max(gaps)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--norm"],
        ["--scale", "zscore"],
        ["-s", "mcmc", "--epochs", "4"],
        ["--ensemble", "3"],
        ["-m", "hofm", "--order", "4"],
        ["-m", "linear"],
    ],
    ids=lambda options: " ".join(options) or "fm",
)
def test_parts_sum_to_the_raw_score(run, adult, options):
    model, rows = adult(*options)
    found = objects(run.ok("predict", "--explain", "2", "--explain-format", "json", model, rows))
    assert max(map(sums, found)) <= 1e-12
    assert max(len(parts.get("interactions", ())) for parts in found) == (0 if "linear" in options else 2)
    raw = np.array(fmcli.load(run.folder / model).predict(run.folder / rows, output="raw"))
    if "mcmc" not in options and "--ensemble" not in options:  # which average probabilities
        np.testing.assert_allclose([parts["score"] for parts in found], raw, rtol=1e-4, atol=1e-4)
    assert [parts["row"] for parts in found] == list(range(1, len(raw) + 1))


def test_parts_of_draws_are_averages_over_them(run, adult):
    """The average score of the members of an ensemble equals the average over models that were trained alone."""
    model, rows = adult("--ensemble", "2", "--seed", "5")
    together = objects(run.ok("predict", "--explain", "1", "--explain-format", "json", model, rows))
    apart = []
    for seed in ("5", "6"):
        model, rows = adult("--seed", seed)
        apart.append(objects(run.ok("predict", "--explain", "1", "--explain-format", "json", model, rows)))
    for both, one, other in zip(together, *apart, strict=True):
        for part in ("features", "main"):
            means = {name: (value + other[part][name]) / 2 for name, value in one[part].items()}
            assert both[part] == pytest.approx(means, rel=1e-12)


def test_classes_have_parts_each(run, tmp_path):
    rows = "".join(f"{'abc'[i % 3]} {i % 3}:1 {3 + i % 5}:0.5\n" for i in range(60))
    (tmp_path / "c").write_text(rows)
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "--loss", "softmax", "-o", "m", "c")
    for row in objects(run.ok("predict", "--explain", "1", "--explain-format", "json", "m", "c")):
        assert [parts["class"] for parts in row["classes"]] == ["a", "b", "c"]
        assert max(map(sums, row["classes"])) <= 1e-12
    lines = [line.split("\t") for line in run.ok("predict", "--explain", "0", "m", "c").stdout.decode().splitlines()]
    assert lines[0] == ["row", "class", "part", "features", "value"]
    assert [line[1:3] for line in lines[1:5]] == [["a", part] for part in ("score", "base", "feature", "feature")]
    assert len(lines) == 1 + 60 * 3 * 4


def test_a_table_of_parts_has_names_and_is_in_order(run, ratings):
    model, rows = ratings
    done = run.ok("predict", "--explain", "2", model, rows)
    head, *lines = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert head == ["row", "part", "features", "value"]
    first = [line[1:] for line in lines if line[0] == "1"]
    parts = [part for part, *_ in first]
    assert parts == ["score", "base", *3 * ["feature"], *3 * ["main"], *2 * ["interaction"], "rest"]
    shares = {name: float(value) for part, name, value in first if part == "feature"}
    assert set(shares) == {"user=u0", "film=The film 0", "age"}
    assert list(map(abs, shares.values())) == sorted(map(abs, shares.values()), reverse=True)
    pairs = [name.split(" & ") for part, name, _ in first if part == "interaction"]
    assert all(len(set(pair)) == 2 and set(pair) <= set(shares) for pair in pairs)
    assert "".join(f"{line}\n" for line in done.stdout.decode().splitlines()).encode() == done.stdout


def test_any_number_of_threads_writes_the_same_bytes(run, adult, sample):
    model, _ = adult()
    rows = sample / "adult.test.libsvm"
    for form, terms in (("tsv", "1"), ("json", "0")):
        texts = {
            run.ok("predict", "--explain", terms, "--explain-format", form, "-j", threads, model, rows, rows).stdout
            for threads in ("1", "3")
        }
        assert len(texts) == 1


def test_rows_have_ids_and_blank_rows_have_only_the_base(run, adult, tmp_path):
    model, _ = adult()
    (tmp_path / "rows").write_text('"a" 3:1 7:1\nb\n')
    found = objects(run.ok("predict", "--explain", "1", "--explain-format", "json", "--id-column", "1", model, "rows"))
    assert [row["row"] for row in found] == ['"a"', "b"]
    assert (found[1]["score"], found[1]["features"]) == (found[1]["base"], {})
    text = run.ok("predict", "--explain", "0", "--id-column", "1", model, "rows").stdout.decode()
    assert [line.split("\t")[0] for line in text.splitlines()] == ["row", *4 * ['"a"'], *2 * ["b"]]


def test_names_with_quotes_and_bytes_that_are_not_text(run, tmp_path):
    (tmp_path / "rows").write_bytes(b'1 a"b\\c:1 d\xff:1 e%20f:1\n2 a"b\\c:1\n' * 9)
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "-o", "m", "rows")
    (found, *_) = objects(run.ok("predict", "--explain", "0", "--explain-format", "json", "m", "rows"))
    assert set(found["features"]) == {'a"b\\c', "d\\xff", "e f"}


def test_entries_of_ffm_have_their_fields(run, tmp_path):
    (tmp_path / "rows").write_text("1 0:3:1 1:5:1 2:3:0.5\n0 0:4:1 1:5:1 2:6:1\n" * 20)
    run.ok("train", "-q", "-m", "ffm", "--no-quick-search", "--holdout", "0", "-o", "m", "rows")
    (found, *_) = objects(run.ok("predict", "--explain", "1", "--explain-format", "json", "m", "rows"))
    assert set(found["features"]) == {"0:3", "1:5", "2:3"}
    assert sums(found) <= 1e-12


def test_skipped_lines_have_no_score(run, adult, tmp_path):
    model, _ = adult()
    (tmp_path / "rows").write_text("1 3:1\n1 3:x\n1 7:1\n")
    options = ("--on-bad-line", "skip", model, "rows")
    found = objects(run.ok("predict", "--explain", "0", "--explain-format", "json", *options))
    assert [row["score"] is None for row in found] == [False, True, False]


@pytest.mark.parametrize("other", [["--std"], ["--raw"], ["--passthrough"], ["--output-type", "prob"]])
def test_explanations_refuse_what_belongs_to_predictions(run, other):
    done = run.fails(2, "predict", "--explain", "0", *other, "m", "rows")
    assert f"--explain and {other[0]} cannot be combined" in done.stderr


def test_a_format_needs_explanations(run):
    assert "--explain-format needs --explain" in run.fails(2, "predict", "--explain-format", "json", "m").stderr


def test_a_kind_without_parts_says_why(run, adult):
    model, rows = adult("-m", "llfm")
    assert "weighs its anchors by the whole row" in run.fails(2, "predict", "--explain", "0", model, rows).stderr


def test_explanations_from_python_are_those_of_the_command(run, ratings):
    model, rows = ratings
    loaded = fmcli.load(run.folder / model)
    command = objects(run.ok("predict", "--explain", "2", "--explain-format", "json", model, rows))
    assert loaded.explain(run.folder / rows, 2) == command
    assert loaded.explain([{"user=u1": 1.0, "age": 20.5}])[0]["features"].keys() == {"user=u1", "age"}
    with pytest.raises(ValueError, match="at least 0"):
        loaded.explain(run.folder / rows, -1)


# ---- Importance. ----


def test_importance_is_the_mean_share(run, ratings):
    model, rows = ratings
    found = json.loads(run.ok("inspect", "--importance", rows, "--json", "--top", "5", model).stdout)
    of_rows = [row["features"] for row in fmcli.load(run.folder / model).explain(run.folder / rows)]
    names = {name for row in of_rows for name in row}
    means = {name: sum(abs(row.get(name, 0)) for row in of_rows) / len(of_rows) for name in names}
    of_columns = {
        column: np.mean([abs(sum(v for name, v in row.items() if name.split("=")[0] == column)) for row in of_rows])
        for column in ("user", "film", "age")
    }
    best = sorted(means, key=lambda name: -means[name])[:5]
    assert [one["feature"].replace("%20", " ") for one in found["features"]] == best
    assert [one["share"] for one in found["features"]] == pytest.approx([means[name] for name in best])
    assert [one["rows"] for one in found["features"]] == [sum(name in row for row in of_rows) for name in best]
    assert {one["field"]: one["share"] for one in found["fields"]} == pytest.approx(of_columns)
    assert [one["share"] for one in found["fields"]] == pytest.approx(sorted(of_columns.values(), reverse=True))


def test_permuted_columns_lose_what_the_labels_depend_on(run, tmp_path):
    """The label is the sign of feature 0 or 1; each row has one of them. The other features are noise."""
    rng = np.random.default_rng(0)
    rows = "".join(f"{i % 2} {i % 2}:1 {2 + rng.integers(5)}:1\n" for i in range(300))
    (tmp_path / "rows").write_text(rows)
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "-m", "linear", "-o", "m", "rows")
    options = ("inspect", "--importance", "rows", "--permute", "--json", "m")
    done = run.ok(*options)
    found = json.loads(done.stdout)["permuted"]
    lost = {one["feature"]: one["lost"] for one in found}
    assert {one["metric"] for one in found} == {"logloss"}
    assert sorted(lost, key=lambda name: -lost[name])[:2] in ([0, 1], [1, 0])
    assert min(lost[0], lost[1]) > 0.05 > max(value for name, value in lost.items() if name > 1)
    assert all(0 <= one["sd"] < 0.05 for one in found)
    assert run.ok(*options, "-j", "1").stdout == done.stdout
    assert run.ok(*options, "--seed", "1").stdout != done.stdout
    text = run.ok("inspect", "--importance", "rows", "--permute", "m").stdout.decode()
    assert [line.split()[0] for line in text.splitlines() if line.startswith("feature ")] == ["feature"] * 2


def test_importance_refuses_what_it_cannot_do(run, ratings, tmp_path):
    model, _ = ratings
    assert "--permute needs --importance" in run.fails(2, "inspect", "--permute", model).stderr
    (tmp_path / "empty").write_text("")
    assert "no rows" in run.fails(65, "inspect", "--importance", "empty", model).stderr
    (tmp_path / "unlabeled").write_text("user=u1:1\n")
    assert "expected a label" in run.fails(65, "inspect", "--importance", "unlabeled", "--permute", model).stderr
