"""What the choices of a user mean for a run: its spec, its settings, and which rows are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fmcli.errors import LEAVE_OUT, UsageError, called
from fmcli.registry.losses import LOSSES, OTHERS
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import MEGABYTE, USUAL_MEMORY
from fmcli.registry.solvers import ALL_PAIRS_SOLVER
from fmcli.registry.specs import FIT_BETA, SCALE_LABELS, Spec, make_spec, takers_of
from fmcli.system.machine import cpu_count
from fmcli.training.setup.settings import Settings

if TYPE_CHECKING:
    from fmcli.registry.choices import Choices
    from fmcli.training.setup.held import Held
    from fmcli.training.setup.warm_start import WarmStart

# The options of a run on observed pairs, unless they are given. L2 is relative to a feature's pairs. The scores of all
# pairs are products of sums only if beta is fixed, where a kind has one.
OF_PAIRS = {"l2": 0.01, SCALE_LABELS: False, "clip": False}
OF_WEIGHTED_PAIRS = {**OF_PAIRS, FIT_BETA: False}


def spec_of(choices: Choices, warm_start: WarmStart | None) -> Spec:
    """Return the spec of a run. Raises UsageError for names and values that do not exist or cannot be combined."""
    options = choices.options
    if choices.online:
        options.setdefault("epochs", 1)
    if choices.only_new and warm_start is not None:
        return warm_start.of_new_features(options)
    if choices.implicit and not draws_negatives(choices):
        return of_all_pairs(choices.model or DEFAULT_MODEL, choices.solver or ALL_PAIRS_SOLVER, options)
    if warm_start is None:
        return make_spec(choices.model or DEFAULT_MODEL, choices.solver, choices.loss, options)
    return warm_start.continued(choices.model, choices.solver, choices.loss, options)


def of_all_pairs(model: str, solver: str, options: Mapping[str, Any]) -> Spec:
    """Return the spec of a run on observed pairs, beside which all pairs count."""
    usual = OF_WEIGHTED_PAIRS if model in takers_of(MODELS, FIT_BETA) else OF_PAIRS
    spec = make_spec(model, solver, OTHERS, {**usual, **options})
    return replace(spec, given=spec.given - (usual.keys() - options.keys()))


def with_model(choices: Choices, warm_start: WarmStart | None) -> Choices:
    """Return the choices of a run that may learn new features of a model, which learned from observed pairs if the run
    does. Raises UsageError if a user says otherwise."""
    if warm_start is None or not choices.only_new:
        return choices
    if warm_start.known is not None:
        return replace(choices.changed(implicit=True), given=choices.given | {"implicit"})
    if choices.implicit:
        raise UsageError(
            f"{warm_start.path} was not trained with {called('implicit')}, so new features need rows with labels",
            implicit=LEAVE_OUT,
        )
    return choices


def draws_negatives(choices: Choices) -> bool:
    """Return whether observed pairs are compared with drawn ones; otherwise all pairs count."""
    loss = LOSSES.get(choices.loss)
    return bool(choices.implicit and loss and loss.pairwise)


def settings_of(
    choices: Choices,
    spec: Spec,
    warm_start: WarmStart | None,
    others: Sequence[Spec],
    begin: float,
    **more: Any,
) -> Settings:
    """Return the settings of a run.

    others : specs that are compared with it.
    begin : the value of time.perf_counter() at which the run began.
    more : further fields of the settings, which a front end knows.

    Raises UsageError, as Settings does.
    """
    return Settings(
        spec,
        choices,
        warm_start,
        quick_search=choices.quick_search and not choices.only_new,
        alternatives=tuple(others),
        threads=choices.threads or cpu_count(),
        deadline=None if choices.max_seconds is None else begin + choices.max_seconds,
        hash_bits=hash_bits_of(choices, warm_start),
        min_count=choices.min_count or 1,
        share_rare=choices.rare == "share",
        positive=None if choices.positive is None else str(choices.positive),
        **held_of(choices).settings,
        **more,
    )


def held_of(choices: Choices) -> Held:
    """Return which rows are held out."""
    from fmcli.training.setup.held import Held

    found: Held = choices.holdout or Held()
    return found


def hash_bits_of(choices: Choices, warm_start: WarmStart | None) -> int:
    """Return the bits of the hashes of ids; 0: ids are not hashed. Raises UsageError if a warm start has other bits."""
    if warm_start is None:
        return choices.hash_bits or 0
    before = warm_start.transform.hash_bits
    if choices.hash_bits not in (None, before):
        theirs = f"with {called('hash_bits')} {before}" if before else f"without {called('hash_bits')}"
        raise UsageError(f"{warm_start.path} was trained {theirs}, so its columns do not fit {choices.hash_bits} bits")
    return before


def room_of(choices: Choices) -> int:
    """Return the bytes that rows of a cache may take in memory."""
    return int(MEGABYTE * (choices.memory or USUAL_MEMORY))
