"""Numbers at the edge of their range, and data of unusual shapes: a documented exit status and no warning from NumPy.

The runs of these tests treat NumPy's warnings as errors (conftest.py).
"""

import pytest
from inprocess import instead

from fmcli.registry.losses import LOSSES

# The allowed exit statuses: success, divergence, not enough memory, invalid data.
STATUSES = {0, 3, 4, 65}


def rows(label=lambda i: i * 0.5, value="1"):
    """ffm text with 12 rows of two entries, with the given labels and a single value."""
    return "".join(f"{label(i)} qid:{i % 2} 0:{i % 3}:{value} 1:{3 + i % 2}:{value}\n" for i in range(12))


def of(*labels):
    return lambda i: labels[i % len(labels)]


HOSTILE = {
    "labels whose difference overflows": rows(of("1e308", "-1e308", "3")),
    "labels whose sum overflows": rows(of("1e308", "1.1e308", "1.2e308")),
    "labels beyond floats": rows(of("1e38", "-3e38", "3")),
    "values beyond squares": rows(value="1e38"),
    "values below squares": rows(value="1e-44"),
    "values of zero": rows(value="0"),
}
SOLVERS = ("adagrad", "cd", "lbfgs")
OPTIONS = (["--holdout", "0.3"], ["--clip", "--scale", "standard", "-v", "v"], ["-e", "0", "--norm"])


@pytest.mark.parametrize("what", HOSTILE)
def test_training_on_hostile_numbers(run, tmp_path, what):
    (tmp_path / "t").write_text(HOSTILE[what])
    (tmp_path / "v").write_text(rows())
    for solver, options in [*zip(SOLVERS, OPTIONS, strict=True), ("lbfgs", OPTIONS[0]), ("adagrad", OPTIONS[2])]:
        done = run("train", *instead(["-s", solver, "-e", "2", "-o", "m"], *options), "t")
        assert done.returncode in STATUSES, done.stderr


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_that_are_infinite_or_undefined(run, tmp_path, loss):
    """The score of a row is +-inf or NaN if a value times a weight overflows."""
    few = of(0, 1) if LOSSES[loss].task in ("binary", "soft") else of(0, 1, 2)
    (tmp_path / "t").write_text(rows(few))
    (tmp_path / "h").write_text(rows(few, "3e38"))
    # Cutpoints between labels are at 0 without training.
    short = ["-s", "mcmc", "-e", "1", "--burn-in", "0", "--draws", "1"] if LOSSES[loss].drawn else ["-e", "0"]
    run.ok("train", *short, "--loss", loss, "--init-std", "1", "-o", "m", "t")
    for output in ("raw", "prob" if LOSSES[loss].load_link().probable else "label"):
        done = run.ok("predict", "--output-type", output, "m", "h")
        assert "12 of 12 rows have a score that is not finite" in done.stderr
    done = run.ok("evaluate", "m", "h")


@pytest.mark.parametrize(
    ("options", "status"), [(["--holdout", "nan"], 2), (["--init-std", "1e308"], 3)], ids=["holdout", "init-std"]
)
def test_numbers_of_options_at_the_edge(run, tmp_path, options, status):
    (tmp_path / "t").write_text(rows())
    done = run("train", "-e", "1", "-o", "m", *options, "t")
    assert done.returncode == status, done.stderr
    assert options[0] in done.stderr


def test_labels_that_no_parameter_holds(run, tmp_path):
    (tmp_path / "rows").write_text("1e300 0:1 1:1\n2e300 0:2 1:3\n-1e300 0:1 1:2\n")
    done = run.fails(3, "train", "--no-scale-labels", "rows")
    assert "labels have values up to 2e+300, too large for parameters of type " in done.stderr
    assert "--scale-labels" in done.stderr
    run.ok("train", "rows")


def test_no_step_is_proposed_that_could_not_help(run, tmp_path):
    (tmp_path / "rows").write_text("1 0:1e38 1:1\n0 0:2 1:3e38\n1 0:1 1:2\n0 1:5\n")
    done = run.fails(3, "train", "-s", "sgd", "rows")
    assert "smaller step" not in done.stderr
    assert "use --scale standard, or --scale max-abs if columns are sparse\n" in done.stderr
