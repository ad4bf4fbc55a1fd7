"""fmcli train: its output files, its log, and the effect of its options."""

import json
import os
import re
import shutil
import subprocess
import time

import click
import numpy as np
import pytest

from fmcli.cli.options import ALL
from fmcli.cli.train.command import command
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.scoring.metrics import METRICS
from fmcli.scoring.scorer import load_model
from fmcli.text import figure


def files(folder):
    return sorted(os.listdir(folder))


def help_text():
    context = click.Context(command, info_name="train", terminal_width=1000, max_content_width=1000)
    context.meta[ALL] = True
    return command.get_help(context)


def test_the_plain_line_writes_a_model_named_after_the_input_and_logs_to_stderr_only(run, sample, tmp_path):
    done = run.ok("train", "--verbose", "--holdout", "0", sample / "adult.train.libsvm", fork=True)
    assert done.stdout == b""
    assert files(tmp_path) == ["adult.train.libsvm.fm"]
    log = done.stderr
    assert re.search(r"^read \S+: 2,500 rows, 34,679 non-zeros, 122 features, libsvm, \S+ s, \d+ MB/s$", log, re.M)
    loss = "loss logistic: the labels have two values, -1 and 1 (positive)"
    assert f"\nmodel fm, solver adagrad, 1,099 parameters; {loss}\n" in log
    epochs = re.findall(r"^epoch +(\d+)  loss ([\d.]+)  penalty \S+  [\d.]+ s$", log, re.M)
    assert [int(number) for number, _ in epochs] == list(range(1, 11))
    assert float(epochs[-1][1]) < float(epochs[0][1])
    figures = dict(re.findall(r"^(\S+) {2,}(\S.*)$", log, re.M))
    seconds = figures.pop("seconds")
    assert float(seconds) > 0
    assert 10 < float(figures.pop("peak-memory").removesuffix(" MiB")) < 1000
    del figures["epoch"]
    assert 0 < float(figures.pop("train-logloss")) < float(epochs[-1][1])
    assert 0.5 < float(figures.pop("train-auc")) < 1
    # The bias is not counted; the parameters of features that never occur are zero.
    assert figures.pop("sparsity") == figure((122 - 117) / 122)
    assert figures == {
        "rows": "2,500",
        "non-zeros": "34,679",
        "features": "122 (117 occur)",
        "parameters": "1,099",
        "loss": epochs[-1][1],
    }
    short = run.ok("train", "--holdout", "0", "-o", "m", sample / "adult.train.libsvm").stderr
    assert len(short.splitlines()) <= 10
    assert "\nFits the training rows with AUC 0." in short
    assert re.search(r"\nWrote m in \S+ s\. Next: fmcli predict m NEW\n$", short)


def test_the_default_model_predicts_held_out_rows(run, sample, adult_model):
    labels = [line.split()[0] for line in (sample / "adult.test.libsvm").read_text().splitlines()]
    predicted = run("predict", "--sign", adult_model, sample / "adult.test.libsvm").stdout.decode().split()
    assert set(labels) == set(predicted) == {"-1", "1"}
    assert sum(a == b for a, b in zip(labels, predicted, strict=True)) / len(labels) > 0.82


def test_threads_do_not_change_a_byte_and_the_seed_does(run, large, tmp_path):
    def train(name, *options):
        run.ok("train", "-q", "-e", "2", *options, "-o", name, large)
        return (tmp_path / name).read_bytes()

    one = train("one", "-j", "1")
    assert one == train("two", "-j", "2")
    assert one == train("three", "-j", "3")
    assert one != train("seed", "--seed", "1")
    assert one != train("order", "--no-shuffle")


