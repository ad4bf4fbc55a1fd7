"""fmcli tune: the same trials for any number of threads and after an end, the command that it prints, and errors."""

import fcntl
import json
import re
import time

import numpy as np
import pytest
from inprocess import instead

import fmcli

TUNE = [
    "tune",
    "-q",
    "-m",
    "fm,lifted-pn",
    "-s",
    "adagrad,cd",
    "-k",
    "1,2,4",
    "--l2",
    "1e-5..1e-2",
    "--folds",
    "1",
    "--trials",
    "9",
]


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    value = rng.choice([-1.0, 1.0], size=(120, 4))
    label = value[:, 0] * value[:, 1] + value[:, 2] * value[:, 3] + 0.1 * rng.normal(size=120)
    lines = (f"{y:.3f} {' '.join(f'{j}:{v:g}' for j, v in enumerate(x))}\n" for y, x in zip(label, value, strict=True))
    (tmp_path / "t").write_text("".join(lines))
    return "t"


def test_a_study_goes_on_and_the_printed_command_trains_the_same_model(run, rows, tmp_path):
    printed = [
        run.ok(*TUNE, "-j", str(n), "--study", f"s{n}", "--log-json", "log", "--refit", "-o", f"m{n}", rows).stdout
        for n in (1, 2)
    ]
    study = (tmp_path / "s1").read_bytes()
    assert printed[0] == printed[1]
    assert (tmp_path / "s2").read_bytes() == study
    first = b"".join(study.splitlines(keepends=True)[:9])
    (tmp_path / "killed").write_bytes(first + b'{"event": "tri')
    assert run.ok(*TUNE, "--study", "killed", rows).stdout == printed[0]
    assert (tmp_path / "killed").read_bytes() == study
    trials = [json.loads(line) for line in study.splitlines()[1:]]
    assert {one["trial"] for one in trials} == set(range(9))
    assert {(one["model"], one["solver"]) for one in trials} >= {("fm", "adagrad"), ("fm", "cd"), ("lifted-pn", "cd")}
    logged = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [{k: v for k, v in one.items() if k != "seconds"} for one in logged if one["event"] == "trial"] == trials
    assert all(one["seconds"] >= 0 for one in logged)
    words = printed[0].decode().split()
    assert words[:2] == ["fmcli", "train"]
    run.ok(*words[1:], "-q", "-o", "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m1").read_bytes() == (tmp_path / "m2").read_bytes()
    assert b"valid-rmse" in run.ok("report", "-q", "--log", "s1").stdout
    ranged = {"model": "fm,lifted-pn", "solver": "adagrad,cd", "rank": "1,2,4", "l2": "1e-5..1e-2"}
    tuned = fmcli.tune(str(tmp_path / rows), folds=1, trials=9, study=str(tmp_path / "s1"), **ranged)
    tuned.model.save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "m1").read_bytes()
    assert (tmp_path / "s1").read_bytes() == study
    assert len(tuned.trials) == 9
    fmcli.train(str(tmp_path / rows), **tuned.options).save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "m1").read_bytes()
    other = run.fails(2, *TUNE, "--l2-w", "0", "--study", "s1", rows).stderr
    assert "s1 is the study of another search: --l2-w was 1e-05 and is 0.0; remove it" in other
    other = run.fails(2, *instead(TUNE, "--folds", "2", command="tune"), "--study", "s1", rows).stderr
    assert "s1 is the study of another search: the numbers of folds differ; remove it" in other
    (tmp_path / rows).write_text((tmp_path / rows).read_text().replace("1:-1", "1:1", 1))
    other = run.fails(2, *TUNE, "--study", "s1", rows).stderr
    assert "search: the training data or the weights of rows have changed; remove it" in other
    (tmp_path / "s1").write_text('{"event": "epoch"}\n')
    assert "s1:1: is not a line of a study" in run.fails(65, *TUNE, "--study", "s1", rows).stderr


