"""Lifted models of order 2 in kernel-expansion form: as the direct model that scores the same ([PN] section 5.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import are_finite
from fmcli.data.scaling import scale_array
from fmcli.errors import BadInputError, UsageError
from fmcli.model_file.check import SEEN
from fmcli.model_file.container import ModelFile, save
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import Floats
from fmcli.scoring.prediction import Scorer, exported
from fmcli.scoring.sparsity import model_sparsity
from fmcli.system.memory import require

# Kind -> the direct kind, and its name of the factors. Both count a pair of features alike: lifted-anova and anova with
# (<u^1_i, u^2_j> + <u^1_j, u^2_i>) / 2, lifted-pn and pn with twice that, and with squares besides.
DIRECT = {"lifted-anova": ("anova", "V"), "lifted-pn": ("pn", "P")}
ORDER = 2
# Eigenvalues below this share of the largest are rounding.
LEAST_SHARE = 1e-12
# Matrices as large as both of the lifted ones that the decomposition has at a time.
COPIES = 5


def kernel_form(path: str, scorer: Scorer) -> tuple[str, dict[str, NDArray[Any]]]:
    """The direct kind of a lifted model, and its arrays (float64), of at most twice the rank.

    sym(sum_s u^1_s u^2_s^T) = sum_s lambda_s p_s p_s^T: lambda becomes beta, the p_s, of length 1, the factors.

    Raises UsageError where the model in `path` is of another kind or order, BadInputError where a parameter is not
    finite, NotEnoughMemoryError.
    """
    kind, order = scorer.meta["model"], scorer.meta["options"].get("order")
    if kind not in DIRECT or order != ORDER:
        of_order = f", of order {order}" if order else ""
        raise UsageError(
            f"{path} is of kind {kind}{of_order}; a kernel form is there for {' and '.join(DIRECT)} of order {ORDER}"
        )
    direct, factors = DIRECT[kind]
    arrays = exported(scorer)
    if not are_finite(arrays.values()):
        raise BadInputError(f"{path} has parameters that are no finite numbers, so that there is no kernel form")
    require(COPIES * 8 * 2 * arrays["U1"][0].size, f"the kernel form of {path}")
    form: dict[str, NDArray[Any]] = {name: arrays[name].astype(np.float64) for name in ("bias", "w") if name in arrays}
    pairs = [decompose(*(rows_of(arrays, t, output) for t in range(ORDER))) for output in range(scorer.model.outputs)]
    rank = max(len(values) for values, _ in pairs)
    form["beta"] = np.stack([np.pad(values, (0, rank - len(values))) for values, _ in pairs])
    p = np.stack([np.pad(vectors, ((0, 0), (0, rank - vectors.shape[1]))) for _, vectors in pairs])
    features = scorer.model.features
    form[factors] = p[:, :features]
    if "gamma" in arrays:  # (C, k) for pn, (C, 1, k) for anova
        form["gamma"] = p[:, features] if direct == "pn" else p[:, features:]
    return direct, form | scale_array(scorer.scale)


def rows_of(arrays: dict[str, NDArray[Any]], t: int, output: int) -> Floats:
    """The rows of u^{t+1} of one output, those of features and then that of the constant, where there is one."""
    u: Floats = arrays[f"U{t + 1}"][output].astype(np.float64)
    if "gamma" not in arrays:
        return u
    constant = arrays["gamma"].reshape(len(arrays["gamma"]), ORDER, -1)[output, t]
    both: Floats = np.vstack([u, constant.astype(np.float64)])
    return both


def decompose(u1: Floats, u2: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (n), largest absolute values first, and eigenvectors (d, n) of (u1 u2^T + u2 u1^T) / 2, for n at most
    twice the columns of u1 and u2 (d, r): from those of a matrix of order 2r, in O(d r^2)."""
    both = np.hstack([u1, u2])
    used = both.any(axis=1)  # so that what is 0 stays so exactly
    q, r = np.linalg.qr(both[used])
    product = r[:, : u1.shape[1]] @ r[:, u1.shape[1] :].T
    values, vectors = np.linalg.eigh((product + product.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    largest = np.abs(values).max(initial=0)
    kept = order[np.abs(values[order]) > LEAST_SHARE * largest]
    p = np.zeros((len(both), max(len(kept), 1)))  # a model has a factor at least
    p[used, : len(kept)] = q @ vectors[:, kept]
    return np.pad(values[kept], (0, p.shape[1] - len(kept))), p


def write_kernel_form(path: str, scorer: Scorer, output: str) -> dict[str, tuple[int, ...]]:
    """Write the kernel form of the model in `path` as a model file of the direct kind; names and shapes of its arrays.

    What the earlier model says of its training stays, as do its options where the direct kind takes them.

    Raises as `kernel_form`, OutputError.
    """
    direct, form = kernel_form(path, scorer)
    meta = scorer.meta
    # The options of every run are in every model, those that its solver refuses with their defaults.
    taken = make_spec(direct, meta["solver"], meta["loss"]).values.keys() - SOLVERS[meta["solver"]].refuses.keys()
    options = {name: value for name, value in meta["options"].items() if name in taken}
    options["rank"] = form["beta"].shape[1]
    spec = make_spec(direct, meta["solver"], meta["loss"], options)
    kind = MODELS[direct]
    model = build_model(kind, scorer.model.features, scorer.model.outputs, spec.keywords(kind))
    arrays = {name: np.ascontiguousarray(form[name].astype(REAL_TYPE)) for name in model.shapes()}
    model.attach(arrays)
    training = meta["training"] | {"parameters": model.parameter_count, "sparsity": model_sparsity(model)}
    form_meta = meta | {"model": direct, "options": dict(spec.values), "slots": None, "training": training}
    save(
        output,
        ModelFile(
            form_meta,
            {
                **arrays,
                **scale_array(scorer.scale),
                **scorer.occurrences.arrays(),
                SEEN: np.packbits(scorer.seen, bitorder="little"),
            },
        ),
    )
    return model.shapes()
