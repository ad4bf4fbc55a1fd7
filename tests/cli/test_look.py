"""What a look has chosen holds for the model, its updates, and a run that continues."""

import re
import time

import pytest
from inprocess import instead


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
    log = run.ok("train", "--look", "-j", "1", "-o", "one", rows).stderr
    assert re.search(r"^look: rmse .* with --rank 16, .* with 8( \(\d folds\))?; using it$", log, re.MULTILINE)
    run.ok("train", "-q", "--look", "-j", "2", "-o", "two", rows)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert rank_of(run, "one") == 16
    run.ok("train", "-q", "--look", "-i", "one", "-o", "update", rows)
    assert rank_of(run, "update") == 16
    for options in (["--look", "-k", "8"], ["--no-look"]):
        assert "--rank 16" not in run.ok("train", *options, "-o", "usual", rows).stderr
        assert rank_of(run, "usual") == 8


def test_a_run_continues_with_the_chosen_rank(run, start, rows, tmp_path):
    command = ("train", "--look", "-s", "adagrad", "-e", "200", "--patience", "200", "--no-refit")
    run.ok(*command, "-o", "whole", rows)
    process = start(*command, "--checkpoint", "c", "--checkpoint-every", "1e-9", "-o", "m", rows)
    while not (tmp_path / "c").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    resume = (*command, "--checkpoint", "c", "--resume")
    for other in (["-k", "8"], ["--l2", "0.5"], ["--no-look"], ["-e", "150"]):
        assert "the checkpoint of another run" in run.fails(2, *instead(resume, *other), "-o", "m", rows).stderr
    log = run.ok(*resume, "-o", "m", rows).stderr
    assert "continuing with " in log
    assert re.findall("^look: .*", log, re.MULTILINE) == ["look: --rank 16, as in the checkpoint"]
    assert rank_of(run, "m") == 16
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
