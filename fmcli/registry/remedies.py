"""The error for training that diverged, with options of the run to change."""

from __future__ import annotations

from fmcli.errors import DivergedError
from fmcli.registry.options import OPTIONS
from fmcli.registry.specs import REFINES, Spec

# The step sizes of the solvers; options for parts of a model, such as alpha_v, refine them.
WHOLE_STEPS = ("alpha", "learning_rate")
# After divergence, a step size that is smaller by this factor is proposed.
STEP_BACK = 10
# Smaller steps, as those that are limited by huge values, do not help.
LEAST_STEP = 1e-9


def diverged(spec: Spec, what: str, best: str = "") -> DivergedError:
    """Return the error for training that diverged. It proposes a smaller step size, if the solver has one, and scaled
    features, unless they are scaled already; and before these `best`, a remedy for the scale of the features."""
    scaled = best or spec.values["scale"] != "none"
    remedies = [] if scaled else [f"scale the features with {OPTIONS['scale'].flag} standard"]
    steps = [
        f"{OPTIONS[name].flag} {step / STEP_BACK:g} (it was {step:g})"
        for name, step in steps_of(spec).items()
        if step > LEAST_STEP
    ]
    if steps:
        remedies.insert(0, f"try {'a smaller step' if len(steps) == 1 else 'smaller steps'}: {', '.join(steps)}")
    remedies = [*filter(None, [best]), *remedies] or ["look for labels and values that are far too large"]
    return DivergedError(f"training diverged: {what}; {', or '.join(remedies)}")


def steps_of(spec: Spec) -> dict[str, float]:
    """Return the step sizes of a spec by option name: that of the whole model, and those of parts if they differ from
    it."""
    values = spec.values
    steps: dict[str, float] = {name: values[name] for name in WHOLE_STEPS if name in values}
    parts = [part for part, whole in REFINES.items() if whole in steps and part in values]
    return steps | {part: values[part] for part in parts if values[part] != steps[REFINES[part]]}