def test_files_are_read_as_one_and_compressed_as_plain(run, sample, tmp_path):
    lines = (sample / "adult.train.libsvm").read_bytes().splitlines(keepends=True)
    (tmp_path / "a").write_bytes(b"".join(lines[:1000]))
    (tmp_path / "b").write_bytes(b"".join(lines[1000:]))
    with (tmp_path / "b.gz").open("wb") as packed:
        subprocess.run(["gzip", "-c", tmp_path / "b"], stdout=packed, check=True)
    run.ok("train", "-q", sample / "adult.train.libsvm")
    done = run("train", "a", "b.gz")
    assert "read a and 1 more: 2,500 rows" in done.stderr
    assert (tmp_path / "a.fm").read_bytes() == (tmp_path / "adult.train.libsvm.fm").read_bytes()


def test_standard_input_needs_a_name_and_trains_on_all_rows(run, sample, tmp_path):
    text = (sample / "adult.train.libsvm").read_bytes()
    refused = run.fails(2, "train", "-", input=text)
    assert "use -o FILE" in refused.stderr
    run.ok("train", "-q", "-o", "m", "-", input=text)
    run.ok("train", "-q", "-o", "same", "--holdout", "0", sample / "adult.train.libsvm")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "same").read_bytes()


def test_no_epochs_write_start_values(run, sample, tmp_path):
    done = run.ok("train", "-e", "0", "-o", "m", sample / "adult.train.libsvm")
    assert "epoch " not in done.stderr
    model = load_model(str(tmp_path / "m")).model
    assert not model.parameters["w"].any()
    assert model.parameters["V"].any()


def test_a_dry_run_reports_the_memory_and_writes_nothing(run, sample, tmp_path):
    done = run.ok("train", "--dry-run", sample / "adult.train.libsvm")
    assert files(tmp_path) == []
    figures = dict(re.findall(r"^(\S+) {2,}(\S.*)$", done.stderr, re.M))
    assert figures["rows"] == "2,500 (500 held out)"
    assert figures["non-zeros"] == "34,679"
    assert figures["features"] == "122"
    assert figures["parameters"] == "1,099"
    assert re.fullmatch(r"[\d.]+ KiB needed", figures["memory"])
    assert re.fullmatch(r"[\d.]+ [KMGT]iB", figures["available"])


def test_a_dry_run_reports_a_lack_of_memory(run, tmp_path):
    (tmp_path / "huge").write_text("1 999999:1\n-1 1:1\n")
    done = run.ok("train", "--dry-run", "-e", "1", "-k", "65536", "huge")
    assert re.search(r"^parameters +65,537,000,001$", done.stderr, re.M)
    assert "needed" in done.stderr


def test_quiet_says_nothing_and_verbose_says_all_values(run, sample):
    assert run("train", "-qq", "-e", "2", "-o", "m", sample / "diabetes.train.libsvm").stderr == ""
    log = run(
        "train", "--verbose", "-e", "2", "-s", "adagrad", "-k", "3", "-o", "m", sample / "diabetes.train.libsvm"
    ).stderr
    for line in ("--rank 3", "--learning-rate 0.05", "--seed 0", "--shuffle"):
        assert f"\n{line}\n" in log


@pytest.mark.parametrize(
    ("labels", "options", "line"),
    [
        ("0 1 1", [], "loss logistic: the labels have two values, 0 and 1 (positive)"),
        ("2 1 2", [], "loss logistic: the labels have two values, 1 and 2 (positive)"),
        ("0.5 1 3", [], "loss squared: the labels have more than two values"),
        ("0 1 1", ["--loss", "squared"], "loss squared: from --loss"),
        ("0 1 1", ["--loss", "logistic"], "loss logistic: from --loss"),
    ],
)
def test_the_loss_is_chosen_by_the_labels_and_said(run, tmp_path, labels, options, line):
    (tmp_path / "t").write_text("".join(f"{label} 1:1\n" for label in labels.split()))
    assert f"; {line}\n" in run("train", *options, "t").stderr


def test_one_q_keeps_warnings_and_two_keep_errors(run, tmp_path):
    (tmp_path / "t").write_text("1 1:1 1:2\n0 2:1\n1 3:1 3:1 4:1\n0 1:1\n")
    warning = "fmcli: warning: 2 rows have an index more than once; its values were added"
    lines = run("train", "-q", "-e", "1", "t").stderr.splitlines()
    assert warning in lines
    assert all(line.startswith("fmcli: warning: ") for line in lines)
    assert run("train", "-qq", "-e", "1", "t").stderr == ""
    assert run("train", "-qq", "none").stderr == "fmcli: error: cannot read none: No such file or directory\n"


