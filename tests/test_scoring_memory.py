"""The memory for scoring, evaluation and export is checked before it is allocated."""

import pytest
from modelfiles import export_arrays, write

from fmcli.errors import NotEnoughMemoryError
from fmcli.export.kernel_form import kernel_form
from fmcli.inspect.inspection import inspect_model
from fmcli.scoring.evaluation import evaluate_model, evaluate_predictions
from fmcli.scoring.prediction import Counts, predict
from fmcli.scoring.scorer import load_model
from fmcli.system import memory

ROWS = "1 0:1 2:1\n2 1:1 2:1\n3 0:1 1:1\n" * 9


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A function that writes a model of a kind and a file "rows" in the same folder, and returns the path of the model.
    After that, the memory check reports that no memory is left."""
    (tmp_path / "rows").write_text(ROWS)

    def written(kind):
        path = str(tmp_path / "m")
        write(path, kind, None, "squared")
        monkeypatch.setattr(memory, "LARGE", 1)
        monkeypatch.setattr(memory, "_tightest", lambda root: (0, "in this test", "ask for more"))
        return path

    return written


@pytest.mark.parametrize("kind", ["bilinear", "kernel-basis"])
@pytest.mark.parametrize("make", [export_arrays, inspect_model])
def test_arrays_that_are_made_for_export(model, kind, make):
    path = model(kind)
    with pytest.raises(NotEnoughMemoryError, match=r"making the arrays of .* needs \d+"):
        make(path)


def test_memory_for_an_export_is_checked(model):
    path = model("fm")
    inspect_model(path)  # allocates no arrays
    with pytest.raises(NotEnoughMemoryError, match=r"exporting .* needs \d+"):
        export_arrays(path)


def test_kernel_form(model):
    path = model("lifted-anova")
    with pytest.raises(NotEnoughMemoryError, match=r"the kernel form of .* needs \d+"):
        kernel_form(path, load_model(path))


def test_memory_for_the_scores_of_a_chunk(model, tmp_path):
    scorer = load_model(model("fm"))
    with pytest.raises(NotEnoughMemoryError, match=r"scoring rows with .* needs \d+"):
        list(predict(scorer, [str(tmp_path / "rows")], output="raw", counts=Counts()))


def test_memory_for_the_rows_of_an_evaluation(model, tmp_path, monkeypatch):
    scorer = load_model(model("fm"))
    monkeypatch.setattr(memory, "_tightest", lambda root: (2000, "in this test", "ask for more"))
    with pytest.raises(NotEnoughMemoryError, match=r"evaluating 27 rows needs \d"):
        evaluate_model(scorer, [str(tmp_path / "rows")], format="auto", threads=1, counts=Counts())
    (tmp_path / "p").write_text("1\n" * 27)
    with pytest.raises(NotEnoughMemoryError, match=r"evaluating 27 rows needs \d"):
        evaluate_predictions(
            str(tmp_path / "p"), [str(tmp_path / "rows")],
            loss=None, raw=False, format="auto", threads=1, counts=Counts(),
        )  # fmt: skip
