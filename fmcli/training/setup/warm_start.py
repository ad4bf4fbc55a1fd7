"""Warm start: resuming from a trained model, with its options, its parameters, and its solver's state if kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmcli.data.counts.occurrences import UNKNOWN, Occurrences
from fmcli.data.dictionary import Dictionary
from fmcli.data.fields import NO_GROUP
from fmcli.data.labels import Labels
from fmcli.data.numbering import Numbering, moved
from fmcli.data.scaling import SCALE, Scaling
from fmcli.data.shards.observed_rows import Sides
from fmcli.data.transform import Transform, every_column, marked
from fmcli.errors import LEAVE_OUT, UsageError
from fmcli.model_file.container import ModelFile
from fmcli.model_file.known_pairs import KnownPairs
from fmcli.model_file.state import CURVATURE, PAIR_BASIS, PAIR_VALUES, PAST, SLOPE, parameter_of, past_name, state_name
from fmcli.models.drawn import NOISE, PRIOR_GROUPS, PRIORS
from fmcli.models.model import Model
from fmcli.records import dataclass
from fmcli.registry.build import build_model
from fmcli.registry.losses import LOGISTIC, LOSSES, SOFT_LOGISTIC
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import solver_entry
from fmcli.registry.specs import Spec
from fmcli.solvers.coordinate.interactions import Interactions
from fmcli.solvers.coordinate.past import Past
from fmcli.solvers.trainer import Trainer
from fmcli.training.setup.previous_run import PreviousRun

# Options that determine the shapes of parameters.
SIZES = ("rank", "anchors", "pair_bits")


@dataclass(frozen=True)
class SolverState:
    """The state of a solver that a model file has kept.

    slots : number of state arrays for each parameter array, possibly 0.
    updates : number of updates that the solver has made.
    """

    solver: str
    slots: int
    updates: int


@dataclass(frozen=True)
class WarmStart:
    """A trained model, from which training resumes.

    path : its file, for messages.
    run : the run that trained it.
    model : the model, attached to the arrays of the file.
    transform : the columns, labels and scales that the earlier run learned from its rows.
    arrays : all arrays of the file, including the solver's state.
    file : the file; None: there is none.
    state : the solver's state in the file; None: the file has none.
    occurrences : how often features occurred in these rows.
    known : its observed pairs; None: it was trained on other rows.
    draw : of a model by a solver that samples: which of its draws this is; the last one by default.
    """

    path: str
    run: PreviousRun
    model: Model
    transform: Transform
    arrays: Mapping[str, NDArray[Any]]
    state: SolverState | None
    occurrences: Occurrences = UNKNOWN
    file: ModelFile | None = None
    known: KnownPairs | None = None
    draw: int = -1

    @property
    def drawn(self) -> dict[str, NDArray[Any]]:
        """The noise and the priors that were kept beside the draw; empty if the file has no priors."""
        if PRIORS not in self.arrays:
            return {}
        of_draw = {name: self.arrays[name][self.draw] for name in (NOISE, PRIORS) if name in self.arrays}
        return {**of_draw, PRIOR_GROUPS: self.arrays[PRIOR_GROUPS]}

    @property
    def past_weight(self) -> float:
        """The weight of the rows that its parameters depend on, or the least that it can be; 0: it is not known."""
        return float(self.meta.get(PAST) or self.occurrences.covered)

    def past(self, shapes: Mapping[str, tuple[int, ...]]) -> Past | None:
        """Return what its file says about the loss of the rows that it was trained on, in a run whose parameters have
        these shapes; None: nothing."""
        if self.meta.get(PAST) is None:
            return None
        curvatures, slopes = (
            {
                name: extended(self.arrays[past_name(kind, name)], shape).astype(np.float64)
                for name, shape in shapes.items()
                if past_name(kind, name) in self.arrays
            }
            for kind in (CURVATURE, SLOPE)
        )
        pairs = None
        if PAIR_BASIS in self.arrays:
            pairs = Interactions(self.arrays[PAIR_BASIS], self.arrays[PAIR_VALUES])
        return Past(self.past_weight, curvatures, slopes, pairs)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The metadata of its file."""
        return self.file.meta if self.file else {}

    @property
    def sides(self) -> Sides | None:
        """The contexts, the items and the pairs of its run; None: it was trained on other rows."""
        known = self.known
        return None if known is None else Sides(known.users, known.items, *known.seen.pairs())

    @property
    def occurring(self) -> Numbering | Dictionary:
        """The numbering of the features that it has seen."""
        if self.transform.numbering is not None:
            return self.transform.numbering
        return Numbering(np.flatnonzero(self.transform.seen).astype(np.int32), self.model.features)

    def on_columns(self, numbering: Numbering | Dictionary) -> WarmStart:
        """Return this model with the columns of a numbering, of all features that it has seen, or of some. Raises
        UsageError if its arrays cannot be changed so."""
        transform, ours = self.transform, self.transform.numbering
        columns = numbering.columns_from(every_column(self.model.features) if ours is None else ours)
        if ours is not None and len(columns) == len(numbering) and np.array_equal(columns, np.arange(len(columns))):
            return replace(self, transform=replace(transform, numbering=numbering))
        if MODELS[self.run.model].keeps_columns:
            raise UsageError(
                f"the pairs of {self.run.model} have places by column, so a dictionary of ids cannot get new "
                "features; train on all rows at once, or hash the ids of the first model, too"
            )
        return self._moved(columns, len(numbering), numbering, transform.fields)

    def grown(self, features: int, fields: int) -> WarmStart:
        """Return this model with more columns, added at the end, and more fields."""
        numbering = self.transform.numbering
        if (features, fields) == (self.model.features, self.transform.fields):
            return self
        return self._moved(np.arange(self.model.features), features, numbering, fields)

    def _moved(
        self, columns: NDArray[Any], size: int, numbering: Numbering | Dictionary | None, fields: int
    ) -> WarmStart:
        """Return this model with other columns: column j here becomes columns[j]; -1: it has none."""
        transform = self.transform
        source = np.flatnonzero(columns >= 0)
        target = columns[source]
        kind = MODELS[self.run.model]
        options = {name: self.run.options[name] for name in kind.options}
        cutpoints = self.model.cutpoints
        model = build_model(kind, size, self.model.outputs, options, fields, cutpoints=cutpoints)
        if kind.keeps_columns:
            model.inherit(self.model, transform.seen)  # which refuses columns that change places
        arrays, shapes = dict(self.arrays), model.shapes()
        for name, array in self.arrays.items():
            parameter = parameter_of(name)
            axis = 1 if name == PAIR_BASIS else self.model.feature_axis(parameter)
            if axis is not None:
                arrays[name] = moved(array, axis, source, target, size)
            if parameter in shapes:
                arrays[name] = extended(arrays[name], shapes[parameter])
        model.attach({**arrays, **model.fitted_constants(arrays)})
        for name in arrays:
            if parameter_of(name) in model.constants:
                arrays[name] = extended(arrays[name], model.constants[parameter_of(name)].shape)
        occurrences, counts = self.occurrences, self.occurrences.counts
        scale, groups = transform.scale, transform.groups
        if scale is not None:
            scale = scale.each(lambda array, fill: moved(array, 0, source, target, size, fill))
        if counts is not None:
            counts = moved(counts, 0, source, target, size)
        if groups is not None:
            groups = moved(groups, 0, source, target, size, fill=NO_GROUP)
        return replace(
            self,
            model=model,
            arrays=arrays,
            known=self.known and self.known.moved(columns, size),
            transform=replace(
                transform,
                features=size,
                fields=fields,
                numbering=numbering,
                scale=scale,
                groups=groups,
                marks=marked(moved(transform.seen, 0, source, target, size)),
            ),
            occurrences=replace(occurrences, features=columns[occurrences.features], counts=counts),
        )

    def continued(self, model: str | None, solver: str | None, loss: str | None, options: Mapping[str, Any]) -> Spec:
        """Return the spec of a run that resumes from this model; see PreviousRun.continued.

        Raises the errors of make_spec, and UsageError for models in closed form.
        """
        for kind in (self.run.model, model or self.run.model):
            self.check_trained_by_epochs(kind)
        return self.run.continued(model, solver, loss, options)

    def of_new_features(self, options: Mapping[str, Any]) -> Spec:
        """Return the spec of a run that learns the features that this model has not seen, all other parameters being
        constant; see PreviousRun.of_new_features.

        Raises the errors of make_spec, and UsageError for models whose parameters do not belong to features, or whose
        loss has no minimum to find.
        """
        kind, loss, numbering = MODELS[self.run.model], LOSSES[self.run.loss], self.transform.numbering
        reason, bits = "", self.run.options.get("pair_bits", 0)
        if solver_entry(self.run.solver).is_sampler and PRIORS not in self.arrays:
            reason = f"its draws by {self.run.solver} depend on priors, which its file does not have"
        elif kind.closed_form:
            reason = f"{kind.name} has landmarks, and no parameters of features"
        elif loss.pairwise:
            reason = f"loss {loss.name} compares rows, so new features have no minimum of their own"
        elif not loss.smooth:
            reason = f"loss {loss.name} is not differentiable, and new features are learned by coordinate descent"
        elif self.known is not None and (self.run.options["l1_w"] or self.run.options["l1_v"]):
            reason = "its l1 penalty is relative to all pairs, and its file does not have their weights"
        elif numbering is not None and numbering.shared is not None:
            reason = "features that it has not seen share a column with rare ones"
        elif kind.keeps_columns and (pairs := self.model.features * (self.model.features - 1) // 2) > 1 << bits:
            reason = f"its {pairs:,} pairs share entries by a hash, so new features have no pairs of their own"
        if reason:
            raise UsageError(f"{self.path} cannot learn new features alone: {reason}", only_new=LEAVE_OUT)
        return self.run.of_new_features(options, of_pairs=self.known is not None)

    def labels_for(self, spec: Spec) -> Labels:
        """Return the labels of this model, under the loss of the spec. Raises UsageError if it takes others."""
        loss = spec.loss or self.run.loss
        if (loss, self.run.loss) == (LOGISTIC, SOFT_LOGISTIC):  # as the labels of this model decided
            loss = SOFT_LOGISTIC
        if LOSSES[loss].task != LOSSES[self.run.loss].task:
            raise UsageError(
                f"{self.path} was trained with loss {self.run.loss}, not {loss}, whose labels mean something else",
                loss=LEAVE_OUT,
            )
        return replace(self.transform.labels, loss=loss)

    def check(self, spec: Spec, model: Model) -> None:
        """Check the shapes. Raises UsageError if the model to be trained has other parameters.

        model : as the spec makes it for as many features and fields as this model has.
        """
        self.check_trained_by_epochs(spec.model)
        if MODELS[spec.model].path != MODELS[self.run.model].path:
            raise UsageError(
                f"{self.path} is a model of kind {self.run.model}, whose parameters do not fit {spec.model}",
                model=self.run.model,
            )
        ours_order, theirs_order = spec.values.get("order"), self.run.options.get("order")
        if ours_order != theirs_order:
            raise UsageError(f"{self.path} is of order {theirs_order}, not {ours_order}", order=theirs_order)
        ours, theirs = model.shapes(), self.model.shapes()
        if ours.keys() != theirs.keys():
            different = ", ".join(sorted(ours.keys() ^ theirs.keys()))
            raise UsageError(f"{self.path} and this run differ in having {different}; give the same options")
        for name in ours:
            if ours[name] != theirs[name]:
                sizes = {size: self.run.options[size] for size in SIZES if size in spec.values}
                others = {size: value for size, value in sizes.items() if spec.values[size] != value}
                raise UsageError(
                    f"{self.path} has {name} of shape {theirs[name]}, this run {ours[name]}", **(others or sizes)
                )

    def check_trained_by_epochs(self, kind: str) -> None:
        """Check the kind. Raises UsageError for a kind of model that is solved in closed form."""
        if kind in MODELS and MODELS[kind].closed_form:
            raise UsageError(f"{kind} is solved from its data and cannot resume from {self.path}", init_model=LEAVE_OUT)

    def keep_scale(self, scaling: Scaling, method: str) -> None:
        """Replace the scaling of columns that this model has seen by its own, if it is from the same method."""
        scale = self.transform.scale
        if scale is not None and self.run.options[SCALE] == method:
            scaling.keep(scale, self.transform.seen)

    def restore_state(self, model: Model, trainer: Trainer) -> None:
        """Restore the saved state, which must fit, in a prepared trainer; new features keep the state of a new run."""
        assert self.state is not None
        for name, slots in model.states.items():
            for slot, array in enumerate(slots):
                self.copy_known(name, self.arrays[state_name(slot, name)], array)
        trainer.resume(self.state.updates)

    def copy_parameters(self, model: Model) -> None:
        """Copy the parameters into a model that has its start values, which new features keep."""
        for name, array in model.parameters.items():
            self.copy_known(name, self.model.parameters[name], array)
        model.project()
        model.remeasure()

    def copy_known(self, name: str, old: NDArray[Any], new: NDArray[Any]) -> None:
        """Copy the values that this model has learned, of a parameter or its state, into an array that may be larger;
        the other values stay."""
        known = self.model.known(name, self.transform.seen)
        known = known.reshape(known.shape + (1,) * (old.ndim - 1 - known.ndim))
        np.copyto(new[tuple(map(slice, old.shape))], old, where=known)

    def also_seen(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool (features): which features a run or this model has seen."""
        both, ours = seen.copy(), self.transform.seen
        both[: len(ours)] |= ours
        return both


def extended(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of this shape, with zeros after the ends of an array's axes."""
    if array.shape == shape:
        return array
    larger = np.zeros(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger
