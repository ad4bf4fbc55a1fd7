"""Advice is followed as it is printed: the command of a test, and the flags that its last lines propose, train a model
that predicts held-out rows better."""

import re

import numpy as np
import pytest
from inprocess import instead

FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z0-9-]*) ([\w.+-]+)")


def libsvm(path, labels, rows):
    lines = (f"{label:g} {' '.join(f'{j}:{x:g}' for j, x in row)}\n" for label, row in zip(labels, rows, strict=True))
    path.write_text("".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows to train on and to evaluate, by what there is to learn."""
    folder, rng = tmp_path_factory.mktemp("advice"), np.random.default_rng(0)

    def written(name, draw, rows, test=400):
        made = [draw() for _ in range(rows + test)]
        for part, some in (("train", made[:rows]), ("test", made[rows:])):
            libsvm(folder / f"{name}.{part}", *zip(*some, strict=True))

    users, items = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))

    def product(noise=0.1, shift=0.0):
        u, i = rng.integers(12, size=2)
        return users[u] @ items[i] + noise * rng.normal() + shift, [(u + 1, 1), (i + 20, 1)]

    def chance():
        u, i = rng.integers(60, size=2)
        return rng.normal(), [(u + 1, 1), (i + 100, 1)]

    def linear():
        x = rng.normal(size=4)
        return 3 + x @ [1, -2, 3, 1] + 0.1 * rng.normal(), list(enumerate(x, start=1))

    def sums():
        u, i = rng.integers(12, size=2)
        return users[u, 0] + items[i, 0] + 0.5 * rng.normal(), [(u + 1, 1), (i + 20, 1)]

    def classes():
        u, i = rng.integers(12, size=2)
        return [2, 5, 7][(u + i) % 3], [(u + 1, 1), (i + 20, 1)]

    written("product", product, 600)
    written("later", lambda: product(shift=20.0), 100)
    written("chance", chance, 100)
    written("linear", linear, 300)
    written("sums", sums, 300)
    written("classes", classes, 600)
    return folder


def rmse(run, folder, arguments, train, test):
    """Train, and return the error of held-out rows, and what was said."""
    done = run("train", *arguments, "-o", "m.fm", folder / train)
    if done.returncode == 3:  # diverged
        return np.inf, done.stderr
    assert done.returncode == 0, done.stderr
    return float(run.ok("evaluate", "-x", "rmse", "m.fm", folder / test).stdout.split()[-1]), done.stderr


def followed(said, arguments):
    """Return the command line of each alternative that an advice proposes."""
    advice = re.split(r"\b(?:leave out|try|such as|predictions) ", said)[-1]
    if "leave out" in said:
        return [[word for word in arguments if word not in advice.split()]]
    return [instead(arguments, *(word for pair in FLAG.findall(one) for word in pair)) for one in advice.split(" or ")]


@pytest.mark.parametrize(
    ("data", "arguments", "about"),
    [
        ("product", "-s fobos --l1 10", "are 0"),
        ("product", "-s fobos --l1-v 10", "are 0"),
        ("product", "-s cd --group-l1 10", "are 0"),
        ("product", "-s ftrl --l1-v 1e9 --alpha .5", "are 0"),
        ("product", "-m poly2 -s cd --l1-v 10", "are 0"),
        ("product", "-m pn -s cd --nuclear 100 -e 5", "are 0"),
        ("product", "-s adagrad --l2-v 1000 -r .3", "are 0"),
        ("product", "--init-std 0 -r .3", "are 0"),
        ("product", "-m kernel-basis -k 4", "landmarks"),
        ("product", "-s mcmc -e 12 --burn-in 6", "more sweeps"),
        ("chance", "-m linear -s cd --l2 0", "overfits"),
        ("chance", "-s cd --l2 1e-6", "overfits"),
        ("chance", "-s adagrad --l2 0", "overfits"),
        ("chance", "-s ftrl --l2 0", "overfits"),
        ("chance", "-s lbfgs --l2 0", "overfits"),
        ("linear", "-m linear -s sgd -r 1e-30 -e 3", "too small"),
        ("linear", "-m linear -s sgd -r .9", "diverged"),
        ("linear", "-m linear -s sgd -r 1e5", "diverged"),
        ("linear", "-m linear -s cd --l1 100", "too strong"),
        ("linear", "-m linear -s ftrl --alpha .001 -e 2", "more epochs"),
        ("linear", "-m linear -s lbfgs -e 1 --holdout 0", "more epochs"),
    ],
)
def test_advice_improves_held_out_predictions(run, folder, data, arguments, about):
    arguments = arguments.split()
    before, said = rmse(run, folder, arguments, f"{data}.train", f"{data}.test")
    (warning,) = [line for line in said.splitlines() if re.search(about, line)]
    others = followed(warning, arguments)
    assert others
    assert arguments not in others, warning
    for other in others:
        after, _ = rmse(run, folder, other, f"{data}.train", f"{data}.test")
        assert after < before, (other, warning)


def test_an_update_of_one_epoch_that_is_worse_than_a_constant_needs_more_epochs(run, folder):
    """Its loss is one of predictions before the updates, and says nothing about the size of steps."""
    run.ok("train", "-q", "-o", "old.fm", folder / "product.train")
    update = ["-i", "old.fm", "-e", "1", "-v", folder / "later.test"]
    before, said = rmse(run, folder, update, "later.train", "later.test")
    warning = said.splitlines()[-1]
    assert re.search(r"the same holds on the training rows; try more epochs \(--epochs 3\)$", warning), warning
    (other,) = followed(warning, update)
    after, _ = rmse(run, folder, other, "later.train", "later.test")
    assert after < before
    diverged = run.fails(3, "train", "-i", "old.fm", "-e", "1", "-r", "1e6", folder / "later.train").stderr
    assert "try a smaller step: --learning-rate 0.05" in diverged


def test_a_penalty_that_was_compared_with_others_is_no_fault(run, folder, tmp_path):
    """The usual penalty was worse: a warning would ask for it again, and at each update."""
    said = run.ok("train", "--quick-search", "-s", "adagrad", "-r", ".05", "-o", "m.fm", folder / "sums.train").stderr
    assert "all factors are 0 by --l2-v 10, which predicts held-out rows better" in said
    assert "too strong" not in said
    for more in ([], ["-q"]):
        said = run.ok("train", *more, "-i", "m.fm", "-o", "m.fm", folder / "sums.train").stderr
        assert "too strong" not in said


def test_labels_of_classes_never_lead_in_a_circle(run, folder):
    """Each message names a command that works, whatever the solver is."""
    rows = folder / "classes.train"
    done = run.fails(2, "train", "-s", "mcmc", "--loss", "softmax", rows)
    assert done.stderr.endswith("only, not under softmax; use -s adagrad\n")
    said = run.ok("train", "-s", "mcmc", "-e", "30", rows).stderr
    assert "if they are classes, use -s adagrad --loss softmax" in said
    run.ok("train", "-s", "adagrad", "--loss", "softmax", "-e", "2", rows)
    done = run.fails(65, "train", "-s", "mcmc", "--loss", "probit", rows)
    assert done.stderr.endswith("or --loss softmax if they are classes, and -s adagrad\n")


PAIRS = "user,film\n" + "".join(f"u{j % 23},f{j * j % 97}\n" for j in range(200))


def test_observed_pairs_without_labels_are_sent_to_negatives(run, tmp_path):
    (tmp_path / "log.csv").write_text(PAIRS)
    said = run.fails(65, "train", "log.csv").stderr
    assert "fmcli negatives adds labels" in said
    run.ok("negatives", "--pair", "user,film", "log.csv", "-o", "rows.csv")
    run.ok("train", "-q", "--label", "label", "rows.csv")
    (tmp_path / "ones.csv").write_text("\n".join(f"{line},{'1' if j else 'y'}" for j, line in enumerate(PAIRS.split())))
    for options, status in ((), 65), (("--loss", "bpr", "--group-field", "user"), 65), (("--loss", "squared"), 0):
        said = run.fails(status, "train", "--label", "y", *options, "ones.csv").stderr
        assert "fmcli negatives adds random other pairs with the label 0" in said.splitlines()[-1]
        assert "--loss squared" not in said.splitlines()[-1]


def test_a_table_names_its_groups_by_a_column(run, tmp_path):
    (tmp_path / "rows.csv").write_text("user,film,y\n" + "".join(f"u{j % 9},f{j % 7},{j % 2}\n" for j in range(90)))
    for options in ("--loss", "bpr"), ("-x", "ndcg"):
        said = run.fails(65, "train", "--label", "y", *options, "rows.csv").stderr
        assert "use --group-field COLUMN" in said
        assert "qid" not in said
    run.ok("train", "-q", "--label", "y", "--loss", "bpr", "--group-field", "user", "rows.csv")


@pytest.mark.parametrize("command", [["train", "--label", "y"], ["cv", "--label", "y"], ["convert", "--label", "y"]])
def test_separators_of_cells_and_of_values_are_not_confused(run, tmp_path, command):
    (tmp_path / "t.csv").write_text("a;y\n" + "".join(f"{'xyz'[j % 3]};{j % 2}\n" for j in range(60)))
    said = run.fails(2, *command, "--sep", ";", "t.csv").stderr
    assert "there is no option '--sep'; did you mean --delimiter?" in said
    said = run.fails(2, *command, "--separator", ";", "t.csv").stderr
    assert "between cells, it is --delimiter ';'" in said
    run.ok(*command, "--delimiter", ";", "t.csv")
