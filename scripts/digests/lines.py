"""The cases: every model with every solver, every loss, and the lines of modes.txt, which reach the other modes."""

from pathlib import Path

from fmcli.registry.catalog import refusal
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS

MODES = Path(__file__).with_name("modes.txt")
# Options with which few rows suffice, or which a model needs.
OPTIONS = {"llfm": "--anchors 2 --neighbours 2", "bilinear": "--split-index 20", "kernel-basis": "-k 20"}
# Labels -> the name of the data with such labels.
DATA = {"real": "real", "binary": "two", "counts": "counts", "soft": "soft", "classes": "classes", "levels": "ratings"}


def cases() -> dict[str, list[str]]:
    """Return the commands of each case by name."""
    found = {}
    for model in MODELS:
        for solver in SOLVERS:
            if not refusal(model, solver):
                found[f"{model}.{solver}"] = trained(model, f"-s {solver}", "two" if solver != "mcmc" else "real")
        if MODELS[model].closed_form:
            found[model] = trained(model, "", "real")
        if not refusal(model, loss="softmax"):
            found[f"{model}.softmax"] = trained(model, "--loss softmax", "classes")
    for loss in LOSSES:
        for solver in SOLVERS:
            task = LOSSES[loss].task
            if not refusal("fm", solver, loss) and task in DATA:
                found[f"{loss}.{solver}"] = trained("fm", f"-s {solver} --loss {loss}", DATA[task])
    for line in MODES.read_text().splitlines()[1:]:
        name, _, commands = line.partition(": ")
        found[name] = [command.strip() for command in commands.split(" | ")]
    return found


def trained(model: str, options: str, data: str) -> list[str]:
    """Return the commands that train a model with a few epochs, and predict."""
    form = "ffm" if MODELS[model].by_fields and "split_index" not in MODELS[model].options else "libsvm"
    epochs = "" if MODELS[model].closed_form else "-e 4"
    return [
        f"train -m {model} {options} {epochs} {OPTIONS.get(model, '')} --seed 3 -o m.fm {data}.{form}",
        f"predict --output-type raw m.fm {data}.test.{form}",
    ]