def test_a_study_that_is_in_use_or_none_is_left_alone(run, rows, tmp_path):
    (tmp_path / "config.json").write_text('{"my": "only copy"}')
    (tmp_path / "link").symlink_to("config.json")
    for name in ("config.json", "link"):
        assert f"{name}: is not a study" in run.fails(65, *TUNE, "--study", name, rows).stderr
    assert (tmp_path / "config.json").read_text() == '{"my": "only copy"}'
    with open(tmp_path / "busy", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "busy: another run is using it" in run.fails(75, *TUNE, "--study", "busy", rows).stderr
    assert not (tmp_path / "busy").read_text()


def test_the_first_trial_has_the_values_nearest_to_the_usual_ones(run, rows):
    """The usual rank is 8, and L2 1e-5."""
    options = "-m", "fm", "-s", "adagrad", "-k", "5,3", "--l2", "1e-4..1", "--no-bias", "--seed", "4"
    found = run.ok("tune", "-q", *options, "--trials", "1", rows).stdout.decode()
    epochs = re.search(r"-e \d+", found)[0]
    searched = f"--l2 0.0001 -k 5 --holdout 0 {epochs} --no-quick-search --no-bias --seed 4 t\n"
    assert found == f"fmcli train -m fm -s adagrad {searched}"


def test_kinds_and_solvers_that_are_named_need_not_take_all_ranges(run, rows, tmp_path):
    options = "-m", "linear,fm", "-s", "adagrad,mcmc", "-k", "2,8", "--l2", "1e-6..1e-1", "--trials", "4"
    done = run.ok("tune", *options, "--folds", "1", "--holdout", "0.25", "--study", "s", "--refit", "-o", "m", rows)
    for said in ("linear adagrad has no --rank", "linear mcmc has no --rank and no --l2", "fm mcmc has no --l2"):
        assert f"\n{said}\n" in done.stderr
    assert "4 trials, compared by rmse on 30 held-out rows" in done.stderr
    tried = {(one["model"], one["solver"]) for one in map(json.loads, (tmp_path / "s").read_text().splitlines()[1:])}
    assert tried == {(model, solver) for model in ("linear", "fm") for solver in ("adagrad", "mcmc")}


def test_no_trial_is_made_twice(run, rows, tmp_path):
    run.ok("tune", "-m", "fm", "-s", "adagrad", "-k", "4,8", "--trials", "9", "--study", "s", rows)
    found = {one["trial"]: one for one in map(json.loads, (tmp_path / "s").read_text().splitlines()[1:])}
    assert [one["options"] for one in found.values()] == [{}, {"rank": 4}]


def test_a_quiet_search_prints_only_the_command(run, rows):
    done = run.ok("tune", "-q", "-m", "fm,hofm", "-s", "adagrad,cd", "--trials", "1", "--refit", "-o", "m", rows)
    assert done.stderr == ""
    assert done.stdout.startswith(b"fmcli train ")


def test_a_search_ends_in_time_and_says_that_the_machine_counts(run, rows):
    begin = time.perf_counter()
    result = run.ok("tune", "--max-seconds", "0.5", "-v", rows, rows)
    assert time.perf_counter() - begin < 30  # without a limit, it would not end; a busy machine may be slow
    assert "a faster machine may find another result" in result.stderr
    assert re.match(rb"fmcli train -m .* -v t t\n", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--l2", "1e-1..1e-6"], "a range begins with its smaller end; write 1e-6..1e-1"),
        (
            ["-k", "4..x"],
            "--rank: 'x' is not a valid integer; give 1 to 65536, several values as A,B,C, or a range as A..B",
        ),
        (["-k", "0,4"], "0 is not permitted"),
        (["-m", "fm,fmm"], "did you mean fm"),
        (["-e", "3,4"], "--epochs is not tuned: the search chooses the number of epochs"),
        (["-e", "3"], "tune and --epochs cannot be combined"),
        (["--seed", "1..4"], "--seed is not tuned"),
        (["--kernel", "poly..anova"], "--kernel has no range"),
        (["--holdout", "0"], "tune and --holdout 0 cannot be combined"),
        (["--folds", "3", "-v", "t"], "--folds K and -v cannot be combined"),
        (["--folds", "3", "--holdout", "0.2"], "--folds K and --holdout cannot be combined"),
        (["-m", "linear,poly2", "-k", "2,3"], "--rank does not apply to linear"),
        (["-m", "fm,sha2", "-s", "mcmc,cd", "--alpha", "1..2"], "--alpha does not apply to fm"),
        (["--auto"], "tune and --auto cannot be combined"),
        (["-s", "mcmc", "--l2", "0.1..1"], "mcmc draws the strength"),
        (["--trials", "0"], "0 is not in the range"),
        (["--path", "3"], "a path is over the values of one penalty"),
        (["--anchors", "2,3"], "--anchors does not apply to fm"),
    ],
)
def test_errors(run, rows, arguments, message):
    assert message in run.fails(2, "tune", "-q", *arguments, rows).stderr
