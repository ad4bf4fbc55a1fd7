"""What a run is told to do, checked before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fmcli.errors import UsageError
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.registry.options import GROUP_PENALTIES
from fmcli.registry.specs import Spec, resolve

if TYPE_CHECKING:
    from fmcli.models.model import Model
    from fmcli.training.warm_start import Earlier


@dataclass(frozen=True)
class Settings:
    """A run's choices, and how its epochs are judged.

    spec : what to train.
    earlier : a model to resume from.
    valid_name : what the validation data are called in messages.
    holdout : share of the rows to hold out and to judge epochs by, unless there are validation data; None: for row
        solvers 5 % of 10,000 rows or more in several epochs, but not of a stream, nor if no metric can choose.
    refit : whether to train again on all rows once held-out rows have chosen the epoch; None: if that is cheap.
    metrics : names of metrics, the first of which (except sparsity) chooses the epoch; none: the usual ones.
    patience : epochs without a better one after which training stops.
    stream : whether the rows come from a pipe, so that a single epoch is no more than a pass.
    threads : how many threads.

    Raises UsageError for metrics that do not exist or do not fit the loss, and for an earlier model that has other
    parameters than the spec.
    """

    spec: Spec
    earlier: Earlier | None = None
    valid_name: str = "validation data"
    holdout: float | None = 0.0
    refit: bool | None = None
    metrics: tuple[str, ...] = ()
    patience: int = 3
    stream: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        if self.earlier:
            check_earlier(self.earlier, self.spec)
        if self.metrics:
            from fmcli.scoring.metrics import check

            check(self.choosing, self.spec.loss)

    @property
    def choosing(self) -> list[str]:
        """Those of the metrics that can choose the epoch."""
        from fmcli.scoring.sparsity import of_predictions

        return of_predictions(self.metrics)

    @property
    def share_held_out(self) -> float | None:
        """The share of rows to hold out if there are no validation data; None: the usual one of the data."""
        if self.holdout is None and (self.stream or (self.metrics and not self.choosing)):
            return 0.0
        return self.holdout

    def check_chooser(self) -> None:
        """UsageError if no metric could choose the epoch."""
        if self.metrics and not self.choosing:
            raise UsageError("sparsity cannot choose the epoch; name another metric, too")


def make_model(spec: Spec, features: int, outputs: int, fields: int) -> Model:
    """The model of a spec, without memory yet."""
    kind = MODELS[spec.model]
    by_row = any(spec.values[name] > 0 for name in GROUP_PENALTIES)
    return build_model(kind, features, outputs, spec.keywords(kind), fields, by_row)


def check_earlier(earlier: Earlier, spec: Spec) -> None:
    """Raises UsageError if a run of this spec cannot resume from an earlier model, whatever its data."""
    labels = earlier.labels_for(spec)
    some = resolve(spec, rows=1, nonzeros=1, features=1, validated=False)  # no shape depends on such defaults
    earlier.check(spec, make_model(some, earlier.model.features, labels.outputs, earlier.fields))
