"""Figures of logs: what each has, and the errors for files that lack it."""

import json
import re
from xml.etree import ElementTree

import pytest

from fmcli.drawing.curves import DIGIT, WIDTH, Figure, svg
from fmcli.drawing.logs import KINDS, figure, read
from fmcli.errors import BadInputError, MissingInputError, UsageError


def epoch(number, loss, auc, **more):
    return {"event": "epoch", **more, "epoch": number, "loss": loss, "valid": {"auc": auc}, "seconds": 0.5}


def log(l1=1.0, aucs=(0.5, 0.75), sparsity=0.25):
    options = {"l1": {"value": l1, "from": "command line"}, "l1_w": {"value": l1, "from": "command line"}}
    epochs = [epoch(number, 1 / number, auc) for number, auc in enumerate(aucs, start=1)]
    summary = {"event": "summary", "valid": {"auc": aucs[-1]}, "sparsity": sparsity}
    return [{"event": "start", "options": options}, *epochs, {**epoch(1, 9.0, 0.0), "event": "refit"}, summary]


def test_learning_curves_have_the_loss_and_the_metrics_of_each_file():
    found = figure({"a/x.json": log(), "y.json": log(aucs=(0.25, None, 0.5))}, None, [])
    assert found.panels["training loss"]["x"] == ([1, 2], [1, 0.5])
    assert found.panels["valid-auc"] == {"x": ([1, 2], [0.5, 0.75]), "y": ([1, 3], [0.25, 0.5])}
    by_time = figure({"x.json": log()}, "time", [])
    assert by_time.panels == {"valid-auc": {"x": ([0.5, 1.0], [0.5, 0.75])}}
    assert list(figure({"x.json": log()}, None, ["auc"]).panels) == ["valid-auc"]


def test_folds_are_averaged_as_far_as_all_of_them_go():
    events = [
        epoch(1, 1.0, 0.5, repeat=1, fold=1),
        epoch(2, 0.5, 0.75, repeat=1, fold=1),
        epoch(1, 3.0, 0.25, repeat=1, fold=2),
        epoch(1, 7.0, 0.125, repeat=1, fold=1, against="-m ffm"),
    ]
    found = figure({"cv.json": events}, None, []).panels
    assert found["training loss"] == {"these options": ([1.0], [2.0]), "-m ffm": ([1.0], [7.0])}
    members = [epoch(1, 1.0, 0.5, member=1), epoch(1, 2.0, 0.25, member=2)]
    assert list(figure({"e.json": members}, None, ["auc"]).panels["valid-auc"]) == ["member 1", "member 2"]


def test_a_path_is_over_the_option_in_which_runs_differ():
    files = {f"{l1}.json": log(l1, (l1 / 16,), 1 / l1) for l1 in (4.0, 1.0, 8.0)}
    found = figure(files, "path", [])
    assert found.panels == {
        "valid-auc": {"--l1": ([1.0, 4.0, 8.0], [1 / 16, 0.25, 0.5])},
        "sparsity": {"--l1": ([1.0, 4.0, 8.0], [1.0, 0.25, 0.125])},
    }
    assert found.log_x
    with pytest.raises(UsageError, match="there is none in which all differ"):
        figure({"a": log(), "b": log()}, "path", [])
    with pytest.raises(UsageError, match="from the start to the summary"):
        figure({"a": log()[1:]}, "path", [])


@pytest.mark.parametrize("values", [(3.0, 4.0), (5e-324, 4.0), (1e-99, 1e99), (5e-324, 1e-323)])
def test_paths_over_numbers_of_any_size_are_drawn(values):
    """Between 3 and 4, a logarithmic axis has no tick at 1, 2 or 5 times a power of ten."""
    assert ElementTree.fromstring(svg(figure({f"{l1}": log(l1) for l1 in values}, "path", []))).tag.endswith("svg")
    with pytest.raises(UsageError, match="there is none in which all differ"):
        figure({f"{l1}": log(l1) for l1 in (*values, 1e308)}, "path", [])


def test_the_path_of_a_search_is_drawn_like_that_of_single_runs():
    """The usual run has no value of the option."""
    of = {"event": "trial", "model": "fm", "solver": "ftrl", "metric": "auc"}
    trials = [
        {**of, "trial": n, "options": options, "value": value, "sparsity": zeros}
        for n, options, value, zeros in [(0, {}, 0.7, 0.1), (1, {"l1": 4.0}, 0.75, 0.25), (2, {"l1": 1.0}, 0.5, 1.0)]
    ]
    assert figure({"log": trials}, "path", []).panels == {
        "valid-auc": {"--l1": ([1.0, 4.0], [0.5, 0.75])},
        "sparsity": {"--l1": ([1.0, 4.0], [1.0, 0.25])},
    }


