"""What models, solvers and losses can: their classes state it, and the registry for the command line, which reads it
before any class is loaded."""

import numpy as np
from problems import ROW_SOLVERS, TRAINED, build

from fmcli.models.model import ColumnModel
from fmcli.registry.losses import LOSSES
from fmcli.registry.specs import make_spec
from fmcli.solvers.stochastic.round_loop import takes_rounds
from fmcli.solvers.stochastic.trainer import make_solver
from reference.kinds import KINDS

FEATURES = 9


def test_entries_of_models_agree_with_their_classes():
    for name, kind in TRAINED.items():
        model = build(name, FEATURES, rank=2)
        assert kind.joins == (model.joined is not None and not kind.unpenalized), name
        fixed = build(name, FEATURES, rank=2, fit_beta=False)
        assert kind.pairs == (fixed.sides is not None and not kind.unpenalized), name
        assert kind.drawn == all(layout.affine != "one" for layout in model.layout if layout.trained), name
        assert not kind.rounds or takes_rounds(model), name
        assert not kind.apart or model.anchored is None, name
        assert not KINDS[name].fast or isinstance(model, ColumnModel), name


def test_entries_of_solvers_agree_with_their_classes():
    for name, solver in ROW_SOLVERS.items():
        options = {"learning_rate": 0.1, "adaptive": True}
        given = {option: value for option, value in options.items() if option in solver.options}
        assert make_solver(make_spec("fm", name, None, given)).takes_rounds == solver.rounds, name


def test_entries_of_losses_agree_with_their_classes():
    for name, loss in LOSSES.items():
        built = loss.load()(**({"outputs": 3} if loss.task in ("classes", "levels") else {}))
        assert np.isfinite(built.smoothness) == loss.bounded, name
