"""The weights of rows that the choices of a run ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmcli.registry.row_choices import BALANCED

if TYPE_CHECKING:
    from fmcli.data.shards.weights import Weighting
    from fmcli.registry.choices import Choices


def weighting_of(choices: Choices) -> Weighting | None:
    """Return the weighting of the rows; None if there is none."""
    by_label = choices.class_weight
    if choices.sample_weights is None and not (by_label or choices.pos_weight or choices.label_weights):
        return None
    from fmcli.data.shards.weights import Weighting

    return Weighting(
        choices.sample_weights,
        {} if by_label in (None, BALANCED) else by_label,
        balanced=by_label == BALANCED,
        positive=choices.pos_weight,
        beside_labels=choices.label_weights,
        positive_label=None if choices.positive is None else str(choices.positive),
    )
