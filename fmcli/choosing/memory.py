"""The memory of a search: of its rows, of the runs at the same time, and of paused runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fmcli.choosing.candidates import Candidate
from fmcli.choosing.runs import as_trial
from fmcli.registry.specs import Spec
from fmcli.system.memory import available
from fmcli.training.account import MemoryNeed, need_of, paused_bytes
from fmcli.training.planning import Plan
from fmcli.training.setup.memory import held_bytes

# Paused runs keep at most this number of bytes, or this share of what all else takes: most runs end, and keep nothing.
LEAST_PAUSED, PAUSED = 16 << 20, 0.25


def running_bytes(plans: Sequence[Plan], together: int) -> int:
    """Return bytes for several runs at the same time: the one that needs most, and others like the first one. Runs wait
    for each other if they need more: hardly any two of a search are as large as the largest one."""
    needed = sorted(map(added, plans))[-together:]
    return min(sum(needed), needed[-1] + (together - 1) * added(plans[0]))


def memory_of(candidates: Sequence[Candidate], running: int, paused: float) -> tuple[MemoryNeed, int]:
    """Return the memory that candidates need, and the bytes of it that paused runs may keep: little beside all else,
    because a run that keeps nothing begins again.

    running : bytes for the runs at the same time.
    paused : how many times as many runs as the candidates have may pause.
    """
    plans = [plan for candidate in candidates for plan in candidate.plans]
    held = plans[0].held + held_by(plans) - held_by(plans[:1])
    total = held + running + sum(map(scores_of, plans))
    pause = sum(len(one.plans) * paused_bytes(as_trial(one.plan)) for one in candidates if may_pause(one.plan.spec))
    room = max(0, min(int(paused * pause), max(LEAST_PAUSED, int(PAUSED * total)), available() + held - total))
    return MemoryNeed(total + room, held), room


def added(plan: Plan) -> int:
    """Return the bytes that a run needs in addition to the memory in use."""
    need = need_of(plan)
    return need.total - need.held


def may_pause(spec: Spec) -> bool:
    """Return whether a run may pause and go on: one epoch is a whole run, and shorter runs of a sampler are, too."""
    return not spec.solver_entry.is_sampler and bool(spec.values["epochs"] > 1)


def held_by(plans: Sequence[Plan]) -> int:
    """Return the bytes of the rows of plans, which may share them, and of each plan's facts about its rows."""
    data = [data for plan in plans for data in (plan.data, *([plan.validation.data] if plan.validation else []))]
    own = [array for plan in plans for array in (plan.source.rows, plan.seen, plan.counts) if array is not None]
    return held_bytes(data) + sum({id(array): array.nbytes for array in own}.values())


def scores_of(plan: Plan) -> int:
    """Return bytes of the labels, weights and scores of the validation data by which a run is compared."""
    rows = plan.validation.count if plan.validation else 0
    return np.dtype(np.float64).itemsize * rows * (2 + plan.model.columns)
