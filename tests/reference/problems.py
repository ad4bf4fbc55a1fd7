"""Small random models and samples for the tests of the slow definitions themselves."""

import numpy as np

from reference.slow_models import Choices, Params, Sample
from reference.slow_solvers import Options, run

FEATURES, RANK, FIELDS, ANCHORS = 7, 3, 3, 2
PLAIN = Options(learning_rate=0.1, alpha=0.2)


def random_params(kind: str, rng: np.random.Generator, outputs: int = 1) -> Params:
    """Arrays of the shapes that the kind has, nowhere 0."""
    shapes: dict[str, tuple[int, ...]] = {"bias": (outputs,)}
    if kind not in ("shfm", "sha2", "hofm-shared", "hofm-simplex", "all-subsets"):
        shapes["w"] = (outputs, FEATURES)
    if kind == "poly2":
        shapes["W"] = (outputs, FEATURES * (FEATURES - 1) // 2)
    elif kind == "bilinear":
        shapes["UV"] = (outputs, FEATURES, RANK)
    elif kind == "ffm":
        shapes["V"] = (outputs, FEATURES, FIELDS, RANK)
    elif kind == "stub":
        shapes |= {"P": (outputs, FEATURES, RANK), "theta": (outputs, RANK)}
    elif kind == "hofm":
        shapes |= {"P2": (outputs, FEATURES, RANK), "P3": (outputs, FEATURES, RANK + 1)}
    elif kind == "hofm-shared":
        shapes |= {"P": (outputs, FEATURES, RANK), "gamma": (outputs, 2, RANK)}
    elif kind == "hofm-simplex":
        shapes |= {"P": (outputs, FEATURES, RANK), "theta": (outputs, 3)}
    elif kind == "all-subsets":
        shapes["P"] = (outputs, FEATURES, RANK)
    elif kind == "pn":
        shapes |= {"P": (outputs, FEATURES, RANK), "gamma": (outputs, RANK), "beta": (outputs, RANK)}
    elif kind in ("lifted-anova", "lifted-pn"):
        shapes |= dict.fromkeys(("U1", "U2", "U3"), (outputs, FEATURES, RANK))
        shapes["gamma"] = (outputs, 2, 3, RANK) if kind == "lifted-anova" else (outputs, 3, RANK)
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


def random_choices(kind: str) -> Choices:
    """What the kind needs besides its arrays."""
    return {"group": [0, 1, 1, -1, 0, 1, 0]} if kind == "bilinear" else {}


def with_fields(x: Sample) -> Sample:
    """The sample with fields, of which one has several entries, and an index in two fields."""
    fields = {(j, j % FIELDS): value for j, value in x.items()}
    return fields | {(j, (j + 1) % FIELDS): 0.5 for j in x if j == 2}


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
