"""The verdict: how well a trained model predicts, as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.scoring.sparsity import SPARSITY
from fmcli.text import counted, figure, listed

if TYPE_CHECKING:
    from fmcli.training.baseline import Comparison
    from fmcli.training.trained import Trained

# Metrics whose names are written in capitals, and as many metrics as a sentence has.
CAPITALS, MOST = ("auc", "pr-auc", "gauc", "rmse", "mae", "r2"), 3


def verdict(trained: Trained, summary: Mapping[str, Any], comparison: Comparison | None) -> str:
    """Return a sentence with the metrics of a model beside the best constant's: of validation data if there are some,
    otherwise of rows to test or of the training rows. "" if there is nothing to tell: no epoch, or the few rows of
    new features.

    summary : the summary of the run; comparison : of the run with the best constant, if there is one.
    """
    validated = trained.validated
    if not trained.epochs or trained.plan.new_features:
        return ""
    if validation := validated.plan.validation:
        rows = counted(validation.count, "pair" if isinstance(trained.plan.source, ObservedRows) else "row")
        where = rows.replace(" ", " held-out ") if validation.held_out else f"{rows} of validation data"
        constant = validated.baseline.words.replace("the best", "a")
        if comparison and figure(comparison.value) == figure(comparison.constant):
            return f"Predicts {where} no better than {constant}: {comparison.metric} {figure(comparison.value)}."
        return sentence(f"Predicts {where}", summary["valid"], summary["valid_constant"], constant)
    if "test" in summary:
        return sentence(f"Predicts {counted(summary['test_rows'], 'test row')}", summary["test"])
    if isinstance(trained.plan.source, ObservedRows):
        return ""
    constants = {comparison.metric: comparison.constant} if comparison else {}
    unseen = "; errors on new rows are usually larger"
    return sentence("Fits the training rows", summary["train"], constants, "a constant", unseen)


def sentence(
    begin: str,
    metrics: Mapping[str, float | None],
    of_constant: Mapping[str, float | None] = MappingProxyType({}),
    constant: str = "",
    end: str = "",
) -> str:
    """Return a sentence with metrics, each beside the constant's if it is known; "" if no metric is defined."""
    found = []
    for name, value in sorted(metrics.items(), key=lambda one: one[0] != "auc"):
        if name == SPARSITY or value is None:
            continue
        beside, least = "", of_constant.get(name)
        if least is not None and name != "r2":
            beside = " (guessing: 0.5)" if name in ("auc", "gauc") else f" ({constant}: {figure(least)})"
        if name == "rmse" and "r2" not in metrics and least and value < least:
            beside = f"{beside[:-1]}, {100 * (1 - (value / least) ** 2):.3g} % of the variance explained)"
        found.append(f"{name.upper() if name in CAPITALS else name} {figure(value)}{beside}")
    return f"{begin} with {listed(found[:MOST])}{end}." if found else ""
