"""The error for training that diverged, with options of the run to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmcli.errors import DivergedError, called
from fmcli.registry.specs import REFINES, Spec

# The step sizes of the solvers; options for parts of a model, such as alpha_v, refine them.
WHOLE_STEPS = ("alpha", "learning_rate")
# After divergence, a step size that is smaller by this factor at least is proposed, and at most the usual one.
STEP_BACK = 10
# Smaller steps, as those that are limited by huge values, do not help.
LEAST_STEP = 1e-9


def diverged(spec: Spec, what: str, best: str = "", usual: Mapping[str, Any] = {}) -> DivergedError:
    """Return the error for training that diverged. It proposes `best`, a remedy for the scale of the features. If there
    is none: a smaller step size, if the solver has one, at most the usual one; and if steps are not larger than usual,
    scaled features, unless they are scaled already.

    usual : the options as they are by default.
    """
    found = {name: step for name, step in steps_of(spec).items() if step > LEAST_STEP}
    remedies = [best] if best else []
    if found and not best:
        smaller = {name: min(step / STEP_BACK, usual.get(name) or step) for name, step in found.items()}
        steps = [f"{called(name)} {step:.3g} (it was {found[name]:g})" for name, step in smaller.items()]
        remedies.append(f"try {'a smaller step' if len(steps) == 1 else 'smaller steps'}: {', '.join(steps)}")
    larger = any(step > usual.get(name, step) for name, step in found.items())
    if not best and not larger and spec.values["scale"] == "none":
        remedies.append(f"scale the features with {called('scale')} standard")
    remedies = remedies or ["look for labels and values that are far too large"]
    return DivergedError(f"training diverged: {what}; {', or '.join(remedies)}")


def steps_of(spec: Spec) -> dict[str, float]:
    """Return the step sizes of a spec by option name: that of the whole model, and those of parts if they differ from
    it."""
    values = spec.values
    steps: dict[str, float] = {name: values[name] for name in WHOLE_STEPS if name in values}
    parts = [part for part, whole in REFINES.items() if whole in steps and part in values]
    return steps | {part: values[part] for part in parts if values[part] != steps[REFINES[part]]}
