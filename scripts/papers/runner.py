"""Experiments, as their tables state them: a case is trained on each split of its set, and rules judge the results."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import special
from measures import MEASURES, Measure, Options, Results, Row, Tried, mean, spec_of
from sets import MissingDataError, Pair, Raw, Sets, folds, held_out

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.scoring.metrics import METRICS
from fmcli.training import job

TABLES = [Path(__file__).resolve().parent / "tables" / f"{one}.toml" for one in ("pn", "ho", "sh", "sgl", "others")]
NEVER = 1_000_000  # epochs without improvement
PENALTIES = ("l2_w", "l2_v")
NAMES = {"np": np, "mean": mean, **vars(special)}  # of expressions


def measure_of(words: str) -> Measure:
    """Return a measure by its name and its arguments, "with" what follows from the arrays of the trained model."""
    words, _, of_arrays = words.partition(" with ")
    every = MEASURES | special.MEASURES
    name = max((name for name in every if f"{words} ".startswith(f"{name} ")), key=len)
    metrics, of = every[name](*words.removeprefix(name).split())
    if not of_arrays:
        return Measure(metrics, of)
    more = special.ARRAYS[of_arrays]
    return Measure(metrics, lambda plan, pair: of(plan, pair) | more(plan.model.parameters, pair))


def value_of(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def candidates(text: str) -> list[Options]:
    """Return the options that a text states: "l2=1,2 rank=4 | l2=3" are three. The step size of anchors is stated by
    its share of the other one."""
    found = []
    for one in text.split("|"):
        given = dict(word.split("=") for word in one.split())
        for values in product(*(map(value_of, text.split(",")) for text in given.values())):
            options = dict(zip(given, values, strict=True))
            if share := options.pop("anchor_share", None):
                options["anchor_rate"] = share * options["learning_rate"]
            found.append(options)
    return found


@dataclass(frozen=True)
class Choice:
    """How options are chosen on held-out rows: a share of the training rows of the first split, or each of its folds.

    by : metrics after each epoch, which also choose the best epoch. measure : is judged at the end, without `by`.
    of : how many rows take part. only : options of these runs alone. pick : how one is chosen, in special.PICKS.
    """

    by: str = ""
    measure: str = ""
    share: float = 0.25
    parts: int = 1
    of: int = NEVER
    only: str = ""
    patience: int = NEVER
    pick: str = "lowest"

    def tried(self, case: "Case", train: Dataset) -> Iterator[Tried]:
        """Yield the metrics of each candidate. Those with which training diverges are left out."""
        if train.rows > self.of:
            train = held_out(train, self.of / train.rows).test
        one = held_out(train, self.share) if self.share else Pair(train)
        parts = folds(train, self.parts) if self.parts > 1 else [one]
        for options in case.options:
            try:
                yield from list(self.run(case, options, parts))
            except DivergedError:
                continue

    def run(self, case: "Case", options: Options, parts: Sequence[Pair]) -> Iterator[Tried]:
        every, by = options | candidates(self.only)[0], tuple(self.by.split())
        if by:
            runs = [job.train(case.plan(every, part, by, self.patience)).epochs for part in parts]
            for at in zip(*runs, strict=False):
                values = {name: mean(one.valid[name] for one in at) for name in by}
                yield Tried(options | {"epochs": at[0].number}, values)
        else:
            measure = measure_of(self.measure)
            rows = [measure.of(case.plan(every, part, measure.metrics), part) for part in parts]
            if not any(row.get("diverged") for row in rows):
                yield Tried(options, {name: mean(np.ravel(row[name])[-1] for row in rows) for name in rows[0]})


@dataclass(frozen=True)
class Case:
    """What is trained on each split of a set.

    row : the name of its results. run : the options; `choose` says how one of several is chosen.
    then : what is added to the options, by names of rows. start : the start values, by a name in `special.start_of`.
    splits : how many are used. starts : runs for each split, whose results are `joined`.
    seed, step : the first seed, and the difference between the seeds of splits.
    best : only the values of the epoch with the best mean are kept.
    defaults : rows are held out of the training rows to choose the epoch, as by default.
    summed : l2_w and l2_v are relative to the sum of the losses of the training rows, not to their mean.
    """

    row: str
    set: str
    run: str
    measure: str
    choose: Choice | None = None
    then: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    start: str = ""
    splits: int = 5
    starts: int = 1
    seed: int = 0
    step: int = 1
    joined: str = "mean"
    best: bool = False
    defaults: bool = False
    summed: bool = False

    @property
    def options(self) -> list[Options]:
        return candidates(self.run)

    def plan(self, options: Options, pair: Pair, metrics: tuple[str, ...], patience: int = NEVER) -> job.Plan:
        options = {"seed": 0} | options
        begin = special.start_of(self.start)
        start = begin(options, pair.train) if begin else None
        if self.summed:
            options |= {name: options[name] / pair.train.rows for name in PENALTIES if name in options}
        if self.defaults:
            return job.plan(pair.train, spec_of(options), holdout=None)
        valid = pair.test if metrics else None
        return job.plan(pair.train, spec_of(options), valid=valid, metrics=metrics, patience=patience, warm_start=start)

    def rows(self, pairs: Sequence[Pair], chosen: dict[str, Tried]) -> Iterator[tuple[str, Row]]:
        """Yield the rows of results; what is chosen is added to `chosen`, and what is shown of it to the rows."""
        options, shown, several = self.options[0], set(), len(self.options) > 1
        row: Row = {}
        if self.choose and (several or self.choose.by):
            found = list(self.choose.tried(self, pairs[0].train))
            picked = special.PICKS[self.choose.pick](found, chosen, self.row)
            if picked is None:
                return
            chosen[self.row], options = picked, picked.options
            shown = {name for one in self.options for name, value in one.items() if value != self.options[0].get(name)}
            shown |= {"epochs"} if self.choose.by else set()
            row = {"held out": [next(iter(picked.values.values()))]}
        for end, added in self.then.items():
            every = options | candidates(added)[0]
            measured = [self.split(every, pair, number) for number, pair in enumerate(pairs[: self.splits])]
            of_options = {"options": {name: every[name] for name in every if name in shown}} if shown else {}
            yield ", ".join(filter(None, (self.row, end))), self.gathered(measured) | row | of_options

    def split(self, options: Options, pair: Pair, number: int) -> Row:
        """Return what is measured on a split."""
        measure, joined = measure_of(self.measure), getattr(np, self.joined)
        seeds = (self.seed + self.step * number + start for start in range(self.starts))
        rows = [measure.of(self.plan(options | {"seed": seed}, pair, measure.metrics), pair) for seed in seeds]
        if len(rows) == 1:
            return rows[0]
        return {name: joined([row[name] for row in rows], axis=0).tolist() for name in rows[0]}

    def gathered(self, rows: Sequence[Row]) -> Row:
        """Return the values of the splits of each metric."""
        found = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
        if self.best:
            name = next(iter(found))
            by_epoch = np.array(found.pop(name))
            path = by_epoch.mean(axis=0)
            at = int(path.argmax() if METRICS[name].larger_is_better else path.argmin())
            found = {name: by_epoch[:, at].tolist(), "epoch": [at + 1], "curve": [path.tolist()]} | found
        return found


class Rule(NamedTuple):
    """text : what must hold, as it is printed before the run. holds : an expression of the results `r` and what the
    paper has, `p`. reason : why it does not hold, as found by further measurements; shown if it fails. found : what was
    found instead, for the page of the guide."""

    text: str
    holds: str
    reason: str = ""
    found: str = ""


@dataclass(frozen=True)
class Experiment:
    """An experiment of one of the papers: a table in a file of `tables`.

    source : the paper, and its table or figure. about : what is run, and how it differs from the paper; Markdown.
    notes : what else the results show. more : rows that are not of a case, in `special.MORE`.
    paper : what the paper has, by metric and row. others : figures of other programs, by set.
    figures : what follows from the results; expressions. headline : the best figures, for the page of the guide.
    plots : the figures that can be drawn; see page.Plot. cells : how lists are shown in tables.
    """

    name: str
    source: str
    title: str
    about: str
    rules: Sequence[Rule]
    cases: Sequence[Case]
    notes: str = ""
    more: str = ""
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    headline: str = "''"
    plots: Sequence[Mapping[str, Any]] = ()
    cells: str = "spread"

    def value(self, expression: str, results: Results) -> Any:
        return eval(expression, NAMES | {"r": results, "p": {**self.paper, "others": self.others}})

    def verdict(self, rule: Rule, results: Results) -> str:
        """Return PASS or FAIL, or NOT RUN for a rule about rows of data that were not there."""
        try:
            return "PASS" if self.value(rule.holds, results) else "FAIL"
        except MissingDataError:
            return "NOT RUN"

    def run(self, raw: Raw) -> tuple[dict[str, Row], list[str]]:
        """Return the rows of results, and the cases that are skipped because their sets have no raw files."""
        sets, rows, chosen, skipped = Sets(raw), {}, {}, []
        for case in self.cases:
            try:
                rows |= dict(case.rows(sets[case.set], chosen))
                print(f"  {case.row}", flush=True)
            except MissingDataError as error:
                print(f"  {case.row} is skipped: {error}", flush=True)
                skipped.append(case.row)
        return rows | (special.MORE[self.more](sets) if rows and self.more else {}), skipped


def cases_of(table: Mapping[str, Any], shared: Mapping[str, Any], let: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the cases of a table: one for each combination of the labels of its `axes`, whose texts are added to `run`.
    Texts are f-strings of these labels and of `let`."""
    given = {**shared, **table}
    axes = {name: of if isinstance(of, dict) else dict.fromkeys(of, "") for name, of in given.pop("axes", {}).items()}
    for labels in product(*axes.values()):
        values = [value_of(label) if isinstance(label, str) else label for label in labels]
        names = {**let, **dict(zip(axes, values, strict=True))}

        def filled(value: Any, names: dict[str, Any] = names) -> Any:
            if isinstance(value, dict):
                return {name: filled(one) for name, one in value.items()}
            return eval(f"f{value!r}", names) if isinstance(value, str) else value

        texts = [shared.get("run", ""), table.get("run", ""), *map(dict.get, axes.values(), labels)]
        of_case = filled(given) | {"run": every_way(list(map(filled, texts)))}
        if "choose" in of_case:
            of_case["choose"] = Choice(**of_case["choose"])
        yield Case(**of_case)


def every_way(texts: Sequence[str]) -> str:
    """Return the options of all texts together, with each combination of what they separate by "|"."""
    return " | ".join(" ".join(parts) for parts in product(*(text.split("|") for text in texts)))


def experiments() -> list[Experiment]:
    """Return all experiments, in the order of the page."""
    found, of_cases = [], {one.name for one in fields(Case)}
    for path in TABLES:
        for name, table in tomllib.loads(path.read_text()).items():
            shared = {key: table.pop(key) for key in of_cases & table.keys()}
            let, cases, rules = table.pop("let", {}), table.pop("cases"), [Rule(*rule) for rule in table.pop("rules")]
            every = [case for one in cases for case in cases_of(one, shared, let)]
            found.append(Experiment(name=name, rules=rules, cases=every, **table))
    return found


ALL = experiments()