def test_a_search_is_drawn_as_the_best_value_so_far():
    """A trial has the value of its longest run, which comes last."""
    values = (0, "cd", 0.5), (1, "mcmc", 0.25), (3, "cd", 0.5), (2, "cd", 0.75), (3, "cd", 0.875), (4, "cd", None)
    trials = [
        {"event": "trial", "trial": n, "model": "fm", "solver": solver, "metric": "auc", "value": value}
        for n, solver, value in values
    ]
    study = [{"event": "study"}, *trials]
    assert figure({"s": study}, None, []).panels["valid-auc"] == {
        "all": ([0, 1, 2, 3], [0.5, 0.5, 0.75, 0.875]),
        "fm cd": ([0, 2, 3], [0.5, 0.75, 0.875]),
        "fm mcmc": ([1], [0.25]),
    }
    assert set(figure({"a": study, "b": study}, None, []).panels["valid-auc"]) == {"a", "b"}
    with pytest.raises(UsageError, match="a study has no times"):
        figure({"s": study}, "time", [])
    timed = [{**one, "seconds": seconds} for seconds, one in enumerate(trials, start=1)]
    assert figure({"s": timed}, "time", []).panels["valid-auc"]["all"] == (
        [1, 2, 3, 4, 5],
        [0.5, 0.5, 0.5, 0.75, 0.875],
    )
    with pytest.raises(BadInputError, match="has no trials"):
        figure({"s": study[:1]}, None, [])
    with pytest.raises(BadInputError, match="s: has the trials of a search: draw them without logs of train or cv"):
        figure({"log": log(), "s": study}, None, [])
    with pytest.raises(BadInputError, match="f: has no epochs; it must be a log of train or cv"):
        figure({"log": log(), "f": [{"event": "summary"}]}, None, [])


def test_the_best_kinds_of_a_search_are_drawn():
    """As many as a panel can have, beside all; auc is better if it is larger."""
    of = {"event": "trial", "solver": "cd", "metric": "auc"}
    trials = [{**of, "trial": n, "model": f"k{n}", "value": n / 16} for n in range(12)]
    assert list(figure({"s": trials}, None, []).panels["valid-auc"]) == ["all", *(f"k{n} cd" for n in range(11, 4, -1))]


def test_calibration_is_beside_the_diagonal():
    bins = [{"predicted": 0.25, "observed": 0.5}, {"predicted": 0.75, "observed": 0.7}]
    found = figure({"r.json": [{"calibration": {"ece": 0.15, "bins": bins}}]}, None, [])
    assert found.panels["calibration"] == {
        "equal": ([0.0, 0.75], [0.0, 0.75]),
        "r (ECE 0.15)": ([0.25, 0.75], [0.5, 0.7]),
    }
    assert svg(found) == svg(found)
    assert svg(found).count("<path") > 6


def test_files_that_do_not_have_what_is_drawn(tmp_path):
    for text, message in (("{}\n[", ":2: is not an event"), ("1", ":1: is not an event"), ("", "is empty")):
        (tmp_path / "f").write_text(text)
        with pytest.raises(BadInputError, match=message):
            read(str(tmp_path / "f"))
    with pytest.raises(MissingInputError):
        read(str(tmp_path / "none"))
    for events in ([{"event": "epoch"}], [{"event": "epoch", "epoch": 1, "loss": "x", "valid": 3, "seconds": 1}], [{}]):
        for kind in (None, *KINDS):
            with pytest.raises((BadInputError, UsageError)):
                figure({"f": events}, kind, [])
    with pytest.raises(BadInputError, match="have no rmse to draw"):
        figure({"f": log()}, None, ["rmse"])
    with pytest.raises(UsageError, match="9 curves are more than the 8"):
        figure({f"{number}.json": log() for number in range(9)}, None, ["auc"])
    with pytest.raises(UsageError, match="another file has the same name"):
        figure({"a/x.json": log(), "b/x.json": log()}, None, [])


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from fmcli.cli.report import command

    path = tmp_path / "x.json"
    path.write_text("".join(json.dumps(event) + "\n" for event in log()))
    output = tmp_path / "x.svg"
    assert CliRunner().invoke(command, ["--svg", "-o", str(output), "--log", str(path)]).exit_code == 0
    assert output.read_text() == svg(figure({str(path): log()}, None, []))


def test_the_last_number_of_an_axis_is_within_the_image():
    text = svg(Figure("", "x", "y", {"": {"m": ([0, 0.015], [0, 1])}}))
    at = float(re.search(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">0.015<', text)[1])
    assert at + len("0.015") * DIGIT / 2 <= WIDTH + 0.1
