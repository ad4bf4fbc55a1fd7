"""The cases of all.py by name. A case is a function that returns the seconds of a run."""

import contextlib
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
from generated import ratings, write, zipf
from tables import table_cases

from fmcli.data.dataset import Dataset
from fmcli.data.fields import without_fields
from fmcli.data.text import reader
from fmcli.registry.models import MODELS
from fmcli.registry.specs import make_spec
from fmcli.training import job

FIELDS, RANK, FFM_RANK, EPOCHS = 20, 8, 4, 2
# Rows of a round, and epochs until the rounds stay the same, so one is without their arrangement.
ROUND, ROUND_EPOCHS = 1024, 4
THREADS = (1, 2)
FLOATS_A_LINE = 16
# Names of cases that do not measure fmcli contain one of these words.
OTHERS = ("scikit-learn", "DuckDB", "Vowpal Wabbit", "xLearn", "myFM", "modern-fm", "limit")
# Bytes of text for the readers of other tools, whose speed does not depend on the size.
PEER_BYTES = 20_000_000
# Trains xLearn, which prints the seconds of each epoch at the end of a line.
XLEARN = """
import sys, xlearn
kind, solver, rank, epochs, data, model = sys.argv[1:]
trained = getattr(xlearn, f"create_{kind}")()
trained.setTrain(data)
trained.disableEarlyStop()
trained.fit({"task": "binary", "opt": solver, "k": int(rank), "epoch": int(epochs), "nthread": 1}, model)
"""
XLEARN_EPOCH = re.compile(r"\s\d+\s+\d+\.\d+\s+(\d+\.\d+)\s*$", re.MULTILINE)
HERE = Path(__file__).resolve().parent
Run = Callable[[], float]


def seconds(run: Callable[[], object]) -> float:
    """The seconds that a function takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def in_words(threads: int) -> str:
    """The number of threads in words."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


