"""The draws of a solver that samples from the posterior: the kept draws, and their mean prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fmcli.base.state_dict import Kept, part, require_finite, require_like, require_names, under, whole_number
from fmcli.losses.links import unchanged
from fmcli.model_file.state import as_halves, draw_name, drawn_names
from fmcli.models.kept import HALF
from fmcli.models.model import Model
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import MOST_DRAWN
from fmcli.scoring.averages import MeanScore
from fmcli.scoring.draws import Draw, copied_bytes
from fmcli.scoring.rows import score_rows
from fmcli.solvers.gibbs.convergence import SCORES, TRACE_BYTES, WATCHED_ROWS, Trace
from fmcli.training.draw_sizes import draw_bytes, feature_arrays, kept_sweeps, may_halve
from fmcli.training.planning import Plan

if TYPE_CHECKING:
    from fmcli.solvers.trainer import Trainer

# The prefixes of what the mean of the predictions depends on, of what is watched, and of the mean over all sweeps, in a
# checkpoint.
MEAN, TRACE, TESTED = "mean", "trace", "tested"


class KeptDraws:
    """Keeps the draws of some sweeps, and evaluates their mean prediction on validation data: the counterpart of
    BestEpoch.

    number : the last sweep so far.
    enough : whether training ends early: never.
    draws : the draws; all but the last one are as in the model file.
    beside : the numbers kept with each draw; see Trainer.kept_with_draws.
    trace : the watched numbers of all sweeps after the burn-in.
    """

    enough = False

    def __init__(self, plan: Plan, trainer: Trainer) -> None:
        spec = plan.spec
        self.model, self.validation, self.tested = plan.model, plan.validation, plan.tested
        rows = np.unique(np.linspace(0, len(plan.rows) - 1, min(WATCHED_ROWS, len(plan.rows))).astype(np.intp))
        model, watched = plan.model, plan.data.take(plan.rows[rows])
        link = LOSSES[str(spec.loss)].load_link()
        predicted = link.prediction if link.inverse else unchanged

        def watch() -> dict[str, NDArray[np.float64]]:  # without the draws, which end with the run
            return {**trainer.hyperparameters(), SCORES: predicted(score_rows(model, watched)).ravel()}

        self.trace = Trace(spec.values["burn_in"], watch, probable=link.inverse is not None)
        self.number = 0
        self.draws: list[Draw] = []
        self.beside: list[Draw] = []
        self._kept_with_draws = trainer.kept_with_draws
        self._kept = kept_sweeps(spec)
        self._halved = halved_names(plan)
        self._mean, self._mean_tested = MeanScore(str(spec.loss)), MeanScore(str(spec.loss))

    def evaluate(self, number: int) -> dict[str, float]:
        """Keep the draw of a sweep if its turn has come. Returns the metrics of the mean prediction of the draws kept
        so far, or of the sweep's own if there is none."""
        self.number = number
        self.trace.record(number)
        if self.tested and number > self.trace.burn_in:
            self._mean_tested.add(self.tested.scores(self.model))
        kept = number in self._kept
        if kept:
            names = drawn_names(self.model)
            if self.draws:  # the last one, which gets a successor
                last = self.draws[-1].items()
                self.draws[-1] = {name: as_halves(array) if name in self._halved else array for name, array in last}
            self.beside.append(self._kept_with_draws())
            self.draws.append({name: np.array(self.model.parameters[name], order="C") for name in names})
        if self.validation is None:
            return {}
        score = score_rows(self.model, self.validation.data, self.validation.threads, self.validation.rows)
        if kept:
            self._mean.add(score)
        if self.draws:
            score = self._mean.score()
        return self.validation.measure(self.model, self.validation.outcome_of(score))

    def tested_scores(self) -> NDArray[np.float64] | None:
        """Return (rows, outputs) the scores of the mean prediction of the rows to predict over all sweeps after the
        burn-in, or the scores of the model before the first sweep; None: there are no rows."""
        if self.tested is None:
            return None
        return self._mean_tested.score() if self._mean_tested.count else self.tested.scores(self.model)

    def restore(self) -> int:
        """Give the model the parameters of the last draw; returns the number of the last sweep."""
        if self.draws:
            for name, array in self.draws[-1].items():
                self.model.parameters[name][...] = array
            self.model.remeasure()
        return self.number

    def progress(self) -> dict[str, NDArray[Any]]:
        """Return the progress for `continue_from`; the arrays are no copies."""
        numbered = enumerate(self.draws)
        arrays = {draw_name(number, name): array for number, draw in numbered for name, array in draw.items()}
        parts = {
            **under(MEAN, self._mean.progress()),
            **(under(TESTED, self._mean_tested.progress()) if self.tested else {}),
            **under(TRACE, self.trace.progress()),
        }
        return {"number": np.array(self.number), **stacked(self.beside), **arrays, **parts}

    def continue_from(self, progress: Kept, epochs: int) -> None:
        """Continue from this progress, after `epochs` sweeps. Raises ValueError if it is not valid."""
        self.number = whole_number(progress, "number", epochs, epochs)
        count, names = sum(sweep <= epochs for sweep in self._kept), drawn_names(self.model)
        mean, tested, trace = (part(name, progress) for name in (MEAN, TESTED, TRACE))
        draws = [{name: draw_name(number, name) for name in names} for number in range(count)]
        parts = [*under(MEAN, mean), *under(TRACE, trace), *(under(TESTED, tested) if self.tested else [])]
        beside = self._kept_with_draws() if count else {}
        require_names(progress, ["number", *beside, *(kept for draw in draws for kept in draw.values()), *parts])
        for number, draw in enumerate(draws, 1):
            for name, kept in draw.items():
                is_half = number < count and name in self._halved and progress[kept].dtype == HALF
                wanted = np.asarray(self.model.parameters[name])
                require_like(kept, progress[kept], np.empty(wanted.shape, HALF) if is_half else wanted)
        self.draws = [{name: progress[kept].copy() for name, kept in draw.items()} for draw in draws]
        for name, one in beside.items():
            require_like(name, progress[name], np.empty((count, *one.shape)))
            require_finite(name, progress[name])
        self.beside = [{name: progress[name][number].copy() for name in beside} for number in range(count)]
        rows = self.validation.count if self.validation else 0
        self.trace.restore(trace, epochs)
        self._mean.restore(mean, count if self.validation else 0, (rows, self.model.columns))
        if self.tested:
            swept = max(0, epochs - self.trace.burn_in)
            self._mean_tested.restore(tested, swept, (self.tested.data.rows, self.model.columns))


