"""A toy model, loss and solver, as the recipes of CONTRIBUTING.md ask for them. Each is new, but made of compiled parts
that exist: a recipe's compiled step is the constructor's call."""

import numpy as np

from fmcli.losses.loss import Huber
from fmcli.models.fm import SecondOrder
from fmcli.models.layout import BlockLayout
from fmcli.registry.losses import LOSSES, LossEntry
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.solvers import SOLVERS, SolverEntry
from fmcli.solvers.stochastic.sgd import SGD
from reference.kinds import KINDS, K, Kind, fm

DELTA = 0.6  # no kink at the tests' scores
FASTER = 1.5


class ConstantFM(SecondOrder):
    """b + <w, x> + sum over pairs of <v_i, v_j> x_i x_j + sum over features of <v_0, v_j> x_j."""

    def __init__(self, features, outputs, *, rank, bias=True):
        constant = BlockLayout(axes=(), body=[("v0", rank)])
        super().__init__(features, outputs, rank, bias=bias, linear=True, constant=constant)


class HalfHuber(Huber):
    """The Huber loss that turns linear at 0.6."""

    def __init__(self):
        super().__init__(huber_delta=DELTA)


class Eager(SGD):
    """SGD with steps half as large again as the learning rate."""

    def __init__(self, *, learning_rate):
        super().__init__(learning_rate=FASTER * learning_rate)


MODEL = ModelEntry("toy-fm", "FM with a constant feature.", "toys:ConstantFM", ("rank", "bias"))
LOSS = LossEntry("toy-huber", "Squared near 0, then linear.", "toys:HalfHuber", task="real")
SOLVER = SolverEntry("toy-sgd", "SGD that takes larger steps.", "toys:Eager", ("learning_rate",))
ENTRIES = ((MODELS, MODEL), (LOSSES, LOSS), (SOLVERS, SOLVER))


def register():
    """For a process that has not imported the commands yet."""
    for table, entry in ENTRIES:
        table[entry.name] = entry


def slow_model(p, x, options):
    """The definition."""
    return fm(p, x, options) + sum(np.sum(p["v0"] * p["V"][j]) * x[j] for j in x)


KIND = Kind(slow_model, {**KINDS["fm"].arrays, "v0": (K,)})
