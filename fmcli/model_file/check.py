"""Validation of a model file's contents before they are used: a model file may be untrusted.

container.py has checked that the file is complete and that tensors are where the header says. This module checks each
entry of the metadata by its own rule, then entries and arrays against each other. Models check the arrays that they
attach. After these checks, every number has the type and range that the code assumes, every array has the right length,
and every text is printable.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fmcli
from fmcli.base.rules import (
    BOOLEAN,
    COUNT,
    NAME_LIST,
    TABLE,
    TEXT,
    Rule,
    entries,
    is_number,
    list_of,
    null_or,
    one_of,
    quoted,
    whole,
)
from fmcli.data.counts.occurrences import COUNTS, MOST, TOGETHER, TYPES
from fmcli.data.fields import NO_GROUP
from fmcli.data.labels import is_name, saved_labels
from fmcli.data.scaling import CENTER, SCALE, names_of
from fmcli.data.tables.schema import Schema
from fmcli.errors import BadInputError, UsageError
from fmcli.model_file.known_pairs import expected_arrays
from fmcli.model_file.state import (
    CURVATURE,
    PAIR_BASIS,
    PAIR_VALUES,
    PAST,
    SLOPE,
    STATE,
    draw_name,
    drawn_names,
    past_name,
    state_name,
)
from fmcli.models.drawn import NOISE, PRIOR_GROUPS, PRIORS, priors_in
from fmcli.models.kept import HALF
from fmcli.models.parameters import Parameters
from fmcli.registry.losses import CLIPPED_LOSS, LOSSES, LossEntry
from fmcli.registry.models import MODELS, ModelEntry
from fmcli.registry.options import MOST_HASH_BITS, MOST_MEMBERS, OPTIONS, Option
from fmcli.registry.solvers import CLOSED_FORM, SOLVERS
from fmcli.registry.specs import REFINES, SCALED_TASK, SOLVER, check_degrees

# The name of the bitmap of seen features: bit j % 8 of byte j // 8 is set if feature j occurred in training.
SEEN = "seen"
# The name of the array with the prior group of each column; -1: not known.
GROUPS = "groups"
# The name of the array of features with columns, increasing; without this array, every feature has a column.
FEATURES = "features"
# The names of the arrays of a dictionary: numbers, and the bytes and the ends of names.
IDS, NAMES, ENDS = "ids", "names", "name_ends"
# The name of the hash function of ids.
HASH = "murmur64a"
# The name of the calibration array, and the calibration methods: slope and intercept of a sigmoid, or scores and
# probabilities of points.
CALIBRATION, PLATT, ISOTONIC = "calibration", "platt", "isotonic"
CALIBRATIONS = (ISOTONIC, PLATT)
MOST_FEATURES = 2**31 - 1  # features are numbered by int32
MOST_FIELDS = 2**31
MOST_SLOTS = 8  # slots of solver state; solvers use 0 to 3
MOST_DRAWS = 2**16
# The types of real numbers: f for the real type of this build or another; half also for the type of draws.
REALS = {"f": ("f4", "f8"), "half": ("f2", "f4", "f8")}


def name_in(names: Container[str], *others: str) -> Rule:
    """Return a rule for registered names. They are looked up when a file is read, not now."""
    words = "one that this version knows; the file may be from a newer fmcli"
    return Rule(words, lambda value: type(value) is str and (value in names or value in others))


def are_labels(value: Any) -> bool:
    """Return whether a value is a list of two or more distinct numbers, or names, in increasing order."""
    several = type(value) is list and len(value) > 1
    alike = several and (all(map(is_number, value)) or all(map(is_name, value)))
    return alike and all(low < high for low, high in pairwise(value))


def is_positive(value: Any) -> bool:
    """Return whether a value is a finite number above 0."""
    return is_number(value) and bool(value > 0)


def are_multiples(value: Any) -> bool:
    """Return whether a value maps names of options to positive numbers."""
    return type(value) is dict and value.keys() <= OPTIONS.keys() and all(map(is_positive, value.values()))


def is_range(value: Any) -> bool:
    """Return whether a value is a list of two finite numbers in nondecreasing order."""
    return type(value) is list and len(value) == 2 and all(map(is_number, value)) and value[0] <= value[1]


def is_unit(value: Any) -> bool:
    """Return whether a value is a list of two finite numbers and the second number is positive."""
    return type(value) is list and len(value) == 2 and all(map(is_number, value)) and value[1] > 0


def are_features(value: Any) -> bool:
    """Return whether a value is [[feature, field], ...] with distinct features."""
    feature, field = whole(0, MOST_FEATURES - 1), whole(0, MOST_FIELDS - 1)
    return (
        type(value) is list
        and len(value) <= MOST
        and all(
            type(pair) is list and len(pair) == 2 and feature.holds(pair[0]) and field.holds(pair[1]) for pair in value
        )
        and len({pair[0] for pair in value}) == len(value)
    )


def is_schema(value: Any) -> bool:
    """Return whether a value is a result of `Schema.entry`."""
    try:
        return type(value) is dict and Schema.of_entry(value).entry() == value
    except BadInputError:
        return False


# Sizes of a dictionary: of numbers, names and text; and whether rare features share a column.
DICTIONARY = entries({"numbers": COUNT, "names": COUNT, "bytes": COUNT, "shared": BOOLEAN}).holds
# The hash function of ids, and the number of bits that are columns.
HASHING = entries({"name": one_of(HASH), "bits": whole(1, MOST_HASH_BITS)}).holds
# How often features occur; see Occurrences.
COUNTED = entries(
    {"rows": list_of(COUNT), "looked_at": COUNT}, {"labels": null_or(COUNT), "total": null_or(COUNT)}
).holds
# All entries of a model file. Rules about two entries are in `check_entries`.
ENTRIES = {
    "tool": TEXT,
    "model": name_in(MODELS),
    "solver": name_in(SOLVERS, CLOSED_FORM),
    "loss": name_in(LOSSES),
    "options": TABLE,
    "features": whole(0, MOST_FEATURES),
    "columns": null_or(whole(0, MOST_FEATURES)),
    "dictionary": null_or(Rule("the numbers of its ids, names and bytes, and whether others share", DICTIONARY)),
    "hash": null_or(Rule(f"the hash {HASH} and a number of bits from 1 to {MOST_HASH_BITS}", HASHING)),
    "outputs": whole(1, MOST_FEATURES),
    "fields": whole(0, MOST_FIELDS),
    "labels": null_or(Rule("a list of two or more increasing numbers, or names", are_labels)),
    "label_pair": null_or(Rule("two increasing numbers", lambda value: is_range(value) and bool(value[0] < value[1]))),
    "positive": null_or(whole(0, 0)),
    "slots": null_or(whole(0, MOST_SLOTS)),
    "updates": COUNT,
    "epochs": COUNT,
    "given": NAME_LIST,
    "norm_of_all": BOOLEAN,
    "unit": null_or(Rule("the center of the labels and their scale, which is positive", is_unit)),
    "range": null_or(Rule("the smallest and the largest label", is_range)),
    "table": null_or(Rule("what the columns of a table are", is_schema)),
    "format": name_in(("libsvm", "ffm")),
    "frequent": Rule(f"a list of at most {MOST} pairs of a feature and its field", are_features),
    "occurrences": null_or(Rule("the rows of each frequent feature, and of how many rows", COUNTED)),
    "multiples": Rule("positive numbers by name", are_multiples),
    PAST: null_or(Rule("the weight of the rows whose loss is known", is_positive)),
    "training": TABLE,
    "calibration": null_or(name_in(CALIBRATIONS)),
    "draws": whole(1, MOST_DRAWS),
    "members": whole(1, MOST_MEMBERS),
}


def check_entries(meta: Mapping[str, Any]) -> None:
    """Raise BadInputError unless the metadata have every entry, each entry is valid, and the entries fit together."""
    for name in ENTRIES:
        if name not in meta:
            refuse(f"the entry {name} is missing")
    for name, value in meta.items():
        if name not in ENTRIES:
            refuse(f"the entry {quoted(name)} is unknown; the file may be from a newer fmcli")
        if not ENTRIES[name].holds(value):
            refuse(f"{name} is {quoted(value)}; it must be {ENTRIES[name].words}")
    kind, loss = MODELS[meta["model"]], LOSSES[meta["loss"]]
    check_known(meta)
    check_options(kind, loss, meta["options"])
    check_labels(kind, loss, meta["labels"], meta["outputs"])
    if meta["columns"] is not None and meta["columns"] > meta["features"]:
        refuse("there are more columns than features")
    check_ids(meta)
    if any(feature >= meta["features"] for feature, _ in meta["frequent"]):
        refuse("the index of a frequent feature is not below the number of features")
    known = meta["occurrences"]
    if known is not None and len(known["rows"]) != len(meta["frequent"]):
        refuse("the counts of some frequent features are missing")
    if meta["options"].get("clip") and (meta["range"] is None or loss.name != CLIPPED_LOSS):
        refuse("it clips predictions, but the range of the labels is missing")
    if meta["positive"] is not None and saved_labels(loss.name, meta["labels"]).positive is None:
        refuse("it has a positive label, but no two labels")
    if meta["unit"] is not None and (meta["labels"] is not None or loss.task != SCALED_TASK):
        refuse(f"its labels have a unit, but labels of loss {loss.name} have none")
    samples = meta["solver"] in SOLVERS and SOLVERS[meta["solver"]].is_sampler
    if meta["draws"] % meta["members"] or (meta["draws"] > meta["members"] and not samples):
        refuse(f"it has {meta['draws']} draws of {meta['members']} members, which {meta['solver']} does not make")
    if meta["calibration"] is not None and (loss.task != "binary" or loss.load_link().inverse is None):
        refuse(f"it has a calibration, but loss {loss.name} has no probabilities of two labels")
    if meta["norm_of_all"]:
        check_norm_of_all(kind, meta)
    if meta["fields"] and not meta["features"]:
        refuse("it has fields, but no features")


def check_norm_of_all(kind: ModelEntry, meta: Mapping[str, Any]) -> None:
    """Raise BadInputError unless the norm of rows may count all features: only in a model with fields and the option
    norm, without scaling, a dictionary or hashes."""
    options = meta["options"]
    if not ("fields" in kind.context and options["norm"] and not names_of(options[SCALE])):
        refuse("the norm of its rows counts all features, but it has no norm or no fields, or scales columns")
    if meta["dictionary"] is not None or meta["hash"] is not None:
        refuse("the norm of its rows counts all features, but it has a dictionary or hashes")


def check_ids(meta: Mapping[str, Any]) -> None:
    """Raise BadInputError unless a dictionary or a hash fits the number of features."""
    sizes, hashed = meta["dictionary"], meta["hash"]
    if sizes is not None and (hashed is not None or meta["columns"] is not None):
        refuse("it has a dictionary, and hashed ids or columns for some features only")
    if sizes is not None and sizes["numbers"] + sizes["names"] + sizes["shared"] != meta["features"]:
        refuse("its dictionary has another number of ids than features")
    if hashed is not None and meta["features"] != 1 << hashed["bits"]:
        refuse("its number of features does not fit its hashes")


def check_known(meta: Mapping[str, Any]) -> None:
    """Raise BadInputError, which names them, for options that this version does not know: they may change the meaning
    of the model. Options that the user gave must be among the options of the run."""
    unknown = [quoted(name) for name in meta["options"] if name not in OPTIONS]
    if unknown:
        raise BadInputError(
            f"was written by {meta['tool']}, whose option{'s' if unknown[1:] else ''} {', '.join(unknown)} fmcli "
            f"{fmcli.__version__} does not know: upgrade fmcli"
        )
    for name in meta["given"]:
        if name != SOLVER and name not in meta["options"]:
            refuse(f"given names {quoted(name)}, which is not one of its options")


def check_options(kind: ModelEntry, loss: LossEntry, options: Mapping[str, Any]) -> None:
    """Raise BadInputError unless all options of the components are present and in their range."""
    for name in (*kind.options, *loss.options, SCALE, "norm"):
        if name not in options:
            refuse(f"the option {name} is missing")
    for name, value in options.items():
        if name in OPTIONS and not permits(OPTIONS[name], kind, value):
            words = OPTIONS[name].range() or OPTIONS[name].kind.__name__
            refuse(f"the option {name} is {quoted(value)}; it must be {words}")
        most = kind.limits.get(name)
        if most is not None and value > most:
            refuse(f"the option {name} is {quoted(value)}; with {kind.name} it can be at most {most}")
    try:
        check_degrees(kind, options)
    except UsageError as error:
        refuse(str(error))


def permits(option: Option, kind: ModelEntry, value: Any) -> bool:
    """Return whether a value has the type and the range of an option."""
    if value is None:  # in a file, an option that refines another one is never null
        return option.default is None and option.name not in REFINES
    if type(value) is list:
        return option.name in kind.by_degree and all(
            type(item) is not list and permits(option, kind, item) for item in value
        )
    if option.kind is float:
        return is_number(value) and option.permits(value)
    return type(value) is option.kind and (option.kind is bool or option.permits(value))


def check_labels(kind: ModelEntry, loss: LossEntry, values: list[float] | list[str] | None, outputs: int) -> None:
    """Raise BadInputError unless the number of label values fits the loss, and the number of outputs fits the
    labels."""
    count = 0 if values is None else len(values)
    steps = set(np.diff([value for value in values or () if is_number(value)])) == {1}
    fits = {"binary": count == 2, "classes": count >= 2, "levels": count >= 2 and steps}.get(
        loss.task, count in ((0, 2) if kind.closed_form else (0,))
    )
    if not fits:
        refuse(f"{count} label values do not fit loss {loss.name}")
    expected = saved_labels(loss.name, values).outputs
    if outputs != expected:
        refuse(f"outputs is {outputs}, but its labels need {expected}")


def dictionary_shapes(sizes: Mapping[str, int]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shapes and types of the arrays of a dictionary with these sizes."""
    return {IDS: ((sizes["numbers"],), "i8"), NAMES: ((sizes["bytes"],), "u"), ENDS: ((sizes["names"],), "i8")}


