"""The report of fmcli evaluate, as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fmcli.cli.figures import as_json, section

if TYPE_CHECKING:
    from fmcli.cli.evaluate.measuring import Result
    from fmcli.cli.evaluate.request import EvaluateRequest
    from fmcli.data.text.faults import BadLines

# The confusion matrix is printed for up to this many classes; JSON always has it.
MOST_CLASSES_SHOWN = 12


def report(request: EvaluateRequest, result: Result, bad: BadLines) -> str:
    """Return the metrics as text or JSON, with tables of the classes."""
    from fmcli.scoring.evaluation import class_table

    labels, counts, compared = result.labels, result.counts, result.difference
    tables: dict[str, Any] = {}
    if result.table is not None:
        tables = {"classes": class_table(labels.shown or [], result.table), "confusion": result.table.tolist()}
    if result.reliability:
        tables["calibration"] = {"ece": result.reliability.error, "bins": result.reliability.bins}
    if request.json:
        head: dict[str, Any] = {
            "model": request.model,
            "predictions": request.predictions,
            "loss": labels.loss,
            "rows": counts.rows,
        }
        head |= result.rankings
        if request.model is not None:
            head |= {"nonzeros": counts.nonzeros, "unseen": counts.unseen}
        if bad.skip:
            head["bad_lines"] = bad.count
        if compared:
            worse = bool(compared.complaint(request.margin))
            head["compared"] = {"model": request.current, **compared.figures, "worse": worse}
        return as_json({**head, "metrics": result.figures, **tables})
    text = section(result.figures)
    if compared:
        text += section(compared.figures, f"Compared with {request.current}")
    if result.reliability:
        title = f"Probabilities of {'the likeliest label' if labels.outputs > 1 else labels.texts[1]}"
        text += section(result.reliability.bins, title)
        text += section({"expected_calibration_error": result.reliability.error})
    if "classes" in tables and labels.values is not None:
        text += section(tables["classes"], "Classes")
        if len(labels.values) <= MOST_CLASSES_SHOWN:
            names = labels.texts
            rows = [
                {"label": name, **dict(zip(names, row, strict=True))}
                for name, row in zip(names, tables["confusion"], strict=True)
            ]
            text += section(rows, "Rows by label (down) and prediction (across)")
        else:
            text += "\nuse --json for the table of labels and predictions\n"
    return text
