"""The request of a user of fmcli train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fmcli.cli.options import check_files
from fmcli.errors import UsageError
from fmcli.registry.models import DEFAULT_MODEL
from fmcli.registry.specs import Spec, make_spec
from fmcli.system.addresses import base_name

if TYPE_CHECKING:
    from fmcli.cli.cluster import ClusterChoice
    from fmcli.cli.train.disk import Disk
    from fmcli.cli.train.start import Choices
    from fmcli.data.formats import Grouping
    from fmcli.data.related.files import RelationFiles
    from fmcli.data.weights import Weighting
    from fmcli.training.settings import Settings
    from fmcli.training.warm_start import WarmStart

ENDING = ".fm"


@dataclass(frozen=True)
class Request:
    """The arguments of the command: training settings, input files, and output.

    groups : a file with the groups of features; None: there is none.
    test, test_output : files of rows to predict by the mean over all sweeps, and where to write the predictions.
    grouping : what tells the groups of the rows; None: they need none.
    relations : of the training rows.
    disk : where the rows are kept during training; None: in memory.
    cluster : where the rows are on a cluster, in `cluster_dir`; None: on this machine.
    online : whether rows are trained on as they are read, and not kept.
    fail_worse : whether a model that is worse than the best constant is not written, but an error.
    keep_state : whether the model file has the state of the solver; None: if it is small.
    log_every : the number of rows after which the running mean loss is printed; None: never.
    choices : the choices of the command line.
    members : the number of models to train, with a seed each, whose predictions are averaged.
    """

    settings: Settings
    inputs: tuple[str, ...]
    format: str
    weighting: Weighting | None
    groups: str | None
    test: tuple[str, ...]
    test_output: str | None
    grouping: Grouping | None
    relations: tuple[RelationFiles, ...]
    valid: tuple[str, ...]
    disk: Disk | None
    cluster: ClusterChoice | None
    cluster_dir: str | None
    online: bool
    output: str
    keep_state: bool | None
    dry_run: bool
    log_json: str | None
    log_every: int | None
    fail_worse: bool
    choices: Choices
    members: int = 1


def choose(
    model: str | None,
    solver: str | None,
    loss: str | None,
    options: Mapping[str, Any],
    init_model: str | None,
    log_json: str | None,
) -> tuple[Spec, WarmStart | None]:
    """Return the spec of the run, and the model to resume from, if one is given.

    Raises UsageError if the options cannot be combined, and the errors of load_warm_start.
    """
    if init_model is None:
        return make_spec(model or DEFAULT_MODEL, solver, loss, options), None
    check_files([init_model], [log_json] if log_json not in (None, "-") else [])
    from fmcli.training.saving import load_warm_start

    warm_start = load_warm_start(init_model)
    return warm_start.continued(model, solver, loss, options), warm_start


def output_path(inputs: tuple[str, ...], output: str | None) -> str:
    """Return the path of the model file: as given, or derived from the first input. Raises UsageError if there is no
    name."""
    if output == "-":
        raise UsageError("a model cannot be written to standard output; give a file name with -o")
    if output is not None:
        return output
    if inputs[0] == "-":
        raise UsageError("standard input does not give the model a file name; use -o FILE")
    return base_name(inputs[0]) + ENDING