class Bench:
    """The data, which are generated when a case first needs them, and the speeds of the cases.

    work : case -> the speed of its fastest run in the unit of the case.
    least : case -> the seconds of its fastest run.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.work: dict[str, str] = {}
        self.least: dict[str, float] = {}
        self.rows_of, self.text, self.model, self.touch = map(cache, (self._rows, self._text, self._model, self._touch))

    def _rows(self, form: str = "one-hot", share: float = 1, width: int = FIELDS, features: float = 1) -> Dataset:
        rows = max(100, int(share * self.rows))
        return ratings(rows) if form == "ratings" else zipf(rows, width, int(features * self.rows))

    def _text(self, form: str) -> Path:
        path = self.folder / f"train.{form}"
        write(path, self.rows_of(), form)
        return path

    def _model(self) -> Path:
        path = self.folder / "model"
        self.command("train", "-e", str(EPOCHS), "-o", str(path), str(self.text("one-hot")))
        return path

    def _touch(self) -> Path:
        path = self.folder / "touch"
        subprocess.run([os.environ.get("CXX", "g++"), "-O3", HERE / "touch.cc", "-o", path], check=True)
        return path

    def command(self, *arguments: str) -> None:
        """Run fmcli in a separate process."""
        command = [sys.executable, "-m", "fmcli", *arguments]
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=self.folder)

    def per(self, name: str, took: float, amount: float, unit: str) -> float:
        """Return the seconds, and keep the speed of the case: "MB/s", or ns per unit of `amount`."""
        best = self.least[name] = min(took, self.least.get(name, took))
        self.work[name] = f"{amount / best / 1e6:.0f} MB/s" if unit == "MB/s" else f"{best / amount * 1e9:.2f} {unit}"
        return took

    def epoch(self, name: str, data: Dataset, kind: str, solver: str, threads: int = 1, **options: object) -> float:
        """The fastest epoch of a run in this process, on rows as the command reads them: without fields if the kind has
        no use for them."""
        epochs = ROUND_EPOCHS if options.get("round_size") == ROUND else EPOCHS
        spec = make_spec(kind, solver, None, {"epochs": epochs, **options})
        rows = data if MODELS[kind].needs_fields(spec.values) else without_fields(data)
        trained = job.train(job.plan(rows, spec, holdout=0.0, threads=threads))
        return self.per(name, min(epoch.seconds for epoch in trained.epochs), data.nnz, "ns/non-zero")

    def parse(self, name: str, form: str, threads: int) -> float:
        path = str(self.text(form))
        took = seconds(lambda: reader.read([path], keep_fields=form == "ffm", threads=threads))
        return self.per(name, took, os.path.getsize(path), "MB/s")

    def sklearn(self, name: str) -> float:
        import io

        from sklearn.datasets import load_svmlight_file

        with open(self.text("one-hot"), "rb") as file:
            text = file.read(PEER_BYTES)
        text = text[: text.rindex(b"\n") + 1]
        took = seconds(lambda: load_svmlight_file(io.BytesIO(text)))
        self.per(name, took, len(text), "MB/s")
        return took / len(text) * os.path.getsize(self.text("one-hot"))

    def vw(self, name: str) -> float:
        from vowpalwabbit import Workspace

        options = f"-d {self.text('vw')} --loss_function logistic --lrqfa ff{RANK} -b 22 --quiet"
        return self.per(name, seconds(lambda: Workspace(options).finish()), self.rows_of().nnz, "ns/non-zero")

    def xlearn(self, name: str, kind: str, solver: str, rank: int, form: str) -> float:
        data = self.rows_of("ffm", 0.1) if form == "ffm" else self.rows_of()
        path = self.folder / f"xlearn.{form}"
        if not path.exists():
            write(path, data, form)
        arguments = [kind, solver, str(rank), str(EPOCHS), str(path), str(self.folder / "xlearn.model")]
        command = [sys.executable, "-c", XLEARN, *arguments]
        environment = {"USER": "bench", **os.environ}  # without which it aborts
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return self.per(name, min(map(float, XLEARN_EPOCH.findall(done.stdout))), data.nnz, "ns/non-zero")

    def myfm(self, name: str) -> float:
        import myfm
        import scipy.sparse

        data = self.rows_of("ratings")
        matrix = scipy.sparse.csr_array((data.value, data.index, data.indptr), (data.rows, data.features))
        model = myfm.MyFMRegressor(rank=RANK)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # of its progress bar
            took = seconds(lambda: model.fit(matrix, data.label, n_iter=EPOCHS, n_kept_samples=1)) / EPOCHS
        return self.per(name, took, data.nnz, "ns/non-zero")

    def modern_fm(self, name: str, kind: str, solver: str, rank: int, rows: Dataset) -> float:
        """The seconds of an epoch, with what a fit does besides, which is little beside it."""
        import modern_fm
        import scipy.sparse

        value = np.ones(rows.nnz, dtype=np.float32)
        matrix = scipy.sparse.csr_matrix((value, rows.index, rows.indptr), (rows.rows, rows.features))
        options = {"n_factors": rank, "optimizer": solver, "max_iter": EPOCHS, "n_jobs": 1, "random_state": 0}
        model = getattr(modern_fm, f"{kind}Classifier")(**options)
        fields = {"field_ids": np.repeat(np.arange(FIELDS), rows.features // FIELDS)} if kind == "FFM" else {}
        took = seconds(lambda: model.fit(matrix, rows.label, **fields)) / EPOCHS
        return self.per(name, took, rows.nnz, "ns/non-zero")

    def limit(self, name: str, rank: int) -> float:
        """The seconds to touch the cache lines of a feature's factors and their state."""
        data, lines = self.rows_of(), 2 * rank // FLOATS_A_LINE
        command = [self.touch(), *map(str, (data.rows, FIELDS, data.features, lines, 3))]
        done = subprocess.run(command, input=data.index.tobytes(), capture_output=True, check=True)
        return self.per(name, float(done.stdout), data.nnz, "ns/non-zero")

    def whole(self, name: str, *arguments: str) -> float:
        """The seconds of a command, including its start, on the text of one-hot rows."""
        path = self.text("one-hot")
        took = seconds(lambda: self.command(*arguments, str(path)))
        return self.per(name, took, os.path.getsize(path), "MB/s")


