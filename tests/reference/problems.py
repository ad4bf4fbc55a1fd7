"""Small random models and samples for the tests of the slow definitions themselves."""

import numpy as np

from reference.kinds import KINDS, SHARED, D, K, Params, Sample
from reference.slow_solvers import Options, run

FEATURES, RANK, FIELDS = 7, 3, 3
PLAIN = Options(learning_rate=0.1, alpha=0.2)


def random_params(kind: str, rng: np.random.Generator, outputs: int = 1) -> Params:
    """Random arrays without zeros, in the shapes of the kind."""
    sizes = {D: FEATURES, K: RANK}
    shapes = {name: tuple(sizes.get(axis, axis) for axis in axes) for name, axes in KINDS[kind].arrays.items()}
    shapes = {name: shape if name in SHARED else (outputs, *shape) for name, shape in shapes.items()}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def samples_of(kind: str, rng: np.random.Generator, count: int) -> list[Sample]:
    """Random samples in the format of the kind, with fields if it needs them."""
    samples = random_samples(rng, count)
    return [with_fields(x) for x in samples] if KINDS[kind].by_field else samples


def with_fields(x: Sample) -> Sample:
    """Add fields to a sample, so one field has several entries and one index occurs in two fields."""
    fields = {(j, j % FIELDS): value for j, value in x.items()}
    return fields | {(j, (j + 1) % FIELDS): 0.5 for j in x if j == 2}


def random_samples(rng: np.random.Generator, count: int, longest: int = 5) -> list[Sample]:
    return [
        {int(j): float(rng.normal()) for j in rng.choice(FEATURES, rng.integers(0, longest + 1), replace=False)}
        for _ in range(count)
    ]


def problem(kind: str, rng: np.random.Generator, count: int = 12):
    return random_params(kind, rng), samples_of(kind, rng, count), list(rng.choice([-1.0, 1.0], size=count))


def w_after(solver: str, options: Options, samples: list[Sample], labels: list[float], weights=None, w=(0.5, -0.25)):
    """Train a linear model without bias on the squared loss for one epoch in order; return w."""
    p = {"w": np.array([w], dtype=float)}
    found, losses = run("linear", "squared", solver, p, samples, labels, [range(len(samples))], options, weights)
    return found["w"][0], losses[0]
