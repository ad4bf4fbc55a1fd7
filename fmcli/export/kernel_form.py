"""The kernel-expansion form of lifted models of order 2: the direct model with the same scores ([PN] section 5.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.finite import are_finite
from fmcli.data.scaling import scale_arrays
from fmcli.errors import BadInputError, UsageError
from fmcli.export.arrays import exported, require_one_draw
from fmcli.losses.links import Floats
from fmcli.model_file.check import FEATURES
from fmcli.model_file.container import ModelFile, save
from fmcli.model_file.transform import transform_arrays
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import Scorer
from fmcli.scoring.sparsity import model_sparsity
from fmcli.system.memory import require

# Kind -> its direct kind, and the name of the factors. Both weigh pairs of features alike: lifted-anova and anova by
# (<u^1_i, u^2_j> + <u^1_j, u^2_i>) / 2; lifted-pn and pn by twice this number, and they also have squares.
DIRECT = {"lifted-anova": ("anova", "V"), "lifted-pn": ("pn", "P")}
ORDER = 2
# Eigenvalues below this share of the largest one are rounding errors.
LEAST_SHARE = 1e-12
# The number of matrices of the size of both lifted matrices that the decomposition needs at a time.
COPIES = 5


def kernel_form(path: str, scorer: Scorer, of_user: bool = True) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the direct kind of a lifted model, and its arrays (float64), with at most twice the rank.

    sym(sum_s u^1_s u^2_s^T) = sum_s lambda_s p_s p_s^T: the lambda_s become beta; the p_s, of length 1, the factors.
    of_user : whether scores are in the user's unit; otherwise they are in the unit of training.

    Raises UsageError if the model in `path` has another kind or order, BadInputError if a parameter is not finite, and
    NotEnoughMemoryError.
    """
    kind, order = scorer.meta["model"], scorer.meta["options"].get("order")
    if kind not in DIRECT or order != ORDER:
        of_order = f", of order {order}" if order else ""
        raise UsageError(
            f"{path} has kind {kind}{of_order}; only {' and '.join(DIRECT)} of order {ORDER} have a kernel form"
        )
    require_one_draw(scorer)
    direct, factors = DIRECT[kind]
    arrays = exported(scorer, of_user=of_user)
    ids = {FEATURES: arrays.pop(FEATURES)} if FEATURES in arrays else {}
    if not are_finite(arrays.values()):
        raise BadInputError(f"{path} has parameters that are not finite, so it has no kernel form")
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
    return direct, form | scale_arrays(scorer.transform.scale) | ids


def rows_of(arrays: dict[str, NDArray[Any]], t: int, output: int) -> Floats:
    """Return the rows of u^{t+1} for one output: the rows of the features, then the row of the constant feature, if
    there is one."""
    u: Floats = arrays[f"U{t + 1}"][output].astype(np.float64)
    if "gamma" not in arrays:
        return u
    constant = arrays["gamma"].reshape(len(arrays["gamma"]), ORDER, -1)[output, t]
    both: Floats = np.vstack([u, constant.astype(np.float64)])
    return both


def decompose(u1: Floats, u2: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues (n), in decreasing order of absolute value, and eigenvectors (d, n) of
    (u1 u2^T + u2 u1^T) / 2, for u1 and u2 (d, r) and n <= 2r. Computed from a matrix of order 2r, in O(d r^2)."""
    both = np.hstack([u1, u2])
    used = both.any(axis=1)  # keeps zeros exactly 0
    q, r = np.linalg.qr(both[used])
    product = r[:, : u1.shape[1]] @ r[:, u1.shape[1] :].T
    values, vectors = np.linalg.eigh((product + product.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    largest = np.abs(values).max(initial=0)
    kept = order[np.abs(values[order]) > LEAST_SHARE * largest]
    p = np.zeros((len(both), max(len(kept), 1)))  # a model has at least one factor
    p[used, : len(kept)] = q @ vectors[:, kept]
    return np.pad(values[kept], (0, p.shape[1] - len(kept))), p


def write_kernel_form(path: str, scorer: Scorer, output: str) -> dict[str, tuple[int, ...]]:
    """Write the kernel form of the model in `path` as a model file of the direct kind. Returns the shapes of its arrays
    by name.

    The training summary of the lifted model is kept, and so are the options that the direct kind has.

    Raises the errors of `kernel_form`, and OutputError.
    """
    direct, form = kernel_form(path, scorer, of_user=False)
    meta = scorer.meta
    # A model has the options of all runs; options that its solver refuses have their default values.
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
    save(output, ModelFile(form_meta, {**arrays, **transform_arrays(scorer.transform), **scorer.occurrences.arrays()}))
    return model.shapes()
