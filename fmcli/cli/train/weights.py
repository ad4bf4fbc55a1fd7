"""Options for the weights of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fmcli.cli.options import label_weights_option, option, positive, positive_number
from fmcli.errors import UsageError

if TYPE_CHECKING:
    from fmcli.data.weights import Weighting

BALANCED = "balanced"

F = TypeVar("F", bound=Callable[..., Any])


def weight_options(function: F) -> F:
    """Add --sample-weights, --label-weights, --class-weight and --pos-weight, the arguments of `parse_weights`."""
    function = option(
        "data",
        "--pos-weight",
        type=positive,
        metavar="W",
        help="Weight of rows with the larger one of two labels. It multiplies the predicted odds of that label by "
        "about W. [default: 1; > 0]",
    )(function)
    function = option(
        "data",
        "--class-weight",
        "class_weights",
        multiple=True,
        metavar="LABEL=W",
        help="Weight of rows with a label; may be repeated. balanced: all labels get the same total weight. "
        "Probabilities are then those for labels whose frequencies were multiplied by the weights. [default: all 1]",
    )(function)
    function = label_weights_option()(function)
    return option(
        "data",
        "--sample-weights",
        metavar="FILE",
        help="Weights of the rows of TRAIN: a file with one number per line. A row of weight 2 counts like two equal "
        "rows; metrics of training and held-out rows are weighted as well. [default: all 1]",
    )(function)


def parse_weights(
    file: str | None, by_label: tuple[str, ...], positive: float | None, beside_labels: bool
) -> Weighting | None:
    """Return the weighting of the rows; None if there is none. Raises UsageError."""
    if file is None and not by_label and positive is None and not beside_labels:
        return None
    if by_label and positive is not None:
        raise UsageError("--class-weight and --pos-weight both give weights to labels; choose one")
    from fmcli.data.weights import Weighting

    if by_label == (BALANCED,):
        return Weighting(file, balanced=True, beside_labels=beside_labels)
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
    return Weighting(file, weights, positive=positive, beside_labels=beside_labels)
