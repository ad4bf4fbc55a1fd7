"""What a model file keeps of the rows of an FM about all pairs of features, and the factors that an update begins with.

With M = VV', a score has the sum over pairs of M_ij x_i x_j. The sum of weight * loss over rows is about

    c / 4 sum_ij d_i d_j M_ij^2 - 1 / 2 sum_ij T_ij M_ij,

plus a constant. T sums -l' x x', without the diagonal, at the scores without interactions; d_i sums l'' x_i^2; and the
rows with both of two features have c d_i d_j, as if features were independent. The l2 penalty adds l2 / 2 |V|^2. With
D = diag(d), the minimum is D^1/2 M D^1/2 = D^-1/2 (T - l2) D^-1/2 / c, without the negative eigenvalues of this matrix:
as many factors as T has eigenvalues above l2.

The quadratic function of each factor alone (past.py) does not have this minimum: at V = 0 it is constant. Factors of a
first night with few rows are 0, so only T, to which each night adds, can show interactions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.dataset import Dataset
from fmcli.losses.loss import Loss
from fmcli.models.layout import REAL_TYPE
from fmcli.models.model import Model
from fmcli.models.parameters import Parameters
from fmcli.models.polynomial.anova import HOFM
from fmcli.models.second_order.fm import FM
from fmcli.models.workspace import Workspace
from fmcli.records import dataclass
from fmcli.registry.streams import PREPARE_STREAM, generator
from fmcli.solvers.coordinate.pieces import ROWS_AT_ONCE
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.remote import each_shard

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Task

Floats = NDArray[np.float64]
# Eigenvectors that a file keeps. Most are noise, in which later nights find interactions.
KEPT = 32
# Passes over the rows that find them, beginning with the eigenvectors of the earlier rows.
PASSES = 3
# The most numbers that a file keeps, in 4 MiB: more would double the memory and the file of large models. And how many
# times as many there are in double precision at a time.
MOST, COPIES = 1 << 20, 5
# The size of factors that change no score, also with values of 1e6.
TINY = 1e-9
# How large random vectors are beside the earlier eigenvectors, so there are as many as can be kept; and the least
# share of the largest squared length that vectors have outside the directions of other vectors.
NOISE, LEAST = 1e-3, 1e-10


@dataclass(frozen=True)
class Interactions:
    """What rows say about all pairs of features: T = the sum over k of values_k basis_k basis_k', about.

    basis : (classes, features, KEPT), or fewer; eigenvectors of T, with the largest eigenvalues by magnitude.
    values : (classes, KEPT) their eigenvalues.
    """

    basis: NDArray[Any]
    values: Floats

    def times(self, vectors: Floats) -> Floats:
        """Return T times vectors (classes, features, columns)."""
        return self.basis @ (self.values[..., np.newaxis] * (self.basis.mT @ vectors))

    def factors(self, rank: int, curvatures: Floats, together: Floats, l2: float) -> Floats:
        """Return the factors (classes, features, rank) of the minimum among the combinations of the eigenvectors.

        curvatures : D (classes, features).
        together : c (classes).
        l2 : the strength of the penalty, relative to the sum of the losses.
        """
        vectors = self.basis @ whitening(self.basis.mT @ (curvatures[..., np.newaxis] * self.basis))
        shared = vectors.mT @ self.basis
        within = (shared * self.values[:, np.newaxis]) @ shared.mT - l2 * (vectors.mT @ vectors)
        values, turn = np.linalg.eigh(within)
        turn *= np.sqrt(np.maximum(values, 0) / together[:, np.newaxis])[:, np.newaxis]
        found = np.zeros((*vectors.shape[:2], rank))
        largest = vectors @ turn[..., : -rank - 1 : -1]
        found[..., : largest.shape[-1]] = largest
        return found


def interactions_of(task: Task, loss: Loss, earlier: Interactions | None) -> Interactions | None:
    """Return the facts of a task's rows, and of earlier rows, about all pairs of features; None if not finite."""
    model = task.model
    random = generator(task.spec, PREPARE_STREAM)
    image = random.standard_normal((model.outputs, model.features, min(KEPT, model.features)), REAL_TYPE)
    if earlier is not None:
        image *= NOISE / math.sqrt(model.features)
        image[..., : earlier.values.shape[-1]] += earlier.basis
    pairs = task_of_pairs(task, image.shape[-1])
    for _ in range(PASSES):
        basis = image @ whitening(image.mT @ image)
        pairs.model.parameters["V"][...] = TINY * basis
        image = loss_and_slopes(pairs, loss)[1]
        image /= -TINY
        if earlier is not None:
            image += earlier.times(basis)
        if not np.isfinite(image).all():
            return None
    within = basis.mT @ image
    values, turn = np.linalg.eigh((within + within.mT) / 2)
    return Interactions((basis @ turn).astype(REAL_TYPE), values)