def cases(bench: Bench) -> dict[str, Run]:
    """All cases by name, "group: description"."""
    found: dict[str, Run] = {}

    def add(name: str, run: Callable[..., float], *arguments: object, **keywords: object) -> None:
        found[name] = partial(run, name, *arguments, **keywords)

    def epoch(name: str, kind: str, solver: str, threads: int = 1, rows: tuple = (), **options: object) -> None:
        found[name] = lambda: bench.epoch(name, bench.rows_of(*rows), kind, solver, threads, **options)

    def installed(module: str) -> bool:
        if importlib.util.find_spec(module) is None:
            return False
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever a package raises that lacks something
            print(f"{module} is left out, because it cannot be imported: {error}", file=sys.stderr)
            return False
        return True

    for form in ("one-hot", "real", "ffm"):
        for threads in THREADS:
            add(f"parse: {form}, {in_words(threads)}", bench.parse, form, threads)
    if installed("sklearn"):
        add("parse: one-hot, scikit-learn", bench.sklearn)
    found |= table_cases(bench, installed, THREADS, in_words)
    for solver in ("sgd", "adagrad", "ftrl", "fobos"):
        epoch(f"epoch: fm {solver} k = {RANK}", "fm", solver, rank=RANK, round_size=1)
    for rank in (16, 32, 64):
        epoch(f"epoch: fm adagrad k = {rank}", "fm", "adagrad", rank=rank, round_size=1)
        epoch(f"epoch: fm adagrad k = {rank}, rounds", "fm", "adagrad", rank=rank, round_size=ROUND)
    for rank in (RANK, 16, 32, 64):
        add(f"epoch: limit, touching the rows, k = {rank}", bench.limit, rank)
    if installed("vowpalwabbit"):
        add("epoch: Vowpal Wabbit --lrqfa, with reading", bench.vw)
    if installed("xlearn"):
        for solver in ("sgd", "adagrad", "ftrl"):
            add(f"epoch: xLearn fm {solver} k = {RANK}", bench.xlearn, "fm", solver, RANK, "one-hot")
        add(f"ffm: xLearn adagrad k = {FFM_RANK}", bench.xlearn, "ffm", "adagrad", FFM_RANK, "ffm")
    if installed("modern_fm"):
        tenth = partial(bench.rows_of, "one-hot", 0.1)
        for kind, solver, rank in ("FM", "adagrad", RANK), ("FM", "ftrl", RANK), ("FFM", "adagrad", FFM_RANK):
            group = "ffm" if kind == "FFM" else "epoch"
            name = f"{group}: modern-fm {kind.lower()} {solver} k = {rank}"
            found[name] = lambda name=name, given=(kind, solver, rank): bench.modern_fm(name, *given, tenth())
    for solver in ("adagrad", "ftrl"):
        for threads in THREADS:
            name = f"epoch: fm {solver} k = {RANK}, rounds, {in_words(threads)}"
            epoch(name, "fm", solver, threads, rank=RANK, round_size=ROUND)
    epoch(f"ffm: adagrad k = {FFM_RANK}", "ffm", "adagrad", rows=("ffm", 0.1), rank=FFM_RANK)
    for threads in THREADS:
        epoch(f"cd: fm k = {RANK}, {in_words(threads)}", "fm", "cd", threads, ("ratings",), rank=RANK)
    if installed("myfm"):
        add("cd: myFM, Gibbs", bench.myfm)
    for share in (0.25, 0.5, 1):
        epoch(f"growth: {share:g} of the rows", "fm", "adagrad", rows=("one-hot", share), rank=RANK)
    for width in (5, 10, 40):
        epoch(f"growth: {width} non-zeros a row", "fm", "adagrad", rows=("one-hot", 0.25, width), rank=RANK)
    for features in (0.01, 0.1, 10):
        epoch(
            f"growth: features {features:g} of the rows",
            "fm",
            "adagrad",
            rows=("one-hot", 0.25, FIELDS, features),
            rank=RANK,
        )
    for order in (2, 3, 4, 5):
        epoch(f"growth: hofm order {order}", "hofm", "adagrad", rows=("one-hot", 0.1), rank=RANK, order=order)
    for threads in THREADS:
        j = ("-j", str(threads))
        add(f"whole: train -e {EPOCHS}, {in_words(threads)}", bench.whole, "train", *j, "-e", str(EPOCHS), "-o", "m")
        name = f"whole: predict, {in_words(threads)}"
        found[name] = partial(lambda name, j: bench.whole(name, "predict", *j, "-o", "p", str(bench.model())), name, j)
    found["whole: predict one row"] = lambda: one_row(bench)
    found["whole: --help"] = lambda: seconds(lambda: bench.command("--help"))
    return found


def one_row(bench: Bench) -> float:
    """The prediction of a single row: the time to start, and to map and check the model."""
    path = bench.folder / "one"
    if not path.exists():
        with open(bench.text("one-hot")) as file:
            path.write_text(file.readline())
    model = bench.model()
    return seconds(lambda: bench.command("predict", "-o", "p", str(model), str(path)))
