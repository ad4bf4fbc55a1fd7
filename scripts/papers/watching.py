"""The objective in the course of training, and starting from a model of another form."""

import time
from collections.abc import Collection

import numpy as np
from experiment import Numbers
from fitting import Options, spec_of

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.scoring.rows import score_rows
from fmcli.training import job
from fmcli.training.saving import save_model


def squared_loss(plan: job.Plan, data: Dataset) -> float:
    """The mean loss of the plan's model on these rows."""
    return float(np.mean((score_rows(plan.model, data)[:, 0] - data.label) ** 2) / 2)


def watched(plan: job.Plan, data: Dataset, noted: Collection[int]) -> Numbers:
    """Train a plan's model with the squared loss. Returns its objective on its training rows after the noted epochs
    and at the end, which may come earlier, and the CPU seconds until then, without those of scoring; "diverged" is
    there if training diverged, and ends it."""
    found: Numbers = {"epochs": [], "objective": [], "seconds": []}
    begin, apart = time.process_time(), 0.0

    def note(epoch: job.Epoch) -> None:
        nonlocal apart
        now = time.process_time()
        if epoch.number in noted:
            add(epoch, now)
        apart += time.process_time() - now

    def add(epoch: job.Epoch, now: float) -> None:
        found["epochs"].append(epoch.number)
        found["objective"].append(squared_loss(plan, data) + epoch.penalty)
        found["seconds"].append(now - begin - apart)

    try:
        last = job.train(plan, note).epochs[-1]
    except DivergedError:
        found["diverged"] = True
    else:
        if last.number not in noted:
            add(last, time.process_time())
    return found


def seconds_of_epoch(plan: job.Plan) -> float:
    """The CPU seconds of the fastest epoch of training a plan's model."""
    begin, found = time.process_time(), []

    def note(_: job.Epoch) -> None:
        nonlocal begin
        found.append(time.process_time() - begin)
        begin = time.process_time()

    job.train(plan, note)
    return min(found)


def spaced(last: int, points: int) -> set[int]:
    """Numbers of epochs up to the last one, at about equal distances of their logarithms."""
    return {round(last ** (i / (points - 1))) for i in range(points)}


def saved_start(model: str, options: Options, data: Dataset, path: str) -> None:
    """Write the model file of a model with its start values."""
    trained = job.train(job.plan(data, spec_of(model, options | {"epochs": 0})))
    save_model(path, trained, job.summary(trained), "libsvm")
