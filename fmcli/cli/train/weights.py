"""Options for the weights of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmcli.cli.files import InputFile
from fmcli.cli.options import gathered, label_weights_option, option, positive, positive_number
from fmcli.errors import UsageError
from fmcli.records import dataclass

if TYPE_CHECKING:
    from fmcli.data.shards.weights import Weighting

BALANCED = "balanced"


@dataclass(frozen=True)
class WeightChoice:
    """The weights of rows."""

    sample_weights: str | None
    label_weights: bool
    class_weights: tuple[str, ...]
    pos_weight: float | None

    def weighting(self, positive_label: str | None) -> Weighting | None:
        """Return the weighting of the rows; None if there is none. positive_label : as in Weighting. Raises
        UsageError."""
        file, by_label, positive, beside = self.sample_weights, self.class_weights, self.pos_weight, self.label_weights
        if file is None and not by_label and positive is None and not beside:
            return None
        from fmcli.data.shards.weights import Weighting

        if by_label == (BALANCED,):
            return Weighting(file, balanced=True, beside_labels=beside)
        weights = {}
        for text in by_label:
            label, _, weight = text.rpartition("=")
            try:
                weights[label or text] = positive_number(weight if label else "")
            except ValueError as error:
                raise UsageError(
                    f"--class-weight {text}: it must be LABEL=W with a number W > 0, such as 1=2.5, or {BALANCED} alone"
                ) from error
        if len(weights) < len(by_label):
            raise UsageError("--class-weight gives a label two weights; give one of them")
        return Weighting(file, weights, positive=positive, beside_labels=beside, positive_label=positive_label)


weight_options = gathered(
    "weights",
    WeightChoice,
    option(
        "data",
        "--sample-weights",
        type=InputFile(),
        metavar="FILE",
        help="Weights of the rows of TRAIN: a file with one number per line. A row of weight 2 counts like two equal "
        "rows; metrics of training and held-out rows are weighted as well. [default: all 1]",
    ),
    label_weights_option(),
    option(
        "data",
        "--class-weight",
        "class_weights",
        multiple=True,
        metavar="LABEL=W",
        help="Weight of rows with a label; may be repeated. balanced: all labels get the same total weight. "
        "Probabilities are then those for labels whose frequencies were multiplied by the weights. [default: all 1]",
    ),
    option(
        "data",
        "--pos-weight",
        type=positive,
        metavar="W",
        help="Weight of rows with the positive one of two labels. It multiplies the predicted odds of that label by "
        "about W. [default: 1; > 0]",
    ),
)
