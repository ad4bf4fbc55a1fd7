"""The error for diverged training, with the options to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmcli.errors import DivergedError, called
from fmcli.registry.specs import REFINES, Spec

# Options with the step size of a whole model; options for parts of a model, such as alpha_v, refine them.
WHOLE_STEPS = ("alpha", "learning_rate")
# After divergence, the proposed step size is at least this factor smaller, and at most the default.
STEP_BACK = 10
# Steps below this size are already limited by huge values; smaller ones do not help.
LEAST_STEP = 1e-9


def diverged(spec: Spec, what: str, best: str = "", usual: Mapping[str, Any] = {}) -> DivergedError:
    """Return the error for diverged training. It proposes `best`, a remedy for the scale of the features. Without
    `best`, it proposes a smaller step size, at most the default, if the solver has one; and, if steps are not larger
    than the default, scaled features, unless they are already scaled.

    usual : the default values of the options.
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
    """Return option -> step size of a spec: of the whole model, and of parts that differ from the whole."""
    values = spec.values
    steps: dict[str, float] = {name: values[name] for name in WHOLE_STEPS if name in values}
    parts = [part for part, whole in REFINES.items() if whole in steps and part in values]
    return steps | {part: values[part] for part in parts if values[part] != steps[REFINES[part]]}
