"""fmcli export --qubo: the energy of every choice of 9 features is the score of the row that has them."""

import json
from itertools import product

import numpy as np
import pytest
from problems import choices

from fmcli.scoring.scorer import load_model
from reference import slow_models

FEATURES = 9
KINDS = [
    ("fm",),
    ("linear",),
    ("anova", "--augment"),
    ("shfm",),
    ("pn",),
    ("lifted-anova", "--order", "2"),
    ("poly2", "--no-norm"),
    ("bilinear", "--split-index", "5"),
    ("all-subsets", "--rank", "2"),  # of two features only, below
    ("fm", "--scale", "standard"),
]
EVERY = np.array(list(product((0, 1), repeat=FEATURES)))


@pytest.fixture
def trained(run, tmp_path):
    """Train a model on rows with 9 features, and return the folder of the files."""

    def made(*options, features=FEATURES, names=""):
        rng = np.random.default_rng(1)
        rows = "".join(
            f"{rng.normal():.3f} "
            + " ".join(
                f"{names}{j}:{rng.choice([1, 2])}" for j in sorted(rng.choice(features, min(4, features), False))
            )
            + "\n"
            for _ in range(80)
        )
        (tmp_path / "rows").write_text(rows)
        usual = ("-q", "--no-quick-search", "--holdout", "0", "-e", "5", "-o", "m")
        run.ok("train", "-m", *options, *usual, "rows")
        return tmp_path

    return made


def energies(form, x):
    """Return the energy of each row of x by the JSON form of a binary quadratic model."""
    pairs = zip(form["quadratic_head"], form["quadratic_tail"], form["quadratic_biases"], strict=True)
    quadratic = sum((value * x[:, i] * x[:, j] for i, j, value in pairs), np.zeros(len(x)))
    return form["offset"] + x @ np.array(form["linear_biases"]) + quadratic


@pytest.mark.parametrize("options", KINDS, ids=" ".join)
def test_energies_are_scores(run, trained, options):
    features = 2 if options[0] == "all-subsets" else FEATURES
    folder = trained(*options, features=features)
    run.ok("export", "--qubo", "m", "q.json")
    form = json.loads((folder / "q.json").read_text())
    assert form["num_variables"] == len(form["variable_labels"]) == len(form["linear_biases"]) == features
    assert form["num_interactions"] == len(form["quadratic_biases"])
    assert (options[0] == "linear") == (form["num_interactions"] == 0)
    assert all(i < j for i, j in zip(form["quadratic_head"], form["quadratic_tail"], strict=True))
    scorer = load_model(str(folder / "m"))
    scale = scorer.transform.scale.divisors.astype(float) if scorer.transform.scale else np.ones(features)
    params = {name: array.astype(np.float64) for name, array in scorer.model.parameters.items()}
    every = np.unique(EVERY[:, :features], axis=0)
    value = (1 / scale).astype(np.float32)
    of_model = choices(scorer.model, order=2)
    scores = [
        slow_models.score(options[0], params, {j: float(value[j]) for j in np.flatnonzero(x)}, of_model)[0]
        for x in every
    ]
    scores = scorer.labels.unit.undo(np.array(scores))
    np.testing.assert_allclose(energies(form, every), scores, rtol=0, atol=1e-12 * np.abs(scores).max())
    assert len(set(scores)) > len(scores) / 2


def test_the_lines_are_those_of_the_json_form(run, trained):
    """Variables have numbers, and comments their names and the offset."""
    folder = trained("fm", names="spin")
    for name in ("q.json", "q.txt"):
        assert "9 variables" in run.ok("export", "--qubo", "m", name).stderr
    form = json.loads((folder / "q.json").read_text())
    lines = (folder / "q.txt").read_text().splitlines()
    assert lines[0] == "# vartype=BINARY"
    assert float(lines[1].removeprefix("# offset=")) == form["offset"]
    assert lines[2 : 2 + FEATURES] == [f"# variable {i} {name}" for i, name in enumerate(form["variable_labels"])]
    assert sorted(form["variable_labels"]) == sorted(f"spin{j}" for j in range(FEATURES))
    matrix = {(int(i), int(j)): float(value) for i, j, value in map(str.split, lines[2 + FEATURES :])}
    pairs = zip(form["quadratic_head"], form["quadratic_tail"], form["quadratic_biases"], strict=True)
    expected = {(i, j): value for i, j, value in pairs}
    assert matrix == expected | {(i, i): value for i, value in enumerate(form["linear_biases"])}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("hofm",), "interactions of 3 features"),
        (("fm", "--norm"), "unit length"),
        (("fm", "--scale", "zscore"), "centers columns"),
        (("llfm",), "anchors"),
    ],
)
def test_models_that_are_not_quadratic_are_refused(run, trained, options, reason):
    trained(*options, features=4)  # which all rows have
    assert reason in run.fails(2, "export", "--qubo", "m", "q.json").stderr


def test_classes_are_refused(run, tmp_path):
    (tmp_path / "rows").write_text("a 1:1\nb 2:1\nc 3:1\n" * 9)
    run.ok("train", "-q", "--no-quick-search", "--holdout", "0", "--loss", "softmax", "-o", "m", "rows")
    assert "several scores" in run.fails(2, "export", "--qubo", "m", "q.json").stderr


def test_outputs_have_an_ending_that_says_their_form(run):
    assert "writes .json and .txt files" in run.fails(2, "export", "--qubo", "m", "q.npz").stderr
    assert "cannot be combined" in run.fails(2, "export", "--qubo", "--kernel-form", "m", "q.fm").stderr