def test_fields_and_indices_the_wrong_way_round_are_suspected(run, sample, tmp_path):
    (tmp_path / "t").write_text("1 17:0:1 90:1:1\n0 5:0:1 91:1:1\n1 3:0:2\n")
    done = run("train", "-e", "1", "t")
    assert "\nfmcli: warning: t has more fields than features, 92 and 2: if its entries are index:field" in done.stderr
    done = run("train", "-q", "-e", "1", "-o", "m", sample / "adult.train.ffm")
    assert "more fields" not in done.stderr
    done = run("train", "-e", "1", "-o", "m", sample / "adult.train.ffm")
    assert re.search(r"^read .*, 14 fields, ffm$", done.stderr, re.M)


def test_names_of_files_are_quoted_as_they_are(run, sample, tmp_path):
    text = (sample / "diabetes.train.libsvm").read_bytes()
    for name in ("ab'c.txt", "a\nb\x1b[31m.txt"):
        (tmp_path / name).write_bytes(text)
    done = run("train", "-e", "1", "ab'c.txt")
    assert done.stderr.startswith("read ab'c.txt: 331 rows")
    done = run("evaluate", "--predictions", "ab'c.txt", "ab'c.txt")
    assert done.stderr.startswith("fmcli: error: ab'c.txt:1: found '151 0:")
    done = run("train", "-e", "1", "a\nb\x1b[31m.txt")
    assert done.stderr.startswith(r"read $'a\nb\x1b[31m.txt': 331 rows")
    assert "\x1b" not in done.stderr
    assert "did you mean fmcli train 'ab'\"'\"'c.txt'?" in run("ab'c.txt").stderr


def test_an_older_model_is_replaced_and_a_diverged_run_leaves_it(run, sample, tmp_path):
    shutil.copy(sample / "diabetes.train.libsvm", tmp_path / "t")
    run.ok("train", "-q", "-e", "2", "t")
    older = (tmp_path / "t.fm").read_bytes()
    done = run.fails(3, "train", "-s", "sgd", "-r", "1e6", "t")
    assert "try a smaller step: --learning-rate 0.01 " in done.stderr
    assert (tmp_path / "t.fm").read_bytes() == older
    assert files(tmp_path) == ["t", "t.fm"]
    run.ok("train", "-e", "1", "t")
    assert (tmp_path / "t.fm").read_bytes() != older


VALUES = {int: "3", float: "0.25", bool: None, str: "word"}


def test_every_registered_option_has_a_flag_and_is_not_given_unless_it_is():
    text, usual = help_text(), command.make_context("train", ["x"]).params
    for name, option in OPTIONS.items():
        assert usual[name] is None
        for flag in (option.flag, *option.flags):
            value = VALUES[option.kind]
            arguments = [flag, "x"] if value is None else [flag, value, "x"]
            expected = not option.negative if value is None else option.kind(value)
            assert command.make_context("train", arguments).params[name] == expected
        assert option.flag in text


def test_options_reach_the_model(run, sample, tmp_path):
    kind = ["-m", "shfm", "-s", "ftrl", "-k", "3", "--no-bias"]
    options = [*kind, "--l1", "0.5", "--l1-v", "0.25", "--alpha", "0.2", "-e", "3"]
    run.ok("train", "-q", *options, "-o", "m", sample / "adult.train.libsvm")
    meta = load_model(str(tmp_path / "m")).meta
    assert (meta["model"], meta["solver"], meta["training"]["epochs"]) == ("shfm", "ftrl", 3)
    wanted = {"rank": 3, "bias": False, "l1": 0.5, "l1_w": 0.5, "l1_v": 0.25, "alpha": 0.2, "alpha_w": 0.2, "epochs": 3}
    assert {name: meta["options"][name] for name in wanted} == wanted


