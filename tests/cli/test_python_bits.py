"""The same rows and options give the same model file from Python as from the command, for every kind and solver."""

import numpy as np
import pytest
from problems import ROW_SOLVERS, TRAINED
from threadpoolctl import threadpool_limits

import fmcli
from fmcli.registry.catalog import refusal
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

ROWS, COLUMNS, ENTRIES, FIELDS = 150, 20, 5, 2
# Every solver, and every model with one of its solvers.
ABLE = {model: [solver for solver in SOLVERS if not refusal(model, solver)] for model in TRAINED}
PAIRS = [("fm", solver, None) for solver in SOLVERS]
PAIRS += [(model, able[turn % len(able)], None) for turn, (model, able) in enumerate(ABLE.items()) if model != "fm"]
CLOSED_FORM = [(model, None, None) for model, kind in MODELS.items() if kind.closed_form]
# fm with each loss, by the first solver that takes it.
LOSS_CASES = [
    ("fm", next(solver for solver in (*ROW_SOLVERS, *SOLVERS) if not refusal("fm", solver, loss)), loss)
    for loss in LOSSES
]
SMALL = {"pair_bits": 6, "anchors": 3, "neighbours": 2, "split_index": COLUMNS // 2, "l1": 1e-6}
LABELS = {"counts": (0, 3), "soft": (0, 1), "levels": (1, 4), "classes": (0, 3), "order": (0, 3)}


@pytest.fixture(autouse=True)
def blas_threads():
    """Two threads of BLAS, as other programs in Python may have."""
    with threadpool_limits(2, user_api="blas"):
        yield


def table(task):
    """Return a dense matrix and labels for a task of a loss; numbers have few digits, so text has all of them."""
    rng = np.random.default_rng(3)
    X = np.zeros((ROWS, COLUMNS))
    for row in X:
        row[rng.choice(COLUMNS, ENTRIES, replace=False)] = rng.integers(1, 8, ENTRIES) / 4
    y = (X[:, 0] * X[:, 1] - X[:, 2] + rng.integers(-2, 3, ROWS) / 2).astype(float)
    if task in LABELS:
        low, high = LABELS[task]
        y = np.clip(np.round(y), low, high)
    return X, (y > np.median(y)).astype(float) if task == "binary" else y


def text_of(X, y, fields, group):
    lines = []
    for row, (x, label) in enumerate(zip(X, y, strict=True)):
        tokens = [f"{label:g}"] + ([f"qid:{group[row]}"] if group is not None else [])
        tokens += [f"{f'{fields[j]}:' if fields is not None else ''}{j}:{x[j]:g}" for j in np.flatnonzero(x)]
        lines.append(" ".join(tokens))
    return "\n".join(lines) + "\n"


def flags(options):
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.mark.parametrize(("model", "solver", "loss"), [*PAIRS, *CLOSED_FORM, *LOSS_CASES])
def test_python_trains_the_model_of_the_command(run, tmp_path, model, solver, loss):
    kind, pairwise = MODELS[model], loss is not None and LOSSES[loss].pairwise
    X, y = table(LOSSES[loss].task if loss else "real")
    fields = np.arange(COLUMNS) * FIELDS // COLUMNS if kind.by_fields else None
    group = np.arange(ROWS) // 5 if pairwise else None
    taken = [*kind.options, *(SOLVERS[solver].options if solver else ())]
    options = {name: value for name, value in SMALL.items() if name in taken or name in kind.positive}
    if not kind.closed_form:
        options["epochs"] = 4
    (tmp_path / "t.txt").write_text(text_of(X, y, fields, group))
    named = [word for flag, name in (("-m", model), ("-s", solver), ("--loss", loss)) if name for word in (flag, name)]
    words = (*named, *flags(options), "--no-quick-search", "--holdout", "0.2", "-o", "command.fm", "t.txt")
    run.ok("train", *words, fork=True)  # a new process, which has one BLAS thread from its beginning

    data = fmcli.Data(X, y, fields=fields, group=group)
    trained = fmcli.train(data, model=model, solver=solver, loss=loss, quick_search=False, holdout=0.2, **options)
    trained.save(tmp_path / "python.fm")

    assert (tmp_path / "python.fm").read_bytes() == (tmp_path / "command.fm").read_bytes()
    np.testing.assert_array_equal(trained.predict(tmp_path / "t.txt"), trained.predict(data))


def test_the_quick_search_and_the_refit_are_those_of_the_command(run, tmp_path):
    X, y = table("binary")
    (tmp_path / "t.txt").write_text(text_of(X, y, None, None))
    run.ok("train", "--quick-search", "--seed", "7", "t.txt")
    fmcli.train((X, y), seed=7).save(tmp_path / "python.fm")
    assert (tmp_path / "python.fm").read_bytes() == (tmp_path / "t.txt.fm").read_bytes()


def test_a_file_and_its_rows_train_the_same_model(run, tmp_path):
    X, y = table("real")
    (tmp_path / "t.txt").write_text(text_of(X, y, None, None))
    of_file = fmcli.train(tmp_path / "t.txt", epochs=3)
    of_rows = fmcli.train(fmcli.read([str(tmp_path / "t.txt")]), epochs=3)
    np.testing.assert_array_equal(of_file.predict(X), of_rows.predict(X))
    np.testing.assert_array_equal(of_file.predict(X), fmcli.train((X, y), epochs=3).predict(X))
