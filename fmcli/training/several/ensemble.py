"""Ensembles: the same run with several seeds, whose predictions are averaged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import finite
from fmcli.base.label_unit import ONE
from fmcli.models.layout import REAL_TYPE
from fmcli.records import dataclass
from fmcli.scoring.averages import MeanScore
from fmcli.scoring.draws import Draw, copied_bytes
from fmcli.solvers.trainer import Observer
from fmcli.system.memory import require
from fmcli.training.account import MemoryNeed, need_of
from fmcli.training.draw_sizes import kept_sweeps
from fmcli.training.draws import whole_draws
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.several.refit import refit, refits, whole
from fmcli.training.trained import Epoch, Trained, summary

T = TypeVar("T")
R = TypeVar("R")
# Figures of the summary that are means over the members.
MEANS = ("loss", "penalty", "objective", "sparsity")


class Observing(Protocol):
    """Returns the observer of a run, given its plan, whether it is on all rows, and the member's number, from 1."""

    def __call__(self, plan: Plan, *, again: bool, member: int) -> tuple[Callable[[Epoch], bool | None], Observer]: ...


@dataclass(frozen=True)
class Member:
    """A trained member of an ensemble.

    trained : the run of the last member; None for others, so their models take no memory.
    draws : all arrays of the model, for each of its draws.
    beside : as in Trained.
    valid : (rows, outputs) the scores of the validation data, by the run that was evaluated on them; None: there are
        no validation data.
    summary : the summary of the run.
    """

    seed: int
    trained: Trained | None
    draws: list[Draw]
    beside: Sequence[Draw]
    valid: NDArray[np.float64] | None
    summary: dict[str, Any]


def at_once(plan: Plan, count: int) -> int:
    """Return how many of `count` members train at the same time."""
    return min(count, plan.settings.threads)


def side_by_side(run: Callable[[T], R], jobs: Iterable[T], together: int) -> Iterator[R]:
    """Yield the results of jobs in their order; `together` jobs run at the same time. Raises the error of the first job
    that fails, and starts no further jobs then."""
    with ThreadPoolExecutor(together) as pool:
        started = [pool.submit(run, job) for job in jobs]
        try:
            for future in started:
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def memory_of(plan: Plan, count: int) -> MemoryNeed:
    """Return the memory that a run of `count` members needs: for several members, the rows, the members that train at
    the same time, the arrays of all members, and the mean prediction on the training rows."""
    need, model = need_of(plan), plan.model
    if count == 1:
        return need
    draws = max(1, len(kept_sweeps(plan.spec))) * count
    kept = draws * REAL_TYPE.itemsize * sum(math.prod(shape) for shape in model.shapes().values())
    return need.of_runs(at_once(plan, count), need.held, kept + copied_bytes(model, draws))


def member_plan(plan: Plan, number: int, threads: int) -> Plan:
    """Return the plan of the member with this number, from 0: another seed, on the same rows."""
    spec = replace(plan.spec, values={**plan.spec.values, "seed": plan.spec.values["seed"] + number})
    return replace(
        plan,
        settings=replace(plan.settings, threads=threads),
        spec=spec,
        model=prepared_model(spec, plan.source, plan.transform, None),
        evaluation=replace(plan.evaluation, threads=threads),
        validation=plan.validation and replace(plan.validation, threads=threads),
    )


def train_ensemble(plan: Plan, count: int, observing: Observing) -> tuple[Trained, list[Member]]:
    """Train members with consecutive seeds, starting from the plan's seed.

    All members hold out the same rows, as the plan says. Each member has its own best epoch. Threads train members at
    the same time; the result does not depend on their number.

    Returns the last member, with the arrays of the others as further draws, and the outcome of the mean prediction on
    the training rows; and the members. Raises the errors of `train`.
    """
    together = at_once(plan, count)
    need = memory_of(plan, count)
    require(need.total, f"training {count} models, {together} at a time", held=need.held)
    threads = max(1, plan.settings.threads // together)

    def run(number: int) -> Member:
        return trained_member(member_plan(plan, number, threads), number, observing, last=number + 1 == count)

    members = list(side_by_side(run, range(count), together))
    *others, _ = [draw for member in members for draw in member.draws]
    last = members[-1].trained
    assert last is not None
    ensemble = replace(
        last,
        plan=replace(last.plan, spec=plan.spec, settings=plan.settings, evaluation=plan.evaluation),
        draws=others,
        beside=[one for member in members for one in member.beside],
        members=count,
    )
    outcome = plan.evaluation.outcome(ensemble.all_draws, last.plan.measured)
    return replace(ensemble, outcome=outcome), members


def trained_member(plan: Plan, number: int, observing: Observing, *, last: bool) -> Member:
    """Train the member of a plan, and again on all rows if the settings say so."""
    trained = train(plan, *observing(plan, again=False, member=number + 1))
    if refits(plan):
        of_all = whole(trained)
        trained = refit(trained, of_all, *observing(of_all, again=True, member=number + 1))
    validated = trained.validated
    validation = validated.plan.validation
    valid = validation.outcome(validated.all_draws).score if validation else None
    draws = whole_draws(trained.plan.model, trained.draws)
    return Member(
        seed=plan.spec.values["seed"],
        trained=trained if last else None,
        draws=draws,
        beside=trained.beside,
        valid=valid,
        summary=summary(trained),
    )


def ensemble_summary(ensemble: Trained, members: Sequence[Member]) -> dict[str, Any]:
    """Return the summary of an ensemble: "train" and "valid" are metrics of the mean prediction, and "members" has
    lists of figures of the members; others are means over the members."""
    figures = summary(ensemble)
    each = [member.summary for member in members]
    validation = ensemble.validated.plan.validation
    valid: dict[str, float] = {}
    if validation:
        mean = MeanScore(validation.loss)
        for member in members:
            assert member.valid is not None
            mean.add(member.valid)
        outcome = replace(validation, unit=ONE).outcome_of(mean.score())  # scores of members are in the user's unit
        valid = validation.measure(ensemble.plan.model, outcome)
    lists = {
        "seed": [member.seed for member in members],
        "best_epoch": [one["best_epoch"] for one in each],
        "loss": [one["loss"] for one in each],
        **{f"valid_{name}": [one["valid"][name] for one in each] for name in valid},
    }
    means = {name: mean_of([one[name] for one in each]) for name in MEANS}
    draws = {"draws": each[-1]["draws"]} if "draws" in figures else {}
    best = max(lists["best_epoch"])
    return finite({**figures, **means, **draws, "best_epoch": best, "valid": valid, "members": lists})


def mean_of(numbers: list[float | None]) -> float | None:
    """Return the mean of numbers; None if one is missing."""
    known = [value for value in numbers if value is not None]
    return sum(known) / len(known) if len(known) == len(numbers) else None