def test_ffm_text_is_read_by_its_columns(run, sample, adult_model, tmp_path):
    done = run("train", "--no-quick-search", "-o", "m", sample / "adult.train.ffm")
    assert "122 features, 14 fields, ffm\n" in done.stderr
    assert load_model(str(tmp_path / "m")).meta["format"] == "ffm"
    assert (
        load_model(str(tmp_path / "m")).model.parameters["V"] == load_model(str(adult_model)).model.parameters["V"]
    ).all()


def test_the_help_has_all_pieces():
    text = help_text()
    assert f": {', '.join([*METRICS, 'sparsity'])}. [" in text
    for piece in (*MODELS.values(), *SOLVERS.values(), *LOSSES.values()):
        assert re.search(rf"^  {piece.name} +{re.escape(piece.help)}$", text, re.M)


def test_rows_are_scaled_where_the_model_wants_it(run, sample, tmp_path):
    options = ["-q", "-e", "3"]
    run.ok("train", *options, "--norm", "-o", "norm", sample / "adult.train.libsvm")
    run.ok("train", *options, "-o", "plain", sample / "adult.train.libsvm")

    def predict(model, text):
        return run("predict", "--raw", model, input=text).stdout

    one, three = b"3:1 75:1\n3:2\n", b"3:3 75:3\n3:6\n"
    assert predict("norm", one) == predict("norm", three)
    assert predict("plain", one) != predict("plain", three)
    # Training on rows that are already normalized gives the same model.
    lines = [line.split() for line in (sample / "adult.train.libsvm").read_text().splitlines()]
    scaled = [
        " ".join([label, *(f"{entry.split(':')[0]}:{len(entries) ** -0.5!r}" for entry in entries)])
        for label, *entries in lines
    ]
    (tmp_path / "scaled").write_text("\n".join(scaled) + "\n")
    run.ok("train", *options, "-o", "beforehand", "scaled")
    norm, beforehand = (load_model(str(tmp_path / name)).model.parameters for name in ("norm", "beforehand"))
    for name in norm:
        np.testing.assert_allclose(norm[name], beforehand[name], atol=1e-5)


@pytest.mark.parametrize("model", ["sglfm", "glfm", "l1fm"])
def test_models_that_select_features_do(run, sample, tmp_path, model):
    options = [*(["--l1", "1e-3"] if model != "glfm" else []), *(["--group-l1", "1e-3"] if model != "l1fm" else [])]
    options += ["--verbose", "-e", "5", "-r", "0.03"]
    done = run.ok("train", "-m", model, *options, "-o", "m", sample / "adult.train.libsvm")
    assert f"\nmodel {model}, solver fobos, " in done.stderr
    assert 0.05 < float(re.search(r"^sparsity +([\d.]+)$", done.stderr, re.M)[1]) < 1


def test_more_anchors_than_rows_get_a_warning(run, tmp_path):
    (tmp_path / "t").write_text("".join(f"{row % 2} {row}:1 9:1\n" for row in range(5)))
    log = run("train", "-m", "llfm", "--anchors", "6", "-e", "1", "t").stderr
    assert "fmcli: warning: 6 anchors start from only 5 rows" in log
    assert "use --anchors 5 or fewer" in log
    assert "anchors start" not in run("train", "-m", "llfm", "--anchors", "5", "-e", "1", "t").stderr
    assert "anchors start" not in run("train", "-i", "t.fm", "-e", "1", "-o", "again", "t").stderr


def test_max_seconds(run, sample, tmp_path):
    path = sample / "adult.train.libsvm"
    begin = time.monotonic()
    options = ("-e", "1000000", "--holdout", "0", "--max-seconds", "0.5", "--log-json", "log", "-o", "m")
    done = run.ok("train", *options, path)
    assert time.monotonic() - begin < 60
    assert "the time is over (--max-seconds)" in done.stderr
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["out_of_time"] is True
    run.ok("predict", "m", path)
    refused = run.fails(2, "train", "--max-seconds", "1", "--refit", path)
    assert "--refit and --max-seconds cannot be combined" in refused.stderr