def pair_factors(model: Parameters) -> str | None:
    """Return the name of the factors whose inner products are the interactions of a model; None: it has no such
    factors, or there would be nothing or too much to keep."""
    if not isinstance(model, FM | HOFM) or not 0 < KEPT * model.outputs * model.features <= MOST:
        return None
    return next(layout.body[0].name for layout in model.layout if layout.by_feature)


def bytes_needed(model: Model, data: Dataset) -> int:
    """Return bytes that `interactions_of` takes, beside its result."""
    if pair_factors(model) is None:
        return 0
    share = min(1.0, ROWS_AT_ONCE / max(1, data.rows))
    rows = share * data.nbytes + Workspace.bytes_needed(model, data.longest)
    return COPIES * np.dtype(np.float64).itemsize * KEPT * model.outputs * model.features + int(rows)


def task_of_pairs(task: Task, rank: int) -> Task:
    """Return a task with the same rows for an FM with the linear terms of its model, and with `rank` factors."""
    has = task.model.shapes()
    model = FM(task.model.features, task.model.outputs, rank=rank, bias="bias" in has, linear="w" in has)
    model.cutpoints = task.model.cutpoints
    model.pack()
    model.allocate(0)
    for name, array in model.parameters.items():
        if name in task.model.parameters and name != "V":
            array[...] = task.model.parameters[name]
    return replace(task, model=model, spec=replace(task.spec, model="fm", values={**task.spec.values, "rank": rank}))


def loss_and_slopes(task: Task, loss: Loss) -> tuple[float, Floats]:
    """Return the sum of weight * loss over the rows of a task, and its slopes in the factors (classes, features,
    columns) of the task's model."""
    shards = each_shard(task, loss, shard_loss_and_slopes)
    total, slopes = next(shards)
    for of_shard, some in shards:
        total += of_shard
        slopes += some
    return total, slopes


def shard_loss_and_slopes(model: Model, loss: Loss, data: Dataset, rows: NDArray[np.int32]) -> tuple[float, Floats]:
    """Return `loss_and_slopes` of rows of data."""
    objective = Objective(model, loss, data, total_weight=1)
    total, gradient = 0.0, np.zeros(objective.size)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = data.joined(rows[begin : begin + ROWS_AT_ONCE])
        objective.take(some)
        total += objective.accumulate(0, some.rows, gradient)
    number = next(at for at, layout in enumerate(model.layout) if layout.by_feature)
    where, _, width = objective.places(number)
    by_row = gradient[where].reshape(model.outputs, model.features, width)
    return total, by_row[..., : model.layout[number].body[0].columns]


def whitening(products: Floats) -> Floats:
    """Return W (classes, columns, columns), so vectors @ W are orthonormal; columns in excess become 0. products :
    of each two vectors."""
    values, turn = np.linalg.eigh(products)
    kept = values > LEAST * values[..., -1:]
    scales = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)
    white: Floats = turn * scales[..., np.newaxis, :]
    return white
