"""Models of other programs as fmcli model files, which predict the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np

import fmcli
from fmcli.data.counts.occurrences import UNKNOWN
from fmcli.data.labels import Labels
from fmcli.data.scaling import NONE, SCALE
from fmcli.data.transform import Transform, marked
from fmcli.errors import LEAVE_OUT, BadInputError, UsageError
from fmcli.exchange import libffm, libfm, xlearn
from fmcli.exchange.external import FFM, LINEAR, ExternalModel
from fmcli.exchange.reading import file_bytes
from fmcli.model_file.check import CALIBRATION
from fmcli.model_file.container import LENGTH_BYTES, SIGNATURE, ModelFile
from fmcli.model_file.state import PAST, state_name
from fmcli.model_file.transform import transform_arrays, transform_entries
from fmcli.models.layout import REAL_TYPE
from fmcli.names import no_such
from fmcli.records import dataclass
from fmcli.registry.build import build_model
from fmcli.registry.losses import CLIPPED_LOSS, LOSSES, PROBIT, TWO_VALUES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import SCALE_LABELS
from fmcli.scoring.sparsity import model_sparsity
from fmcli.system.memory import require_if_large
from fmcli.text import number

HEAD_BYTES = 64
# The default labels of two classes.
LABELS = (0.0, 1.0)
# The figure of the training summary that names the program.
IMPORTED_FROM = "imported_from"
# The solver whose state is a sum of squared gradients per parameter.
BY_SQUARES = next(solver.name for solver in SOLVERS.values() if solver.sums_squares)
SLOTS = 1  # the number of arrays of this state

Pair = tuple[float, float]


@dataclass(frozen=True)
class Tool:
    """A program whose models can be imported.

    title : the program's name in messages.
    recognizes : whether a file, given by its bytes, may be one of its models.
    read : returns the model in a file, given by its name and its bytes.
    losses : possible meaning of scores -> its purpose; if there are several, files do not say which applies.
    normalizes : kind -> whether rows are usually scaled to unit length, if a file does not say; False for other kinds.
    """

    title: str
    recognizes: Callable[[memoryview], bool]
    read: Callable[[str, memoryview], ExternalModel]
    losses: Mapping[str, str]
    normalizes: Mapping[str, bool] = field(default_factory=dict)


def by_head(begins: Callable[[bytes], bool]) -> Callable[[memoryview], bool]:
    """Return a function that recognizes a file by its first bytes."""
    return lambda data: begins(bytes(data[:HEAD_BYTES]))


TOOLS = {
    "libfm": Tool(
        "libFM",
        by_head(libfm.begins),
        libfm.read,
        {CLIPPED_LOSS: "for regression", TWO_VALUES: "for classes by sgd", PROBIT: "for classes by als"},
    ),
    "libffm": Tool(
        "libffm",
        lambda data: libffm.is_binary(data) or libffm.begins(bytes(data[:HEAD_BYTES])),
        libffm.read,
        {TWO_VALUES: ""},
    ),
    "xlearn": Tool(
        "xLearn",
        by_head(xlearn.begins),
        xlearn.read,
        {CLIPPED_LOSS: "for regression", TWO_VALUES: "for classes"},
        {LINEAR: False, FFM: True},
    ),
}


@dataclass(frozen=True)
class Meaning:
    """The facts about predictions that a file of another program may lack.

    loss : the meaning of scores; None: as the program has it.
    labels : the labels of two classes.
    clip : the range of predicted numbers.
    norm : whether rows are scaled to unit length.
    """

    loss: str | None = None
    labels: Pair | None = None
    clip: Pair | None = None
    norm: bool | None = None

    def check(self) -> None:
        """Raise UsageError unless the choices are valid and consistent."""
        every = {loss for tool in TOOLS.values() for loss in tool.losses}
        if self.loss is not None and self.loss not in every:
            raise UsageError(no_such("loss of other programs", self.loss, sorted(every)))
        for name, pair in (("labels", self.labels), ("clip", self.clip)):
            if pair is not None and not -math.inf < pair[0] < pair[1] < math.inf:
                raise UsageError(
                    f"{number(pair[0])} and {number(pair[1])} are not two finite numbers, the smaller one first",
                    **{name: None},
                )
        if self.labels is not None and self.loss == CLIPPED_LOSS:
            raise UsageError(f"models of loss {self.loss} predict numbers, not labels", labels=LEAVE_OUT)
        if self.clip is not None and self.loss not in (None, CLIPPED_LOSS):
            raise UsageError(f"only models of loss {CLIPPED_LOSS} clip predictions", clip=LEAVE_OUT)


def imported(path: str, tool: str | None, meaning: Meaning) -> ModelFile:
    """Return the model file of another program's model. tool : one of TOOLS; None: recognize it by the file.

    Raises UsageError for choices that do not fit the file, BadInputError for an invalid file,
    MissingInputError and NotEnoughMemoryError.
    """
    meaning.check()
    if tool is not None and tool not in TOOLS:
        raise UsageError(no_such("tool", tool, TOOLS))
    data = file_bytes(path)
    program = TOOLS[tool or recognized(path, data)]
    model = program.read(path, data)
    return model_file(model, *fitting(path, program, model.kind, model.norm, meaning), program.title)


def recognized(path: str, data: memoryview) -> str:
    """Return the program, one of TOOLS, of a model file. Raises BadInputError if it is of none."""
    if bytes(data[LENGTH_BYTES:HEAD_BYTES]).startswith(SIGNATURE):
        raise BadInputError(f"{path}: is already an fmcli model")
    if xlearn.is_binary(bytes(data[:HEAD_BYTES])):
        raise BadInputError(
            f"{path}: is a binary model of xLearn, which only xLearn reads; train it again with the option that writes "
            "text, too, and import that"
        )
    found = [name for name, tool in TOOLS.items() if tool.recognizes(data)]
    if not found:
        titles = [tool.title for tool in TOOLS.values()]
        raise BadInputError(f"{path}: is not a model of {', '.join(titles[:-1])} or {titles[-1]}, or it is truncated")
    return found[0]


def fitting(path: str, tool: Tool, kind: str, norm: bool | None, meaning: Meaning) -> tuple[Meaning, bool]:
    """Return the completed meaning of predictions, and whether rows are scaled to unit length. norm : from the file.
    Raises UsageError."""
    loss = meaning.loss
    if loss is None and len(tool.losses) > 1:
        raise UsageError(f"{path}: a model of {tool.title} does not say what its scores mean", loss=dict(tool.losses))
    loss = loss or next(iter(tool.losses))
    if loss not in tool.losses:
        raise UsageError(f"{path}: {tool.title} has no models of loss {loss}", loss=dict(tool.losses))
    labels = meaning.labels or LABELS if LOSSES[loss].task == "binary" else None
    whole = Meaning(loss, labels, meaning.clip)
    whole.check()
    if norm is not None:
        if meaning.norm not in (None, norm):
            does = "scales" if norm else "does not scale"
            raise UsageError(f"{path}: this model of {tool.title} {does} rows to unit length", norm=norm)
        return whole, norm
    if kind not in tool.normalizes and meaning.norm is not False:
        raise UsageError(
            f"{path}: {tool.title} usually divides the interactions of a model of kind {kind} by the fourth power of "
            "the length of a row, which no model here does",
            norm={False: "if it was trained without that"},
        )
    usual = tool.normalizes.get(kind, False)
    return whole, usual if meaning.norm is None else meaning.norm and usual


def model_file(foreign: ExternalModel, meaning: Meaning, norm: bool, title: str) -> ModelFile:
    """Return the model file. Its training options follow from the parameters. Raises NotEnoughMemoryError."""
    kind, loss = MODELS[foreign.kind], meaning.loss or TWO_VALUES
    known = {"rank": foreign.rank, "bias": foreign.bias is not None, "linear": foreign.w is not None}
    options = {name: known.get(name, OPTIONS[name].default) for name in kind.options}
    model = build_model(kind, foreign.features, 1, options, foreign.fields)
    sizes = [math.prod(shape) for shape in model.shapes().values()]
    require_if_large(REAL_TYPE.itemsize * sum(sizes) * (1 + SLOTS), f"importing a model of {title}")
    given = {"bias": foreign.bias, "w": foreign.w, "V": foreign.V}  # of the single output
    present = {name: np.asarray(array) for name, array in given.items() if array is not None}
    arrays = {name: np.ascontiguousarray(array[None], REAL_TYPE) for name, array in present.items()}
    marks = np.full((foreign.features, (foreign.fields + 7) // 8), 255, dtype=np.uint8)
    model.attach({**arrays, "met": marks})
    state = {} if foreign.squares is None else {state_name(0, "V"): foreign.squares[None].astype(REAL_TYPE)}
    transform = Transform(
        Labels(loss, meaning.labels),
        foreign.features,
        norm=norm,
        norm_of_all=norm,
        fields=foreign.fields,
        label_range=meaning.clip,
        marks=marked(np.ones(foreign.features, dtype=np.bool_)),
    )
    meta = {
        "tool": f"fmcli {fmcli.__version__}",
        "model": kind.name,
        "solver": BY_SQUARES if state else kind.solver,
        "loss": loss,
        "options": {**options, SCALE: NONE, "norm": norm, "clip": meaning.clip is not None, SCALE_LABELS: False},
        "given": [],
        "multiples": {},
        "outputs": model.outputs,
        **transform_entries(transform),
        "slots": SLOTS if state else None,
        "updates": 0,
        "epochs": 0,
        "format": "ffm" if foreign.fields else "libsvm",
        "training": {IMPORTED_FROM: title, "parameters": model.parameter_count, "sparsity": model_sparsity(model)},
        CALIBRATION: None,
        "draws": 1,
        "members": 1,
        PAST: None,
        **UNKNOWN.entries(None),
    }
    return ModelFile(meta, {**model.parameters, **model.constants, **state, **transform_arrays(transform)})
