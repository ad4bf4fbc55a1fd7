"""What a quick search has chosen holds for the model, its updates, and a run that continues."""

import random
import re
import time

import numpy as np
import pytest
from inprocess import instead

import fmcli
from fmcli.sklearn import FMRegressor


@pytest.fixture
def rows(rng, tmp_path):
    """Dense rows, whose labels are the interactions of an FM of more factors than there are by default."""
    factors, x = rng.normal(0, 0.5, size=(12, 12)), rng.normal(size=(300, 12))
    label = ((x @ factors) ** 2 - x**2 @ factors**2).sum(axis=1) / 2
    with (tmp_path / "rows").open("w") as file:
        for y, row in zip(label, x, strict=True):
            file.write(f"{y:.4f} {' '.join(f'{j}:{value:.4f}' for j, value in enumerate(row))}\n")
    return "rows"


def rank_of(run, path):
    return int(re.search(r"^rank +(\d+)", run.ok("inspect", path).stdout.decode(), re.MULTILINE)[1])


def test_a_chosen_rank_is_that_of_the_model_of_updates_and_for_any_number_of_threads(run, rows, tmp_path):
    log = run.ok("train", "--quick-search", "-j", "1", "-o", "one", rows).stderr
    assert re.search(r"^tried --rank 16: rmse [\d.]+ against [\d.]+; using it$", log, re.MULTILINE)
    run.ok("train", "-q", "--quick-search", "-j", "2", "-o", "two", rows)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert rank_of(run, "one") == 16
    run.ok("train", "-q", "--quick-search", "-i", "one", "-o", "update", rows)
    assert rank_of(run, "update") == 16
    for options in (["--quick-search", "-k", "8"], ["--no-quick-search"]):
        assert "--rank 16" not in run.ok("train", *options, "-o", "usual", rows).stderr
        assert rank_of(run, "usual") == 8


@pytest.mark.parametrize("seed", [1, 4])
def test_the_log_names_what_the_model_uses(run, tmp_path, seed):
    """Also if another solver replaces the values that were chosen for the usual solver, as with the second seed."""
    rng = random.Random(seed)
    rows = []
    for _ in range(400):
        rooms = rng.randint(1, 6)
        rows.append(f"{rng.choice(['Rome', 'Oslo', 'Bonn', 'Nice'])},{rooms},{int(rng.expovariate(2 / rooms))}")
    (tmp_path / "t.csv").write_text("\n".join(["city,rooms,n", *rows]) + "\n")
    log = run.ok("train", "--quick-search", "--label", "n", "-o", "m", "t.csv").stderr
    found = run.ok("inspect", "-q", "m").stdout.decode()
    used = re.findall(r"^tried (.*): rmse .*; using it$", log, re.MULTILINE)
    assert used
    for option, value in re.findall(r"--(\S+) (\S+)", " ".join(used)):
        shown = re.search(rf"^{option} +(\S+)", found, re.MULTILINE)[1]
        assert (shown if option == "solver" else float(shown)) == (value if option == "solver" else float(value))


def test_a_run_continues_with_the_chosen_rank(run, start, rows, tmp_path):
    command = ("train", "--quick-search", "-s", "adagrad", "-r", ".05", "-e", "200", "--patience", "200", "--no-refit")
    run.ok(*command, "-o", "whole", rows)
    process = start(*command, "--checkpoint", "c", "--checkpoint-every", "1e-9", "-o", "m", rows)
    while not (tmp_path / "c").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    resume = (*command, "--checkpoint", "c", "--resume")
    for other in (["-k", "8"], ["--l2", "0.5"], ["--no-quick-search"], ["-e", "150"]):
        assert "the checkpoint of another run" in run.fails(2, *instead(resume, *other), "-o", "m", rows).stderr
    log = run.ok(*resume, "-o", "m", rows).stderr
    assert "continuing with " in log
    assert re.findall("^quick search: .*", log, re.MULTILINE) == ["quick search: --rank 16, as in the checkpoint"]
    assert rank_of(run, "m") == 16
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_other_name_of_the_option_is_accepted_and_not_listed(run, rows, tmp_path):
    run.ok("train", "--quick-search", "--look", "-e", "1", "-o", "m", rows)
    error = run.fails(2, "train", "--quick-search", "--no-look", "-o", "m", rows).stderr
    assert "--quick-search and --no-quick-search set the same option" in error
    assert "-look" not in run.ok("train", "--help-all").stdout.decode()
    models = [fmcli.train(str(tmp_path / rows), look=look) for look in (True, False)]
    assert [model.parameters["V"].shape[-1] for model in models] == [16, 8]
    with pytest.raises(ValueError, match="quick_search is given twice"):
        fmcli.train(str(tmp_path / rows), look=False, quick_search=True)
    assert FMRegressor(look=False).get_params()["quick_search"] is False


@pytest.fixture
def small_fields(rng, tmp_path):
    """Rows with a feature of each of 30 fields, which have 5 to 20 features of equal variance: too few for a prior."""
    sizes, rows, rank = rng.integers(5, 21, size=30), 1_500, 4
    begins, features = np.cumsum(sizes) - sizes, sizes.sum()
    ids = begins + rng.integers(sizes, size=(rows, len(sizes)))
    factors, weights = rng.normal(0, 0.25, size=(features, rank)), rng.normal(0, 0.3, size=features)
    squares = (factors[ids].sum(axis=1) ** 2 - (factors[ids] ** 2).sum(axis=1)).sum(axis=1)
    label = weights[ids].sum(axis=1) + squares / 2 + rng.normal(size=rows)
    with (tmp_path / "fields").open("w") as file:
        for y, row in zip(label, ids, strict=True):
            file.write(f"{y:.4f} {' '.join(f'{field}:{one}:1' for field, one in enumerate(row))}\n")
    (tmp_path / "groups").write_text("".join(f"{feature % 2}\n" for feature in range(features)))
    return "fields"


def test_priors_of_many_small_fields_are_pooled(run, small_fields):
    train = ("train", "-s", "mcmc", "--quick-search", "-e", "120")
    log = run.ok(*train, "-o", "m", small_fields).stderr
    assert re.search(r"^tried --pool-priors: rmse [\d.]+ against [\d.]+; using it$", log, re.MULTILINE)
    assert "\npriors: one for all features\n" in log
    assert "\npriors: one for all features\n" in run.ok("train", "-i", "m", "-e", "1", "-o", "n", small_fields).stderr
    for given in (["--no-pool-priors"], ["--prior-groups", "groups"]):
        assert "pool-priors" not in run.ok(*train, *given, "-o", "m", small_fields).stderr