def stacked(beside: Sequence[Draw]) -> dict[str, NDArray[Any]]:
    """Return the numbers kept with draws as arrays; the first axis has the draws."""
    return {name: np.array([one[name] for one in beside]) for name in (beside[0] if beside else ())}


def halved_names(plan: Plan) -> Sequence[str]:
    """Return the names of the arrays that all draws but the last keep in 16 bits: the arrays of features, if all draws
    would take more than MOST_DRAWN bytes."""
    model = plan.model
    is_large = len(kept_sweeps(plan.spec)) * draw_bytes(model) > MOST_DRAWN
    return feature_arrays(model) if is_large and may_halve(plan.facts) else ()


def kept_bytes(plan: Plan) -> int:
    """Return bytes of the draws that a run keeps."""
    kept = len(kept_sweeps(plan.spec))
    return draw_bytes(plan.model) + (kept - 1) * draw_bytes(plan.model, halved_names(plan)) if kept else 0


def draws_bytes(plan: Plan) -> int:
    """Return bytes of the draws that a run keeps, of copies of some for scores, and of the scores that are watched."""
    spec, model, kept = plan.spec, plan.model, len(kept_sweeps(plan.spec))
    watched = WATCHED_ROWS * (spec.values["epochs"] - spec.values["burn_in"]) if kept else 0
    return kept_bytes(plan) + copied_bytes(model, kept) + TRACE_BYTES * watched


def whole_draws(model: Model, earlier: Sequence[Draw]) -> list[Draw]:
    """Return copies of all arrays of a trained model for each draw; the last draw has the model's own arrays."""
    own = {name: np.array(array, order="C") for name, array in {**model.parameters, **model.constants}.items()}
    return [*({**own, **draw} for draw in earlier), own]
