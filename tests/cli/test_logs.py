"""Logs for operators: the first and the last event of the JSON log, and lines with the time."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

import fmcli
from fmcli.cli.train.start import shown
from fmcli.kernels.simd import REAL

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def started(run, folder, *arguments):
    """The start event of a run that writes log and m, and the options by name."""
    run.ok("train", "-q", "--log-json", "log", "-o", "m", *arguments)
    first = events(folder / "log")[0]
    assert first["event"] == "start"
    return first, {name: (option["value"], option["from"]) for name, option in first["options"].items()}


def test_what_the_run_is(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    labels = [line.split()[0] for line in rows.read_text().splitlines()]
    first, _ = started(run, tmp_path, "-j", "2", "--holdout", "0.1", rows)
    assert (first["version"], first["real"]) == (fmcli.__version__, {"float": "float32", "double": "float64"}[REAL])
    assert first["command"][0] == "train"
    assert first["command"][-2:] == ["0.1", str(rows)]
    assert (first["rows"], first["held_out"], first["valid_rows"], first["threads"]) == (2500, 250, 250, 2)
    assert (first["nonzeros"], first["memory_needed"] > 1000) == (34_679, True)
    first, _ = started(run, tmp_path, "-v", sample / "adult.test.libsvm", rows)
    assert (first["rows"], first["held_out"], first["valid_rows"]) == (2500, 0, 1500)
    assert first["labels"] == pytest.approx({name: labels.count(name) / len(labels) for name in ("-1", "1")})
    weighted, _ = started(run, tmp_path, "--class-weight", "1=3", "--holdout", "0", rows)
    share = 3 * labels.count("1") / (3 * labels.count("1") + labels.count("-1"))
    assert weighted["labels"] == pytest.approx({"-1": 1 - share, "1": share})
    numbers, _ = started(run, tmp_path, "--holdout", "0", sample / "diabetes.train.libsvm")
    values = [float(line.split()[0]) for line in (sample / "diabetes.train.libsvm").read_text().splitlines()]
    mean = sum(values) / len(values)
    assert numbers["labels"] == pytest.approx({"min": min(values), "mean": mean, "max": max(values)})


def test_classes_have_their_names(run, tmp_path):
    (tmp_path / "rows").write_text("".join(f"{name} {row}:1 9:1\n" for row, name in enumerate(["b", "a", "c", "b"])))
    assert started(run, tmp_path, "--loss", "softmax", "rows")[0]["labels"] == {"a": 0.25, "b": 0.5, "c": 0.25}


def test_the_digest_is_of_the_rows(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    found = [started(run, tmp_path, *options, rows)[0]["digest"] for options in ([], ["-j", "1", "-k", "2"])]
    text = rows.read_text()
    (tmp_path / "changed").write_text(text[:-2] + "2" if text.endswith("1") else text.rstrip()[:-1] + "2\n")
    other = started(run, tmp_path, "changed")[0]["digest"]
    stored = [started(run, tmp_path, "--disk", "--cache", "c", rows)[0]["digest"] for _ in range(2)]
    assert found[0] == found[1] != other
    assert stored[0] == stored[1]
    assert all(re.fullmatch("[0-9a-f]{8}", one) for one in (*found, *stored))


def test_where_options_come_from(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    _, options = started(run, tmp_path, "--l2", "0.01", "--rank", "3", "-x", "auc", "--no-bias", rows)
    assert options["model"] == ("fm", "default")
    assert options["loss"] == ("logistic", "derived from data")
    assert options["epochs"] == (300, "derived from data")
    assert options["learning_rate"] == options["learning_rate_w"] == (0.05, "default")
    assert options["l2"] == options["l2_w"] == options["l2_v"] == (0.01, "command line")
    assert options["rank"] == (3, "command line")
    assert options["bias"] == (False, "command line")
    assert options["metrics"] == (["auc"], "command line")
    assert options["fail_worse_than_constant"] == (False, "default")
    assert options["output"] == ("m", "command line")
    assert options["inputs"] == ([str(rows)], "command line")
    # What was not given and has no value is left out, as are options of other models and solvers.
    assert not {"valid", "max_seconds", "order", "ftrl_power"} & options.keys()
    _, options = started(run, tmp_path, "-i", "m", "--l2-w", "0.02", rows)
    assert options["model"] == ("fm", "model of -i")
    assert options["rank"] == (3, "model of -i")
    assert options["l2"] == options["l2_v"] == (0.01, "model of -i")
    assert options["l2_w"] == (0.02, "command line")
    assert options["learning_rate"] == (0.05, "default")


def test_secrets_are_left_out():
    address = "https://ann:secret@host/rows?key=secret"
    assert shown(["train", f"--valid={address}", [address]]) == [
        "train",
        "--valid=https://host/rows",
        ["https://host/rows"],
    ]


@pytest.mark.parametrize("options", [["--online"], ["--ensemble", "2"], ["-s", "mcmc", "-e", "30"], ["-s", "lbfgs"]])
def test_each_mode_has_a_start_and_an_end(run, sample, tmp_path, options):
    first, _ = started(run, tmp_path, *options, sample / "adult.train.libsvm")
    assert (first["rows"] is None) == (first["digest"] is None) == (options == ["--online"])
    found = events(tmp_path / "log")
    assert [event["event"] for event in found].count("start") == 1
    assert found[-1]["event"] == "summary"
    assert 1 << 24 < found[-1]["peak_memory"] < 1 << 32
    assert "time" not in found[-1]


def test_lines_may_have_the_time(run, sample, tmp_path):
    rows = sample / "adult.train.libsvm"
    before = datetime.now(UTC)
    done = run("train", "--log-time", "--log-json", "log", "-e", "2", "-o", "m", rows)
    lines = done.stderr.splitlines()
    times = [re.match(rf"({STAMP}) \S", line)[1] for line in lines]
    times += [event["time"] for event in events(tmp_path / "log")]
    assert len(times) > 10
    moments = [datetime.fromisoformat(time) for time in times]
    assert all(before - timedelta(seconds=1) < moment < before + timedelta(seconds=60) for moment in moments)
    assert sorted(moments[: len(lines)]) == moments[: len(lines)]
    without = run("train", "--log-json", "log", "-e", "2", "-o", "m", rows)
    assert not re.search(STAMP, without.stderr + (tmp_path / "log").read_text())
    seconds, numbers = r"  [\d.]+ s$", r"[\d.,]*\d"  # an epoch has its seconds if it is slow
    logs = [line.split(" ", 1)[1] for line in lines], without.stderr.splitlines()
    stripped, plain = ([re.sub(numbers, "#", re.sub(seconds, "", line)) for line in log] for log in logs)
    assert stripped == plain


def test_errors_and_warnings_have_the_time(run, sample, adult_model, tmp_path):
    done = run("predict", "--log-time", adult_model, "none")
    assert re.fullmatch(rf"{STAMP} fmcli: error: cannot read none: .*\n", done.stderr)
    done = run("predict", "-q", "--log-time", "--on-bad-line", "skip", adult_model, "-", input=b"1 1:x\n")
    assert re.match(rf"{STAMP} fmcli: warning: ", done.stderr)
    assert done.stdout == b"nan\n"
    assert not re.search(STAMP, run("predict", adult_model, "none").stderr)
