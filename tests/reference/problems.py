"""Small random models and samples for the tests of the slow definitions themselves."""

import numpy as np

from reference.slow_models import Params, Sample
from reference.slow_solvers import Options, run

FEATURES, RANK, ANCHORS = 7, 3, 2
PLAIN = Options(learning_rate=0.1, alpha=0.2)


def random_params(kind: str, rng: np.random.Generator, outputs: int = 1) -> Params:
    """Arrays of the shapes that the kind has, nowhere 0."""
    shapes: dict[str, tuple[int, ...]] = {"bias": (outputs,)}
    if kind not in ("shfm", "sha2"):
        shapes["w"] = (outputs, FEATURES)
    if kind == "stub":
        shapes |= {"P": (outputs, FEATURES, RANK), "theta": (outputs, RANK)}
    elif kind != "linear":
        shapes["V"] = (outputs, FEATURES, RANK)
    if kind in ("shfm", "sha2"):
        shapes["v0"] = (outputs, RANK)
    if kind in ("anova", "sha2"):
        shapes["beta"] = (outputs, RANK)
    if kind == "llfm":
        shapes = {name: (outputs, ANCHORS, *shape[1:]) for name, shape in shapes.items()}
        shapes["anchors"] = (ANCHORS, FEATURES)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def random_samples(rng: np.random.Generator, count: int, longest: int = 5) -> list[Sample]:
    return [
        {int(j): float(rng.normal()) for j in rng.choice(FEATURES, rng.integers(0, longest + 1), replace=False)}
        for _ in range(count)
    ]


def problem(kind: str, rng: np.random.Generator, count: int = 12):
    return random_params(kind, rng), random_samples(rng, count), list(rng.choice([-1.0, 1.0], size=count))


def w_after(solver: str, options: Options, samples: list[Sample], labels: list[float], weights=None, w=(0.5, -0.25)):
    """A linear model without bias under the squared loss, after one pass in order."""
    p = {"w": np.array([w], dtype=float)}
    found, losses = run("linear", "squared", solver, p, samples, labels, [range(len(samples))], options, weights)
    return found["w"][0], losses[0]
