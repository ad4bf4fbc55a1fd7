"""fmcli models in the forms of other programs, which predict the same numbers; unsupported parts are refused by
name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fmcli.base.finite import are_finite
from fmcli.data.dictionary import Dictionary
from fmcli.errors import BadInputError, UsageError
from fmcli.exchange import libffm, libfm
from fmcli.exchange.external import FFM, FM, LINEAR, ExternalModel
from fmcli.export.arrays import require_one_draw
from fmcli.export.in_unit import in_unit
from fmcli.names import find_name, one_of
from fmcli.records import dataclass
from fmcli.registry.losses import LOGISTIC, SOFT_LOGISTIC
from fmcli.registry.models import MODELS
from fmcli.scoring.scorer import Scorer
from fmcli.system.memory import require_if_large

# The losses whose scores the other programs predict as numbers, or turn into probabilities.
NUMBERS, PROBABILITIES = ("squared", "huber"), (LOGISTIC, SOFT_LOGISTIC)


@dataclass(frozen=True)
class Form:
    """A model format of another program.

    title : the name of the program.
    write : writes a model in chunks.
    kinds : the kinds of models in the format.
    losses : the losses of models for which the program predicts the same numbers.
    norm : whether the program scales rows to unit length if a model does.
    of_pairs : whether scores have only terms of pairs of features.
    """

    title: str
    write: Callable[[ExternalModel, Callable[[bytes], object]], None]
    kinds: tuple[str, ...]
    losses: tuple[str, ...]
    norm: bool = False
    of_pairs: bool = False


FORMS = {
    "libfm": Form("libFM", libfm.write, (LINEAR, FM), (*NUMBERS, *PROBABILITIES)),
    "libffm": Form("libffm", libffm.write, (FFM,), PROBABILITIES, norm=True, of_pairs=True),
    "libffm-no-sse": Form(
        "libffm", partial(libffm.write, block=libffm.WITHOUT_SSE), (FFM,), PROBABILITIES, norm=True, of_pairs=True
    ),
    "libffm-text": Form("libffm", libffm.write_text, (FFM,), PROBABILITIES, norm=True, of_pairs=True),
}


def foreign(scorer: Scorer, to: str) -> ExternalModel:
    """Return a model for a form, one of FORMS; features without a column get parameters of 0.

    Raises UsageError, which names the parts that do not fit the form, BadInputError for parameters that are not finite,
    and NotEnoughMemoryError.
    """
    form, model = FORMS[find_name("form", to, FORMS)], scorer.model
    require_one_draw(scorer)
    for reason in refusals(form, scorer):
        raise UsageError(f"{scorer.path} {reason}, which a model of {form.title} cannot have")
    if not are_finite(model.parameters.values()):
        raise BadInputError(f"{scorer.path} has parameters that are not finite")
    if scorer.numbering is not None:
        size = sum(array.nbytes for array in model.parameters.values()) // max(model.features, 1)
        require_if_large(size * scorer.dimension, f"making the arrays of {scorer.path}")
    parameters = in_unit(model.parameters, scorer.labels.unit, {})
    arrays = {name: scorer.dense(array, 1)[0] for name, array in parameters.items() if name != "bias"}
    bias = float(parameters["bias"][0]) if "bias" in parameters else None
    kind, norm = family(scorer.meta["model"]), scorer.transform.norm
    return ExternalModel(kind, scorer.dimension, bias, arrays.get("w"), arrays.get("V"), norm)


def write_for(to: str, model: ExternalModel, write: Callable[[bytes], object]) -> None:
    """Write a model in chunks, in a form, one of FORMS."""
    FORMS[to].write(model, write)


def family(kind: str) -> str:
    """Return the kind of other programs with the same parameters and scores as a kind; the kind itself if there is
    none."""
    return next((same for same in (LINEAR, FM, FFM) if MODELS[same].path == MODELS[kind].path), kind)


def refusals(form: Form, scorer: Scorer) -> list[str]:
    """Return in words the properties of a model that a form does not support."""
    meta, transform, loss = scorer.meta, scorer.transform, scorer.labels.loss
    kind, has = meta["model"], scorer.model.parameters.keys()
    found = {
        f"is of kind {kind}, not {one_of(form.kinds)}": family(kind) not in form.kinds,
        f"has {scorer.model.outputs} classes": scorer.model.outputs > 1,
        f"is of loss {loss}, not {one_of(form.losses)}": loss not in form.losses,
        "has a dictionary of names": isinstance(scorer.numbering, Dictionary),
        "hashes the ids of features": bool(transform.hash_bits),
        "scales columns": transform.scale is not None,
        "scales rows to unit length": transform.norm and not form.norm,
        "has a bias": form.of_pairs and "bias" in has,
        "has linear weights": form.of_pairs and "w" in has,
        "has calibrated probabilities": scorer.calibration is not None,
        "has no features": scorer.dimension == 0,
    }
    return [reason for reason, holds in found.items() if holds]
