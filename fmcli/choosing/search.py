"""The search for a kind, a solver and options, by successive halving (Jamieson and Talwalkar 2016).

First, the kinds and solvers are compared by their usual options, within a work that is known before (--auto is this
alone). Then options are drawn for the best ones of them, in brackets: each bracket trains many for few epochs, and the
best ones of these for longer. The runs pause in between, so that no epoch is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate

from fmcli.choosing.budget import LEAST_WORK, MOST_TRAININGS, WORK_OF_CHAINS
from fmcli.choosing.candidates import TIE, Candidate, Known, SearchLimits
from fmcli.choosing.kinds import Group
from fmcli.choosing.memory import added, memory_of, running_bytes
from fmcli.choosing.plans import chosen_values, fold_plans, is_free, stretched_plans
from fmcli.choosing.proposals import PROPOSE
from fmcli.choosing.quick_search import with_values
from fmcli.choosing.request import SearchRequest, SearchResult
from fmcli.choosing.runs import LateError, Room, Watch, as_trial
from fmcli.errors import BadInputError, NotEnoughMemoryError, UsageError
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.ranges import Range, by
from fmcli.registry.streams import TUNE_STREAM, generator
from fmcli.system.allocator import return_freed_memory
from fmcli.system.memory import require_if_large
from fmcli.training.account import MemoryNeed
from fmcli.training.job import return_freed
from fmcli.training.planning import Plan, with_options
from fmcli.training.several.ensemble import side_by_side
from fmcli.training.several.refit import refits

# A solver that samples is left out if another kind is better than its own by more standard errors than this.
HOPELESS = 10.0
# With a deadline, each run takes at most such a part of the time that is left after the usual one, which itself took
# this many seconds at least, and all runs by usual options half of it.
PART_OF_TIME, MOMENT = 6, 1e-6
# For this many other kinds, the best ones by their usual options, better options are searched before one is chosen.
FINALISTS = 3
# Options are drawn for at most this many kinds and solvers, and the best half of these is left after each round.
MOST_KINDS = 4
# A bracket has BRACKET runs. A third of them goes on after each of RUNGS rungs, for three times as many epochs; that
# of a solver that samples has a third of them, which are whole.
BRACKET, REDUCTION, RUNGS = 9, 3, 3
# Runs may be on subsets of at least this many rows.
ROWS_FOR_SUBSETS = 100_000
# From a little less than the usual strength of a penalty to one with which hardly any parameter is left.
STRENGTHS_OF_PATH = by(3, 3000)
# Options are drawn at most this many times until they differ from the ones before.
MOST_DRAWS = 20


class Search:
    """A search for the best of the usual run, the runs of other kinds and solvers, and the runs of drawn options.

    plan : the usual run, which holds out rows, and has the others if there are some.
    folds : how many times other rows are held out; stretched : whether these are stretches of consecutive rows.
    known : see SearchLimits.
    on_trial : called with each candidate after its run.
    """

    def __init__(
        self,
        plan: Plan,
        request: SearchRequest,
        *,
        folds: int = 1,
        stretched: bool = False,
        known: Known | None = None,
        on_trial: Callable[[Candidate], None] = lambda candidate: None,
    ) -> None:
        self.plan, self.request, self.on_trial = plan, request, on_trial
        self.folds, self.stretched = folds, stretched
        self.limits = SearchLimits(known, request.deadline)
        self.folds_of = partial(stretched_plans if stretched else fold_plans, number=folds)
        self.usual = self.candidate(plan, 0)
        self.candidates: list[Candidate] = [self.usual]
        self.whole: list[Candidate] = []  # the candidates that no rung has left out
        self.groups: list[Group] = [Group(self.usual, request.ranges)]
        self.number = len(plan.settings.alternatives) + 1
        self.watch, self.running = Watch(request.deadline), Room()
        self.most, self.race_work, self.least_work, self.work_of_chains = 0, 0, LEAST_WORK, WORK_OF_CHAINS
        self.begun = time.perf_counter()

    @cached_property
    def alternatives(self) -> list[Candidate]:
        """The candidates of other kinds and solvers, as far as there is time to make them."""
        found = list[Candidate]()
        with suppress(LateError):
            found.extend(self.others())
        return found

    @cached_property
    def contenders(self) -> list[Candidate]:
        """The usual run and its alternatives, except the ones whose epoch is too much work."""
        whole = self.usual.work * self.plan.spec.values["epochs"]
        race_work = (MOST_TRAININGS * (1 + refits(self.plan)) - 1) * whole
        _, rest = self.shares(race_work, sampled=any(one.samples for one in self.alternatives))
        return [self.usual, *(one for one in self.alternatives if one.work <= (race_work if one.samples else rest))]

    @cached_property
    def memory(self) -> MemoryNeed:
        """The memory that the search needs. Runs at the same time, and paused runs, get their room of it."""
        candidates, most = self.contenders, MOST_KINDS * BRACKET
        trials = most if self.request.most is None else self.request.most
        drawn = 0 if self.request.path else min(most, max(0, trials - len(candidates)))
        together, plans = self.together(len(candidates) + drawn), [as_trial(candidate.plan) for candidate in candidates]
        if drawn:
            groups = [Group(candidate, self.request.ranges) for candidate in candidates]
            plans += [as_trial(largest_of(group)) for group in groups]
        self.running.size = running_bytes(plans, together)
        # The usual run is whole before others begin. Many rows have brackets on subsets of them, whose runs are whole.
        pausing = len(candidates) - 1 + (0 if self.many_rows else drawn)
        need, room = memory_of(candidates, self.running.size, pausing / len(candidates))
        self.limits.room.size = room
        return need

    def shares(self, race_work: int, *, sampled: bool) -> tuple[int, int]:
        """Return the work that solvers that sample have at least, if there are some, and the work of the others."""
        half = race_work // 2 if sampled else 0
        return half, max(race_work, self.least_work) - half

    def together(self, candidates: int) -> int:
        """Return how many of some candidates train at the same time: a cache has room for one run, and a cluster has
        its workers for one."""
        return max(1, min(self.plan.settings.threads, candidates)) if self.plan.source.in_memory else 1

    def candidate(self, plan: Plan, number: int) -> Candidate:
        """Return the candidate of a plan."""
        return Candidate(self.folds_of(plan), number, limits=self.limits)

    def run(self) -> tuple[Candidate, SearchResult]:
        """Search, until all trials are made or the deadline has passed; return the winner, and all trials."""
        late = False
        try:
            self.begin()
            if self.request.path:
                self.follow()
            else:
                self.race()
                self.draw()
        except LateError:
            late = True
        chosen = self.choose()
        if chosen.before is not None:
            chosen = self.anew(chosen)
        if self.request.draws and not late:
            with suppress(LateError):
                self.train([chosen], lambda chosen: chosen.plan.spec.values["epochs"])
        one = max(1, self.usual.own)
        trials = [
            replace(each.longest.record(), trainings=each.total / one, chosen=each is chosen)
            for each in sorted(self.candidates, key=Candidate.rank)
        ]
        return chosen, SearchResult(trials, late=late)

    def begin(self) -> None:
        """Train the usual run, by which the work of others is measured. Raises NotEnoughMemoryError if the search needs
        more memory than there is."""
        require_if_large(self.memory.total, "comparing runs", held=self.memory.held)
        return_freed_memory()  # of reading the rows
        begin = time.perf_counter()
        self.train([self.usual], lambda usual: usual.plan.spec.values["epochs"])
        self.race_work = MOST_TRAININGS * self.usual.own - self.usual.spent
        self.most = MOST_TRAININGS * self.usual.plan.spec.values["epochs"] * self.usual.work
        if self.request.deadline is not None:
            now = time.perf_counter()
            left = int(self.usual.spent / max(now - begin, MOMENT) * (self.request.deadline - now))
            self.most, self.race_work = min(self.most, left // PART_OF_TIME), min(self.race_work, left // 2)
            self.least_work, self.work_of_chains = min(self.least_work, left // 2), min(self.work_of_chains, left // 2)

    def train(self, candidates: Sequence[Candidate], epochs_of: Callable[[Candidate], int]) -> int:
        """Train candidates at the same time, up to `epochs_of(candidate)` epochs; return the work that it took. They
        begin in their order, whatever the number of threads."""
        before = sum(candidate.spent for candidate in candidates)
        asked = {candidate.number: epochs_of(candidate) for candidate in candidates}
        threads, together = self.plan.settings.threads, self.together(len(candidates))

        def run(candidate: Candidate) -> bool:
            with self.running.taken(added(as_trial(candidate.plan)) if together > 1 else 0):
                return_freed(self.memory)  # of the runs before
                return candidate.train(asked[candidate.number], max(1, threads // together)) > 0

        for candidate, trained in zip(candidates, side_by_side(run, candidates, together), strict=True):
            if trained:
                self.on_trial(candidate)
        return sum(candidate.spent for candidate in candidates) - before

    def race(self) -> None:
        """Compare the kinds and solvers by their usual options.

        Solvers that sample have half of the work at least, because their first sweeps say little. What they leave is
        for the best one of the others; hopeless ones leave all. They have whole runs if these take a few
        seconds: a chain of a fifth of the sweeps may lose to a kind that is worse than the whole one.

        Each kind has its usual penalties only. When a tenth of them and ten times as many were other candidates, and
        the best one of each kind went on, the metrics on 51 splits of 21 sets were the same (-.07 % +- .21 %).
        """
        candidates = sorted(self.alternatives, key=lambda candidate: candidate.work)
        samplers, others = ([one for one in candidates if one.samples is samples] for samples in (True, False))
        half, rest = self.shares(self.race_work, sampled=bool(samplers))
        left = half + rest
        self.enter(others)
        done = self.race_of(others, rest)
        hopeless = [one for one in samplers if self.is_hopeless(one)]
        samplers = [self.with_values(one) for one in samplers if one not in hopeless]
        self.enter([*hopeless, *samplers])
        chains = sum(one.work * one.plan.spec.values["epochs"] for one in samplers)
        whole = chains if chains <= self.work_of_chains else 0
        done += self.race_of(samplers, max(half, self.race_work - done, whole))
        left -= done
        self.race_of([one for one in sorted(others, key=Candidate.rank) if one.may_go_on(left)][:1], left)

    def enter(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates of other kinds and solvers."""
        self.candidates += candidates
        self.groups += [Group(candidate, self.request.ranges) for candidate in candidates]
        self.whole += candidates

    def with_values(self, sampler: Candidate) -> Candidate:
        """Return the candidate of a solver that samples with the values that its quick search chooses: only one chain
        is long enough to be compared. Raises LateError."""
        self.watch.check()
        plan = with_values(sampler.plan, self.request.deadline)[0].plan
        values = chosen_values(plan)
        return Candidate(self.folds_of(plan), sampler.number, values, self.limits) if values else sampler

    def others(self) -> Iterator[Candidate]:
        """Yield the alternatives that the rows suit, and whose predictions are measured in the same way. Raises
        LateError."""
        plan = self.plan
        assert plan.validation is not None
        for number, spec in enumerate(plan.settings.alternatives, start=1):
            assert plan.other is not None
            self.watch.check()
            try:
                alternative = replace(plan.other(spec), readings=plan.readings)
            except (BadInputError, UsageError, NotEnoughMemoryError):
                continue
            same = (alternative.spec.model, alternative.spec.solver) == (plan.spec.model, plan.spec.solver)
            measures = alternative.validation is not None and alternative.validation.chooser == plan.validation.chooser
            if measures and not same and not exceeds_rows(alternative):
                yield self.candidate(alternative, number)

    def race_of(self, candidates: Sequence[Candidate], work_left: int) -> int:
        """Train candidates of different kinds, and return the work that it took.

        Each run may take an equal share of the work that is left. While some is left, the better half of the runs
        that have not ended by themselves go on.
        """
        left, staying = work_left, candidates
        while staying:
            share = left // len(staying)
            left -= self.train(staying, lambda candidate, share=share: candidate.within(share))  # type: ignore[misc]
            longer = [candidate for candidate in sorted(staying, key=Candidate.rank) if candidate.may_go_on(left)]
            staying = longer[: (len(longer) + 1) // 2] if len(staying) > 1 else []
        return work_left - left

    def is_hopeless(self, sampler: Candidate) -> bool:
        """Return whether another kind is better than the sampler's own, trained by another solver, by so much that
        sampling cannot make up for it. A run that failed says nothing about sampling."""
        known = [one for one in self.candidates if one.reached.value is not None]
        best = min(known, key=Candidate.rank, default=sampler)
        own = [one for one in known if one.plan.spec.model == sampler.plan.spec.model]
        return bool(own) and all(best.better_than(one, HOPELESS) for one in own)

    def draw(self) -> None:
        """Draw options for the best kinds and solvers."""
        ranked = sorted(self.groups, key=lambda group: group.champion.rank())
        groups = ranked[: min(MOST_KINDS, (len(ranked) + 1) // 2)]
        if self.groups[0] not in groups:
            groups.append(self.groups[0])
        groups = groups[: self.affordable(groups)]
        while brackets := [drawn for group in groups if (drawn := list(self.bracket(group)))]:
            self.halve(brackets)
            groups = sorted(groups, key=lambda group: group.champion.rank())[: (len(groups) + 1) // 2]

    def affordable(self, groups: Sequence[Group]) -> int:
        """Return of how many groups, at least one, a bracket ends before the deadline if its runs take as long as the
        group's best one: a bracket that does not end has no run that was trained long enough to be the best."""
        deadline, now = self.request.deadline, time.perf_counter()
        if deadline is None:
            return len(groups)
        done = sum(candidate.total for candidate in self.candidates)
        left = done / max(now - self.begun, MOMENT) * (deadline - now)
        needed = accumulate(self.size_of(group) * group.champion.spent for group in groups)
        return max(1, sum(work <= left for work in needed))

    def size_of(self, group: Group) -> int:
        """Return how many runs a bracket has."""
        return REDUCTION if group.candidates[0].samples else BRACKET

    def bracket(self, group: Group) -> Iterator[Candidate]:
        """Yield candidates of drawn options, until there are no others, or trials."""
        first = group.candidates[0]
        for _ in range(self.size_of(group)):
            if self.request.most is not None and len(self.candidates) >= self.request.most:
                return
            drawn = group.drawn
            for attempt in range(MOST_DRAWS):
                random = generator(self.plan.spec, TUNE_STREAM, self.number, attempt)
                propose = PROPOSE[self.request.sampler if attempt < MOST_DRAWS // 2 else "random"]
                settings = group.settings(propose(group.ranges, list(group.tried()), random))
                if settings and settings not in drawn:
                    with suppress(UsageError):
                        plans = [with_options(plan, settings) for plan in first.plans]
                        break
            else:
                return
            group.add(Candidate(plans, self.number, settings, self.limits))
            self.candidates.append(group.candidates[-1])
            self.number += 1
            yield self.candidates[-1]

    def halve(self, brackets: Sequence[list[Candidate]]) -> None:
        """Train brackets. A part of each goes on after each rung: for more epochs, or on more rows where the usual run
        has so few epochs that a part of them says little less, but takes little less time."""
        by_rows = self.usual.reached.epochs < REDUCTION ** (RUNGS - 1) and self.many_rows
        for rung in range(RUNGS):
            jobs = [candidate for candidates in brackets for candidate in candidates]
            share = REDUCTION ** (RUNGS - 1 - rung)
            if by_rows and share > 1:
                jobs = [candidate if candidate.samples else candidate.on_subset(share) for candidate in jobs]
            epochs_of = partial(self.epochs_of, rung=RUNGS - 1 if by_rows else rung)
            # A deadline leaves out the dear ones.
            self.train(sorted(jobs, key=lambda candidate: candidate.work * epochs_of(candidate)), epochs_of)
            for candidates in brackets:
                candidates.sort(key=Candidate.rank)
                for candidate in candidates[max(1, len(candidates) // REDUCTION) :]:
                    candidate.forget()
                del candidates[max(1, len(candidates) // REDUCTION) :]
        self.whole += [candidate for candidates in brackets for candidate in candidates]

    def follow(self) -> None:
        """Train a run for each value of a penalty, from weak to strong, each from the parameters of the one before.
        Factors that are all 0 would stay so in the other direction. They are penalized from the first epoch on."""
        group, before, self.number = self.groups[0], None, 1
        name, one = path_of(self.plan, self.request.ranges)
        usual, at_once = self.plan.spec.values[name], {"l1_from_epoch": 1}
        if not is_free(self.plan.settings.spec, "l1_from_epoch"):
            at_once = {}
        for value in one.spaced(self.request.path or 0, usual):
            plans = [with_options(plan, {name: value, **at_once}) for plan in self.usual.plans]
            before = Candidate(plans, self.number, {name: value}, self.limits, before, followed=True)
            group.add(before)
            self.candidates.append(before)
            self.number += 1
            self.train([before], lambda candidate: candidate.plan.spec.values["epochs"])

    def anew(self, chosen: Candidate) -> Candidate:
        """Return the run of a path, trained from the usual start values, as the model on all rows will be; or the usual
        run, if that is no better than it then: all epochs of the path together may have been what it needed."""
        plans = [with_options(plan, chosen.settings) for plan in self.usual.plans]
        own = Candidate(plans, self.number, chosen.settings, self.limits)
        self.candidates.append(own)
        with suppress(LateError):
            self.train([own], lambda candidate: candidate.plan.spec.values["epochs"])
        return own if own.better_than(self.usual, own.margin) else self.usual

    @property
    def many_rows(self) -> bool:
        """Whether subsets of the rows can be trained on, and have enough of them."""
        source = self.plan.source
        return source.in_memory and source.data.group is None and source.count >= ROWS_FOR_SUBSETS

    def epochs_of(self, candidate: Candidate, rung: int) -> int:
        """Return for how many epochs, in all, a candidate is trained by a rung. Runs of a solver that samples are
        whole, because its first sweeps say little."""
        asked: int = candidate.plan.spec.values["epochs"]
        most = min(asked, max(1, self.most // candidate.work))
        return max(1, most if candidate.samples else most // int(REDUCTION ** (RUNGS - 1 - rung)))

    @property
    def finalists(self) -> list[Candidate]:
        """The usual run, and the best ones of other kinds, except runs of solvers that sample."""
        ranked = sorted((one for one in self.alternatives if one.begun and not one.samples), key=Candidate.rank)
        kinds = {one.plan.spec.model: one for one in reversed(ranked) if one.reached.value is not None}
        return [self.usual, *sorted(kinds.values(), key=Candidate.rank)[:FINALISTS]]

    def choose(self) -> Candidate:
        """Return the best kind that is clearly better than the usual run, and of it the candidate closest to its usual
        options that is as good as its best one. A solver that samples becomes much better, so it is chosen unless
        another one is clearly better."""
        whole = dict.fromkeys([*self.whole, *(group.champion for group in self.groups)])
        better = [found for group in self.groups if (found := group.closest(whole, self.usual))]
        chosen = min(better, key=Candidate.rank, default=self.usual)
        for candidate in better:
            if candidate.is_cut_short and not chosen.better_than(candidate, TIE):
                chosen = candidate
        return chosen


def exceeds_rows(plan: Plan) -> bool:
    """Return whether a kind has terms of more features than any row has entries: it is a kind of a lower order, which
    takes longer."""
    return bool(plan.spec.values.get("order", 0) > plan.data.longest)


def largest_of(group: Group) -> Plan:
    """Return the plan of a group whose options that are whole numbers, such as the rank, are the largest ones."""
    plan = group.candidates[0].plan
    ends = {name: max(one.choices, default=int(one.high)) for name, one in group.ranges.items() if is_whole(name)}
    with suppress(UsageError):
        return with_options(plan, ends)
    return plan


def is_whole(name: str) -> bool:
    """Return whether an option is a whole number."""
    return OPTIONS[name].kind is int


def path_of(plan: Plan, ranges: Mapping[str, Range]) -> tuple[str, Range]:
    """Return the option of a path, and its values: that with a range, or the penalty of a kind of sparse models. Raises
    UsageError."""
    kind = MODELS[plan.spec.model]
    ranges = ranges or dict.fromkeys(kind.positive[:1], STRENGTHS_OF_PATH)
    found = [(name, one) for name, one in ranges.items() if OPTIONS[name].kind is float]
    if len(ranges) != 1 or not found:
        raise UsageError(
            "a path is over the values of one penalty; give one a range or several values, or a kind of sparse models"
        )
    return found[0]
