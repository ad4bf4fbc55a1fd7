"""What a trained model's file keeps of the loss of its rows, for updates by cd or lbfgs."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fmcli.model_file.state import CURVATURE, PAIR_BASIS, PAIR_VALUES, SLOPE, past_name
from fmcli.penalties.penalty import Penalty
from fmcli.registry.build import build_loss
from fmcli.solvers.coordinate.past import Past, past_of
from fmcli.training.planning import Plan, strengths_of


def kept_past(plan: Plan) -> Past | None:
    """Return what the rows of a plan, whose model is trained, and earlier ones say about each of its parameters; None:
    its file does not have that."""
    if not plan.settings.keeps_past(plan.spec, plan.model):
        return None
    task, loss = plan.task, build_loss(plan.spec, plan.transform.labels.loss, plan.model.columns)
    penalty = Penalty(**strengths_of(plan.spec))
    if plan.earlier is None:
        return past_of(task, loss, penalty)
    before = plan.earlier.counting(plan.earlier.known_past(task, loss))
    return past_of(task, loss, penalty, before, plan.earlier.center)


def past_arrays(past: Past | None) -> dict[str, NDArray[Any]]:
    """Return the facts about the loss of rows, by their names in model files."""
    if past is None:
        return {}
    kinds = {CURVATURE: past.curvatures, SLOPE: past.slopes}
    pairs = past.interactions
    return {
        **{past_name(kind, name): one for kind, of in kinds.items() for name, one in of.items()},
        **({PAIR_BASIS: pairs.basis, PAIR_VALUES: pairs.values} if pairs else {}),
    }