def check_arrays(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], model: Parameters) -> None:
    """Raise BadInputError unless the arrays that the model does not attach are valid, and no other arrays exist. The
    arrays of `model` are attached."""
    columns = model.features
    expected: dict[str, tuple[tuple[int, ...], str]] = {SEEN: (((columns + 7) // 8,), "u")}
    if meta["columns"] is not None:
        expected[FEATURES] = ((columns,), "i4")
    if meta["dictionary"] is not None:
        expected |= dictionary_shapes(meta["dictionary"])
    for name in (name for layout in model.layout for name in layout.names):
        for slot in range(meta["slots"] or 0):
            expected[state_name(slot, name)] = (model.shapes()[name], "f")
        for kind in (CURVATURE, SLOPE):
            if past_name(kind, name) in arrays:  # optional: large models omit them
                expected[past_name(kind, name)] = (model.shapes()[name], "f")
    if PAIR_BASIS in arrays and PAIR_VALUES in arrays:  # likewise
        directions = arrays[PAIR_VALUES].shape[-1:]
        expected[PAIR_BASIS] = ((model.outputs, columns, *directions), "f")
        expected[PAIR_VALUES] = ((model.outputs, *directions), "f8")
    kept = "half" if meta["draws"] > meta["members"] else "f"
    for number in range(meta["draws"] - 1):
        for name in model.shapes().keys() & drawn_names(model, meta["members"]):
            expected[draw_name(number, name)] = (model.shapes()[name], kept)
    if meta["occurrences"] is not None:
        counted = len(meta["frequent"])
        expected[TOGETHER] = ((counted * (counted - 1) // 2,), "i4")
        if COUNTS in arrays:  # optional: large models may omit it
            of = next((of for of in TYPES if of == arrays[COUNTS].dtype), TYPES[-1])
            expected[COUNTS] = ((columns,), of.str[1:])
    expected |= dict.fromkeys(names_of(meta["options"][SCALE]), ((columns,), "f"))
    if meta["calibration"] is not None:
        points = arrays[CALIBRATION].shape[-1] if meta["calibration"] == ISOTONIC and CALIBRATION in arrays else 0
        expected[CALIBRATION] = ((2, points) if points else (2,), "f8")
    if NOISE in arrays:  # optional: models without draws omit it
        expected[NOISE] = ((meta["draws"],), "f8")
    if PRIORS in arrays and PRIOR_GROUPS in arrays:  # optional, too
        groups = arrays[PRIOR_GROUPS].size
        expected[PRIOR_GROUPS] = ((groups,), "i4")
        expected[PRIORS] = ((meta["draws"], 2, priors_in(model, groups)), "f8")
    expected |= expected_arrays(arrays)  # optional, too
    if GROUPS in arrays:  # optional
        expected[GROUPS] = ((columns,), "i4")
    for name, (shape, kind) in expected.items():
        check_array(name, arrays, shape, kind)
        finite = arrays[name].dtype == HALF or name in (PAIR_BASIS, PAIR_VALUES)
        if finite and not np.isfinite(arrays[name]).all():
            refuse(f"the array {name} has numbers that are not finite")
    for name in expected:
        past = arrays[name] if name.startswith(f"{PAST}.") else np.zeros(0)
        if not np.isfinite(past).all() or (past < 0).any() > name.startswith(f"{PAST}.{SLOPE}."):
            refuse(f"{name} has numbers that are no {name.split('.')[1]}s")
    if CENTER in expected and not np.isfinite(arrays[CENTER]).all():
        refuse(f"the array {CENTER} has numbers that are not finite")
    if SCALE in expected and not (np.isfinite(arrays[SCALE]) & (arrays[SCALE] > 0)).all():
        refuse(f"the array {SCALE} has numbers that are not positive and finite")
    if COUNTS in expected and (arrays[COUNTS] < 0).any():
        refuse(f"the array {COUNTS} has negative numbers")
    if NOISE in expected and not (np.isfinite(arrays[NOISE]) & (arrays[NOISE] > 0)).all():
        refuse(f"the array {NOISE} has numbers that are not positive and finite")
    if PRIORS in expected and not (np.isfinite(arrays[PRIORS]).all() and (arrays[PRIORS][:, 1] > 0).all()):
        refuse(f"the array {PRIORS} has numbers that are not finite, or precisions that are not positive")
    if PRIORS in expected and not (np.diff(arrays[PRIOR_GROUPS]) > 0).all():
        refuse(f"the array {PRIOR_GROUPS} does not increase")
    if CALIBRATION in expected:
        check_calibration(arrays[CALIBRATION])
    if GROUPS in expected and (arrays[GROUPS] < NO_GROUP).any():
        refuse(f"the array {GROUPS} has numbers that are not groups")
    constants = {*model.constants}  # the model checks them when it attaches them
    if meta["members"] > 1:
        constants |= {draw_name(number, name) for number in range(meta["draws"] - 1) for name in model.constants}
    for name in arrays.keys() - expected.keys() - model.shapes().keys() - constants:
        extra = "solver state, which this model should not have" if name.startswith(STATE + ".") else "unknown"
        refuse(f"the array {quoted(name)} is {extra}")


def check_calibration(numbers: NDArray[Any]) -> None:
    """Raise BadInputError unless all numbers are finite, and points have increasing scores and nondecreasing
    probabilities."""
    is_valid = bool(np.isfinite(numbers).all())
    if is_valid and numbers.ndim > 1:
        score, probability = numbers
        rises = (np.diff(score) > 0).all() and (np.diff(probability) >= 0).all()
        is_valid = bool(rises and probability[0] >= 0 and probability[-1] <= 1)
    if not is_valid:
        refuse(f"the array {CALIBRATION} is not a valid calibration")


def check_array(name: str, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...], kind: str) -> None:
    """Raise BadInputError unless an array has this name, shape and type: u, i4 or f8 as in numpy, or a key of REALS."""
    if name not in arrays:
        refuse(f"the array {name} is missing")
    array = arrays[name]
    if array.shape != shape or not array.dtype.str[1:].startswith(REALS.get(kind, kind)):
        refuse(f"the array {name} is {array.dtype}{list(array.shape)}, but must be of shape {list(shape)}")


def refuse(what: str) -> None:
    """Raise BadInputError: the model is invalid."""
    raise BadInputError(f"is not a valid model: {what}")
