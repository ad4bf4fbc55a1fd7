"""fmcli train with validation data: the held-out rows, the epoch that is kept, and the reported metrics."""

import json
import math
import os
import re
import subprocess

import numpy as np
import pytest

from fmcli.scoring.scorer import load_model
from fmcli.text import figure


def events(path):
    """Return the epochs and the summary of a JSON log; every line must be valid JSON."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert lines.pop(0)["event"] == "start"
    lines = [line for line in lines if line["event"] != "refit"]
    assert [line.pop("event") for line in lines] == ["epoch"] * (len(lines) - 1) + ["summary"]
    return lines[:-1], lines[-1]


def table(log):
    """Return the metrics at the end of a log."""
    return dict(re.findall(r"^([a-z][a-z0-9-]*) {2,}(\S.*?)(?:  \(best constant [-\d.]+\))?$", log, re.M))


def labels(path):
    return np.array([float(line.split()[0]) for line in path.read_text().splitlines()])


def predictions(run, *arguments):
    done = run.ok("predict", *arguments)
    return np.array([line.split() for line in done.stdout.decode().splitlines()], float)


def logloss(y, p):
    return -np.log(np.where(y > 0, p, 1 - p)).mean()


def auc(y, p):
    difference = p[y > 0][:, None] - p[y <= 0][None, :]
    return ((difference > 0) + 0.5 * (difference == 0)).mean()


def test_many_rows_hold_some_out_and_say_so(run, large, tmp_path):
    done = run.ok("train", "--verbose", "-e", "2", "-o", "m", "--log-json", "log", large)
    line = (
        "held out 2,000 rows, 5 %, to choose the epoch; the model is then retrained on all rows (--no-refit does not)"
    )
    assert f"\n{line}\n" in done.stderr
    folds = ", as cross-validation suggests"
    assert re.search(rf"; retraining on all 40,000 rows for [12] epochs?(?:{folds})?$", done.stderr, re.M)
    assert "\nhint: the labels are few distinct whole numbers; if they are classes, use --" in done.stderr
    epochs, summary = events(tmp_path / "log")
    figures = table(done.stderr)
    assert figures["rows"] == "40,000 (2,000 held out, then trained on)"
    assert figures["valid-rmse"] == figure(epochs[summary["best_epoch"] - 1]["valid"]["rmse"])
    assert figures["best-epoch"] == f"{summary['best_epoch']} of 2"
    assert (summary["rows"], summary["refit"]) == (40_000, True)
    assert summary["valid"].keys() == summary["train"].keys() == {"rmse", "mae"}
    for said, epoch in zip(
        re.findall(r"^epoch .*valid-rmse (\S+)  valid-mae (\S+)  ", done.stderr, re.M), epochs, strict=True
    ):
        assert said == tuple(figure(epoch["valid"][name]) for name in ("rmse", "mae"))


@pytest.mark.parametrize("options", [["-e", "2", "--holdout", "0"], ["-e", "1"], ["-e", "0"], ["stdin"], ["few"]])
def test_nothing_is_held_out(run, large, sample, tmp_path, options):
    if options == ["stdin"]:
        done = run("train", "-e", "2", "-o", "m", "-", input=large.read_bytes())
    elif options == ["few"]:
        (tmp_path / "few").write_text("".join((sample / "adult.train.libsvm").open().readlines()[:99]))
        done = run("train", "-o", "m", "few")
    else:
        done = run("train", *options, "-o", "m", large)
    assert done.returncode == 0, done.stderr
    assert not re.search("held.out|valid-|best|Predicts", done.stderr)


def test_the_share_held_out_is_as_asked_for_and_drawn_by_the_seed(run, sample, tmp_path):
    def train(name, *options):
        done = run("train", "--holdout", "0.2", "-e", "2", *options, "-o", name, sample / "adult.train.libsvm")
        assert "\nPredicts 500 held-out rows with " in done.stderr
        return (tmp_path / name).read_bytes()

    assert train("a") == train("b", "-j", "1") != train("c", "--seed", "1")
    done = run.fails(2, "train", "--holdout", "0.0001", "-o", "d", sample / "adult.train.libsvm")
    assert "leaves no rows for validation" in done.stderr


VALID = ["-r", "0.5", "--patience", "2", "-e", "30"]


@pytest.mark.parametrize(("metric", "sign"), [("auc", 1), ("logloss", -1)])
def test_the_best_epoch_is_kept_and_patience_ends_training(run, sample, tmp_path, metric, sign):
    test = sample / "adult.test.libsvm"
    # Sparsity does not measure predictions, so it does not choose the best epoch.
    options = [*VALID, "--no-quick-search", "-v", test, "-x", "sparsity", "-x", metric, "--log-json", "log", "-o", "m"]
    done = run.ok("train", "--verbose", *options, sample / "adult.train.libsvm")
    epochs, summary = events(tmp_path / "log")
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, len(epochs) + 1))
    values = [sign * epoch["valid"][metric] for epoch in epochs]
    best = 1 + int(np.argmax(values))
    assert summary["best_epoch"] == best == len(epochs) - 2 < 28
    assert summary["valid"] == epochs[best - 1]["valid"]
    assert list(summary["train"]) == ["sparsity", metric]
    assert f"\n{metric} on {test} chooses the epoch\n" in done.stderr
    value = figure(summary["valid"][metric])
    said = f"stopped after epoch {best + 2} (--patience 2): epoch {best} has the best {metric}, {value}"
    assert f"\n{said}\n" in done.stderr
    name = "AUC" if metric == "auc" else metric
    assert f"\nPredicts 1,500 rows of validation data with {name} {value} (" in done.stderr
    figures = table(done.stderr)
    assert figures[f"train-{metric}"] == figure(summary["train"][metric])
    assert figures[f"valid-{metric}"] == figure(summary["valid"][metric])
    assert figures["best-epoch"] == f"{best} of {best + 2}"
    # The saved model is the one after this number of epochs.
    run("train", "-r", "0.5", "-e", str(best), "--holdout", "0", "-o", "short", sample / "adult.train.libsvm")
    for name, array in load_model(str(tmp_path / "short")).model.parameters.items():
        assert (array == load_model(str(tmp_path / "m")).model.parameters[name]).all()


def test_the_figures_of_a_logistic_model_are_those_of_its_predictions(run, sample, tmp_path):
    train, test = sample / "adult.train.libsvm", sample / "adult.test.libsvm"
    done = run(
        "train", "--verbose", "-v", test, "-x", "logloss", "-x", "auc", "-x", "accuracy", *VALID, "-o", "m", train
    )
    figures = table(done.stderr)
    for part, path in (("train", train), ("valid", test)):
        y, p = labels(path), predictions(run, "m", path)[:, 0]
        score = predictions(run, "--raw", "m", path)[:, 0]  # raw scores have fewer ties than probabilities
        assert figures[f"{part}-logloss"] == figure(logloss(y, p))
        assert figures[f"{part}-auc"] == figure(auc(y, score))
        assert figures[f"{part}-accuracy"] == figure(((p > 0.5) == (y > 0)).mean())


@pytest.mark.parametrize("options", [[], ["--norm"], ["--batch-size", "16", "-r", "0.5"], ["-m", "sha2"]])
def test_the_figures_without_validation_are_those_of_all_rows(run, sample, tmp_path, options):
    train = sample / "adult.train.libsvm"
    options = [*options, "--verbose", "--holdout", "0", "-x", "auc", "-x", "logloss", "--log-json", "log"]
    done = run("train", *options, "-o", "m", train)
    y, p = labels(train), predictions(run, "m", train)[:, 0]
    score = predictions(run, "--raw", "m", train)[:, 0]  # raw scores have fewer ties than probabilities
    _, summary = events(tmp_path / "log")
    assert list(summary["train"]) == ["auc", "logloss"]
    assert summary["valid"] == {}
    assert table(done.stderr)["train-auc"] == figure(auc(y, score))
    assert summary["train"]["logloss"] == pytest.approx(logloss(y, p), abs=1e-7)


def test_json_lines_are_complete(run, sample, tmp_path):
    (tmp_path / "log").write_text('{"event": "older"}\n')
    usual = ["train", "-q", "-e", "3", "--holdout", "0", "-o", "m", sample / "adult.train.libsvm"]
    done = run(*usual, "--log-json", "log")
    assert (done.returncode, done.stderr) == (0, "")
    epochs, summary = events(tmp_path / "log")
    assert all(
        list(epoch) == ["epoch", "objective", "loss", "penalty", "valid", "seconds"] and epoch["valid"] == {}
        for epoch in epochs
    )
    assert all(epoch["objective"] == epoch["loss"] + epoch["penalty"] for epoch in epochs)
    assert summary["loss"] == epochs[-1]["loss"]
    assert (summary["epochs"], summary["best_epoch"], summary["model"]) == (3, 3, "m")
    assert summary["diverged"] is False
    assert load_model(str(tmp_path / "m")).meta["training"]["train"] == summary["train"]
    to_stdout = run(*usual, "--log-json", "-").stdout
    assert [json.loads(line)["event"] for line in to_stdout.splitlines()] == ["start", *["epoch"] * 3, "summary"]


@pytest.mark.parametrize(("batch", "every"), [(1, 1000), (1, 1), (3, 1000), (64, 500), (5000, 1)])
def test_the_running_loss_is_printed_every_n_rows(run, sample, tmp_path, batch, every):
    options = ["-e", "2", "--holdout", "0", "--batch-size", str(batch)]
    run.ok("train", *options, "-q", "-o", "plain", sample / "adult.train.libsvm")
    done = run.ok(
        "train", *options, "--log-every", str(every), "--log-json", "log", "-o", "m", sample / "adult.train.libsvm"
    )
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    step = -(-every // batch) * batch
    places = list(range(step, 2501, step))
    for epoch in (1, 2):
        said = [line for line in lines if line["event"] == "rows" and line["epoch"] == epoch]
        assert [line["rows"] for line in said] == places
        assert len({line["loss"] for line in said}) >= 0.9 * len(said)
        whole = next(line["loss"] for line in lines if line["event"] == "epoch" and line["epoch"] == epoch)
        assert all(said[place // step - 1]["loss"] == whole for place in places if place == 2500)
        for line in said[:3]:
            assert re.search(
                rf"^epoch {epoch}  rows +{line['rows']:,}  loss {figure(line['loss'])}$", done.stderr, re.M
            )
    if step == 1000:  # the same loss as in training on these rows alone
        (tmp_path / "part").write_text("".join((sample / "adult.train.libsvm").open().readlines()[:1000]))
        first = run("train", "-e", "1", "--no-shuffle", "--log-json", "part.log", "-o", "p", "part")
        again = run("train", "-e", "1", "--no-shuffle", "--log-every", "1000", "--log-json", "-", "-o", "q", "part")
        assert first.returncode == again.returncode == 0
        alone = json.loads((tmp_path / "part.log").read_text().splitlines()[1])["loss"]
        assert json.loads(again.stdout.splitlines()[1]) == {"event": "rows", "epoch": 1, "rows": 1000, "loss": alone}


def test_json_lines_can_be_followed_through_a_pipe(start, sample, tmp_path):
    os.mkfifo(tmp_path / "log")
    train = ["train", "--no-quick-search", "-e", "1000000", "-o", "m", sample / "adult.train.libsvm"]
    process = start(*train, "--log-json", "log", stderr=subprocess.DEVNULL)
    with open(tmp_path / "log") as log:
        events = [json.loads(log.readline()) for _ in range(4)]
        process.terminate()
        process.communicate(timeout=30)
    assert [event["epoch"] for event in events[1:]] == [1, 2, 3]


def test_the_log_before_a_run_that_is_killed_stays(start, sample, tmp_path):
    (tmp_path / "log").write_text('{"event": "older"}\n')
    train = ["train", "--no-quick-search", "-e", "1000000", "-o", "m", sample / "adult.train.libsvm"]
    process = start(*train, "--log-json", "log")
    while not process.stderr.readline().startswith(b"epoch       3"):
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=30)
    assert (tmp_path / "log").read_text() == '{"event": "older"}\n'


def test_a_full_disk_behind_json_lines_is_an_error(run, sample, tmp_path):
    done = run.fails(74, "train", "-q", "--log-json", "/dev/full", "-o", "m", sample / "adult.train.libsvm")
    assert done.stderr == "fmcli: error: /dev/full: cannot be written: No space left on device\n"
    assert not (tmp_path / "m").exists()


def test_several_files_are_one_validation_set(run, sample, tmp_path):
    lines = (sample / "adult.test.libsvm").read_bytes().splitlines(keepends=True)
    for name, part in (("all", lines), ("a", lines[:700]), ("b", lines[700:])):
        (tmp_path / name).write_bytes(b"".join(part))
    train = ["train", "-e", "2", "--log-json", "log", "-o", "m", sample / "adult.train.libsvm"]
    valid = []
    for options in (["-v", "all"], ["-v", "a", "-v", "b"], ["-v", "b"]):
        run.ok(*train, *options)
        valid.append(events(tmp_path / "log")[-1]["valid"])
    assert valid[0] == valid[1] != valid[2]
    run.fails(66, *train, "-v", "a", "-v", "none")


def test_counts_below_0_are_refused_in_validation_and_when_resuming(run, tmp_path):
    (tmp_path / "good").write_text("1 1:1\n3 2:1\n0 1:2\n")
    (tmp_path / "bad").write_text("1 1:1\n-3 2:1\n")
    train = ["train", "--loss", "poisson", "-e", "1", "-o", "m"]
    run.ok(*train, "good")
    for options, where in ((["-v", "bad", "good"], "bad: "), (["-i", "m", "bad"], "")):
        done = run.fails(65, *train, *options)
        assert f"fmcli: error: {where}loss poisson takes counts, but a label is -3; use --loss squared" in done.stderr


def test_figures_of_rows_are_all_of_the_rows_trained_on(run, tmp_path):
    (tmp_path / "t").write_text("".join(f"{i % 2} {i}:1 3:1\n" for i in range(100)))
    run.ok("train", "--holdout", "0.3", "--no-refit", "-e", "1", "--log-json", "log", "-o", "m", "t")
    summary = events(tmp_path / "log")[-1]
    assert summary["rows"] == 70
    assert 2 * 70 - 1 <= summary["nonzeros"] <= 2 * 70


def test_a_metric_that_is_undefined_is_null_and_another_one_chooses(run, sample, tmp_path):
    (tmp_path / "ones").write_text("1 3:1\n1 4:1\n")
    options = ["--verbose", "-v", "ones", "-x", "auc", "-e", "9", "--patience", "1", "--log-json", "log", "-o", "m"]
    done = run.ok("train", *options, sample / "adult.train.libsvm")
    epochs, summary = events(tmp_path / "log")
    assert all(epoch["valid"]["auc"] is None for epoch in epochs)
    chosen = min(epochs, key=lambda epoch: epoch["valid"]["logloss"])
    assert summary["valid"] == chosen["valid"]
    assert summary["best_epoch"] == chosen["epoch"]
    assert "auc is undefined on the 2 rows of ones, because all of them have one label: logloss" in done.stderr
    assert table(done.stderr)["valid-auc"] == "undefined"


def test_if_all_metrics_are_undefined_no_epoch_is_better(run, tmp_path):
    rows = "".join(f"{i % 2} qid:{i % 9} {i}:1 3:1\n" for i in range(90))
    (tmp_path / "t").write_text(rows)
    (tmp_path / "v").write_text("0 qid:1 3:1\n0 qid:1 4:1\n")
    done = run.ok("train", "--loss", "bpr", "-v", "v", "-e", "4", "--log-json", "log", "-o", "m", "t")
    assert "ndcg is undefined on the validation data, so no epoch is better than another" in done.stderr
    assert events(tmp_path / "log")[-1]["best_epoch"] == 4


def test_validation_rows_have_the_format_of_the_training_data_and_may_have_other_features(run, sample, tmp_path):
    done = run.fails(65, "train", "-v", sample / "adult.test.libsvm", "-o", "m", sample / "adult.train.ffm")
    assert "adult.test.libsvm:1:" in done.stderr
    (tmp_path / "wide").write_text("1 3:1 5000:1\n-1 4:1 9000:1\n")
    done = run.ok("train", "--verbose", "-e", "2", "-v", "wide", "-o", "m", sample / "adult.train.libsvm")
    p = predictions(run, "m", "wide")[:, 0]
    assert float(table(done.stderr)["valid-logloss"]) == pytest.approx(logloss(np.array([1, -1]), p), rel=1e-3)
    (tmp_path / "other").write_text("3 3:1\n")
    done = run.fails(65, "train", "-v", "other", "-o", "n", sample / "adult.train.libsvm")
    assert done.stderr.endswith(
        "fmcli: error: other: the model does not know the label 3, only -1, 1; check the labels of the file\n"
    )


@pytest.mark.parametrize("options", [["-v", "adult.test.libsvm"], ["--holdout", "0.2"]])
def test_start_values_are_validated_too(run, sample, tmp_path, options):
    test = sample / "adult.test.libsvm"
    options = [test if option == test.name else option for option in options]
    options += ["-x", "logloss", "--log-json", "log", "-o", "m"]
    done = run.ok("train", "--verbose", "-e", "0", *options, sample / "adult.train.libsvm")
    epochs, summary = events(tmp_path / "log")
    assert epochs == []
    assert table(done.stderr)["valid-logloss"] == figure(summary["valid"]["logloss"])
    assert "best-epoch" not in table(done.stderr)
    assert not re.search("has the best|Predicts", done.stderr)
    if test in options:
        p = predictions(run, "m", test)[:, 0]
        assert summary["valid"]["logloss"] == pytest.approx(logloss(labels(test), p), abs=1e-6)


def test_metrics_are_checked_against_the_loss_that_the_labels_choose(run, sample, tmp_path):
    done = run.fails(2, "train", "-x", "auc", sample / "diabetes.train.libsvm")
    assert "metric auc does not fit loss squared" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_sparsity_alone_chooses_nothing_and_so_nothing_is_held_out(run, large, tmp_path):
    done = run.ok("train", "-e", "2", "-x", "sparsity", "--log-json", "log", "-o", "m", large)
    assert not re.search("held.out", done.stderr)
    assert list(events(tmp_path / "log")[1]["train"]) == ["sparsity"]


def test_the_best_epoch_before_divergence_is_saved(run, tmp_path):
    # Every update multiplies the error by -2: after 60 and 120 updates the prediction is 1 - 2^60 and 1 - 2^120.
    (tmp_path / "t").write_text("1 0:1\n" * 60)
    (tmp_path / "v").write_text("-2e36 0:1\n")
    options = ["-m", "linear", "--no-bias", "-s", "sgd", "-r", "3", "--l2", "0", "--loss", "squared", "-e", "30"]
    options += ["--no-clip", "--no-quick-search"]
    done = run.fails(3, "train", *options, "-v", "v", "--patience", "30", "--log-json", "log", "t")
    assert "\nepoch 2 has the best rmse, " in done.stderr
    assert "fmcli: error: training diverged: the loss is no longer a finite number in epoch" in done.stderr
    assert load_model(str(tmp_path / "t.fm")).model.parameters["w"][0, 0] == pytest.approx(-(2.0**120))
    summary = events(tmp_path / "log")[1]
    assert (summary["best_epoch"], summary["diverged"]) == (2, True)


def test_a_number_is_not_taken_for_a_validation_file(run, sample, tmp_path):
    done = run.fails(2, "train", "-v", "5", sample / "adult.train.libsvm")
    assert "-v is the validation file, and there is no file 5" in done.stderr
    (tmp_path / "5").write_bytes((sample / "adult.test.libsvm").read_bytes())
    run.ok("train", "-v", "5", sample / "adult.train.libsvm")


def test_the_constant_the_last_epoch_and_an_objective_that_has_not_settled_are_said(run, sample, tmp_path):
    train, test = sample / "diabetes.train.libsvm", sample / "diabetes.test.libsvm"
    done = run.ok("train", "--verbose", "-s", "cd", "-e", "3", "-v", test, "--log-json", "log", "-o", "m", train)
    _, summary = events(tmp_path / "log")
    constant = math.sqrt(np.mean((labels(test) - labels(train).mean()) ** 2))
    assert summary["valid_constant"]["rmse"] == pytest.approx(constant)
    line = rf"^valid-rmse +{figure(summary['valid']['rmse'])}  \(best constant {figure(constant)}\)$"
    assert re.search(line, done.stderr, re.M)
    assert "\nstopped after epoch 3, before the objective settled (--tol 1e-05): try more ep" in done.stderr
    still = "; it is the last one, so more epochs may help (-e 9)\n"
    assert (still in done.stderr) == (summary["best_epoch"] == 3)
    assert "fmcli: warning" not in done.stderr
    done = run("train", "--init-std", "0", "-e", "1", "-o", "m", train)
    assert "fmcli: warning: all factors are 0" in done.stderr


def test_a_refit_is_as_good_as_training_on_all_rows(run, sample, tmp_path):
    train = sample / "diabetes.train.libsvm"
    options = ["--holdout", "0.1", "--no-quick-search", "--no-scale-labels", "-r", "0.5", "-e", "6"]
    done = run.ok("train", "--verbose", *options, "--log-json", "log", "-o", "again", train)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    best = lines[-1]["best_epoch"]
    assert [line["epoch"] for line in lines if line["event"] == "refit"] == list(range(1, best + 1))
    assert f"\nepoch {best} has the best rmse, " in done.stderr
    assert f"; retraining on all 331 rows for {best} epoch" in done.stderr
    epoch = rf"^retraining epoch +{best}  loss [\d.]+  penalty \S+  [\d.]+ s$"
    assert re.search(epoch, done.stderr, re.M)
    assert "retraining epoch" not in run("train", *options, "-o", "m", train).stderr
    said = run("train", *options, "--log-every", "300", "--log-json", "log", "-o", "said", train)
    assert (tmp_path / "said").read_bytes() == (tmp_path / "again").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    parts = [(line["epoch"], line["rows"]) for line in lines if line["event"] == "refit-rows"]
    assert parts == [(epoch, 300) for epoch in range(1, best + 1)]  # the refit uses all 331 rows, the first run 298
    assert not any(line["event"] == "rows" for line in lines)
    assert len(re.findall(r"^retraining epoch +\d+  rows 300  loss [\d.]+$", said.stderr, re.M)) == best
    run.ok("train", *options, "--no-refit", "-o", "once", train)
    run.ok("train", *options[3:], "-e", str(best), "-o", "whole", train)
    arrays = [load_model(str(tmp_path / name)).model.parameters["w"] for name in ("again", "once", "whole")]
    assert (arrays[0] == arrays[2]).all()
    assert (arrays[0] != arrays[1]).any()
    for wrong in (["-v", train], ["--holdout", "0"]):
        refused = run.fails(2, "train", "--refit", *wrong, "-o", "m", train)
        assert "no rows are held out" in refused.stderr
    assert "fmcli: warning: no rows are held out" in run("train", "--refit", "-e", "1", "-o", "m", train).stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-e", "2", "--holdout", "0"], "there is no validation data; give it with -v or --holdout"),
        (["-e", "1", "--holdout", "0.5"], "it needs several epochs (-e)"),
        (["-e", "3", "-s", "mcmc", "--holdout", "0.5"], "mcmc does not stop early"),
        (["-m", "kernel-basis"], "kernel-basis is solved in closed form"),
        (["-e", "2", "--holdout", "0.5"], None),
    ],
)
def test_patience_without_effect_gets_a_warning_if_it_is_given(run, sample, tmp_path, options, why):
    rows = (sample / "adult.train.libsvm").read_text().splitlines()[:200]
    (tmp_path / "rows").write_text("\n".join(rows) + "\n")
    for patience in ([], ["--patience", "2"], ["--auto-stop"]):
        done = run.ok("train", "-q", *options, *patience, "rows")
        warned = f"--patience has no effect, because {why}" in done.stderr
        assert warned == bool(patience and why), done.stderr


def test_files_that_measure_what_they_teach_are_told(run, tmp_path):
    """The same file twice, under any name, or as validation data."""
    (tmp_path / "t.csv").write_text("hour,y\n" + "".join(f"u{i % 12},{i * 7 % 5}\n" for i in range(100)))
    (tmp_path / "copy.csv").write_bytes((tmp_path / "t.csv").read_bytes())
    train = ("train", "-e", "1", "--no-quick-search", "--label", "y", "-o", "m.fm", "t.csv")
    told = "hint: --valid ./t.csv is also a file to train on: its metrics are not of new rows"
    assert told in run.ok(*train, "--valid", "./t.csv").stderr
    assert "hint: t.csv is given 2 times: rows that are held out are learned, too" in run.ok(*train, "./t.csv").stderr
    log = run.ok(*train, "--valid", "copy.csv").stderr
    assert "is given" not in log
    assert "is also" not in log
