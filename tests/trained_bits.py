"""Trains many small models with the kernels of one instruction-set level, and prints a checksum of each.

python tests/trained_bits.py     FMCLI_ISA chooses the level

The runs reach all code of the kernels: every width of vectors, every order that is compiled separately, every update
rule and penalty, and sums that are computed anew because they have lost digits. tests/test_isa.py compares the levels.
"""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from problems import TRAINED, USUAL, dataset, fields_of, random_rows, score_all, taken

from fmcli.data.dataset import Dataset
from fmcli.errors import DivergedError
from fmcli.kernels.simd import ISA
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import Spec, make_spec
from fmcli.training import job
from fmcli.training.setup.settings import make_model

ROWS, FEATURES, CLASSES = 24, 11, 3
# They need one vector of four lanes with padding; one of eight and one of four; three of eight with padding; one of
# eight with padding.
RANKS = (1, 12, 21, 7)
# Orders up to 8 are compiled separately.
ORDERS = (3, 4, 5, 6, 7, 8, 9)
# Enough for rounds of 8 rows.
ROUND_EPOCHS = 100
# Options that choose another kernel of the solver, or another branch of it.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"l1": 0.01}),
    ("adagrad", {"l1": 0.01}),
    ("adagrad", {"group_l1": 0.01, "l1_from_epoch": 2}),
    ("ftrl", {"l1": 0.01}),
    ("ftrl", {"l1": 0.01, "ftrl_power": 0.7, "group_l1": 0.01}),
    ("fobos", {"l1": 0.01}),
    ("fobos", {"l1": 0.01, "group_l1": 0.01, "adaptive": True, "batch_size": 4}),
    ("adagrad", {"round_size": 8, "epochs": ROUND_EPOCHS}),
    ("ftrl", {"round_size": 8, "epochs": ROUND_EPOCHS, "l1": 0.01, "group_l1": 0.01}),
    ("cd", {"l1": 0.01}),
    ("cd", {"group_l1": 0.01}),
    ("adagrad", {"l2_v": 10.0, "init_std": 1e-36}),  # denormal numbers
    ("cd", {"l2_v": 10.0, "init_std": 1e-36}),
]
# Options of the models, each with the values to try.
FLAGS: dict[str, tuple[Any, ...]] = {
    "augment": (False, True),
    "fit_beta": (True, False),
    "linear": (True, False),
    "llfm_variant": ("do", "apl", "jo"),
    "pair_bits": (22, 3),
}
STEPS = {"learning_rate": 0.01, "alpha": 0.01}
STRENGTH = 0.01  # of a penalty that the model needs
# Values in some rows for coordinate descent, beside which cached sums lose the digits of other entries.
LARGE = 2000


def runs() -> Iterator[tuple[Spec, bool]]:
    """All runs; the bool says whether a feature may have several fields in a row.

    Each model has all shapes with a stochastic solver and coordinate descent, and all variants with one shape each.
    """
    for number, (model, kind) in enumerate(TRAINED.items()):
        shapes = [{"rank": rank} for rank in RANKS] if "rank" in kind.options else [{}]
        cases = [
            (solver, chosen, shapes[(number + place) % len(shapes)]) for place, (solver, chosen) in enumerate(VARIANTS)
        ]
        if "order" in kind.options:
            orders = [order for order in ORDERS if order <= kind.limits.get("order", order)]
            shapes += [{"rank": RANKS[1 + (number + order) % 2], "order": order} for order in orders]
        cases += [(solver, {}, shape) for solver in ("adagrad", "cd") for shape in shapes]
        for turn, (solver, chosen, shape) in enumerate(cases):
            if SOLVERS[solver].refuses.keys() & set(kind.positive):
                continue
            if "round_size" in chosen and not kind.rounds:
                continue
            flags = {name: values[turn // 2 % len(values)] for name, values in FLAGS.items()}
            options = {"init_std": 0.2, "epochs": 2, "norm": False, **taken(model, {**USUAL, **flags, **shape})}
            options |= dict.fromkeys(kind.positive, STRENGTH)
            options |= {name: step for name, step in STEPS.items() if name in SOLVERS[solver].options}
            options |= {name: value for name, value in chosen.items() if name not in kind.refuses}
            several_fields = turn % 4 == 3
            yield make_spec(model, solver, "softmax" if turn % 5 == 0 else "huber", options), several_fields


@cache
def data_for(fields: int, several_fields: bool, large: bool, classes: bool) -> Dataset:
    """Random rows; if features have one field each, most rows have each field at most once."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, ROWS, FEATURES, fields=fields if several_fields else 0)
    if large:
        for row in rows[::7]:
            row |= {key: LARGE * row[key] for key in list(row)[:1]}
    if fields and not several_fields:
        rows = [
            {(j, j % fields): x for j, x in list(row.items())[: 1 if i % 3 else fields]} for i, row in enumerate(rows)
        ]
    labels = rng.integers(0, CLASSES, ROWS) if classes else rng.normal(size=ROWS)
    return dataset(rows, FEATURES, labels, rng.uniform(0.5, 2, ROWS))


def checksum(spec: Spec, several_fields: bool) -> int:
    """The checksum of all parameters after training, which may end far from a minimum, and of the scores of the model
    attached to them: without the padding of rows that are trained."""
    large = spec.solver == "cd" and not spec.model.endswith("pn")
    data = data_for(fields_of(spec.model), several_fields, large, spec.loss == "softmax")
    plan = job.plan(data, spec)
    with suppress(DivergedError):
        job.train(plan)
    arrays = {name: np.ascontiguousarray(array) for name, array in plan.model.parameters.items()}
    attached = make_model(plan.spec, plan.model.features, plan.model.outputs, plan.transform.fields)
    attached.attach({**arrays, **plan.model.constants})
    found = 0
    for array in (*arrays.values(), score_all(attached, plan.data)):
        assert np.isfinite(array).all(), spec
        found = zlib.crc32(array.tobytes(), found)
    return found


if __name__ == "__main__":
    print(ISA)
    for spec, several_fields in runs():
        given = {name: spec.values[name] for name in sorted(spec.given - {"solver"})}
        print(spec.model, spec.solver, spec.loss, given, several_fields, checksum(spec, several_fields))
