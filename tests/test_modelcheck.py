"""Untrusted model files: an invalid file is refused before it is used, with a message without control characters."""

import copy

import numpy as np
import pytest
from modelfiles import FEATURES, read, write

import fmcli
from fmcli.base.rules import LONGEST_TEXT
from fmcli.data.counts.occurrences import COUNTS, TOGETHER, TYPES
from fmcli.errors import BadInputError
from fmcli.inspect.inspection import inspect_model, views
from fmcli.model_file.check import ENTRIES
from fmcli.model_file.container import ModelFile, save
from fmcli.model_file.state import PAST
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.scoring.scorer import load_model, scorer_of

# One kind of each module of models.
KINDS = {entry.path.partition(":")[0]: name for name, entry in MODELS.items()}.values()
ESCAPE = "\x1b[31m"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A function that returns a small model file of a kind, with solver state."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def file(kind):
        if kind not in made:
            path = str(folder / kind)
            write(path, kind, loss="squared" if MODELS[kind].closed_form else "softmax", keep_state=True)
            made[kind] = read(path)
        return ModelFile(copy.deepcopy(made[kind].meta), dict(made[kind].tensors))

    return file


def refusal(file):
    """Return the error message for an invalid file."""
    with pytest.raises(BadInputError) as caught:
        scorer_of("m.fm", file)
    message = str(caught.value)
    assert message.startswith("m.fm: is not a valid model: ")
    assert message.isprintable()
    assert len(message) < 300
    return message


@pytest.mark.parametrize("kind", MODELS)
def test_what_was_saved_is_valid(files, kind):
    assert scorer_of("m.fm", files(kind)).model.features == FEATURES


def test_options_of_a_newer_version_are_named(files):
    file = files("fm")
    file.meta["tool"] = "fmcli 9.1.0"
    file.meta["options"] |= {"field_order": 3, "warp": True}
    with pytest.raises(BadInputError) as caught:
        scorer_of("m.fm", file)
    assert str(caught.value) == (
        "m.fm: was written by fmcli 9.1.0, whose options 'field_order', 'warp' fmcli "
        f"{fmcli.__version__} does not know: upgrade fmcli"
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tool", f"fmcli {ESCAPE}", "printable"),
        ("tool", "x" * (LONGEST_TEXT + 1), "printable text of at most"),
        ("tool", 3, "printable"),
        ("model", ESCAPE, r"model is '\x1b[31m'; it must be"),
        ("model", ["fm"], "model is a list of 1"),
        ("solver", "newton", "solver is 'newton'"),
        ("loss", None, "loss is None"),
        ("features", -1, "features is -1"),
        ("features", 2**31, "features"),
        ("features", 6.0, "features is 6.0"),
        ("features", True, "features is True"),
        ("outputs", 1, "outputs is 1, but its labels need 3"),
        ("outputs", 0, "outputs is 0"),
        ("fields", -1, "fields is -1"),
        ("labels", list(range(3000)), "outputs is 3, but its labels need 3000"),
        ("labels", [0, 2, 1], "increasing numbers"),
        ("labels", [0, 1, 1], "increasing numbers"),
        ("labels", [], "increasing numbers"),
        ("labels", ["0", "2", "1"], "increasing numbers"),
        ("labels", ["0", 1, 2], "increasing numbers"),
        ("labels", ["a", "b", "c\n"], "increasing numbers"),
        ("labels", ["a b", "b", "c"], "increasing numbers"),
        ("labels", [0, 1, float("inf")], "increasing numbers"),
        ("labels", None, "0 label values do not fit loss softmax"),
        ("slots", 99, "slots is 99"),
        ("slots", -1, "slots is -1"),
        ("slots", 2, "the array state.1.bias is missing"),
        ("slots", None, "is solver state, which this model should not have"),
        ("updates", 10**400, "updates is 1000"),
        ("updates", -1, "updates is -1"),
        ("epochs", -1, "epochs is -1"),
        ("given", ["rank", "rank"], "given is a list of 2"),
        ("given", [ESCAPE], "given is a list of 1"),
        ("norm_of_all", 1, "norm_of_all is 1; it must be true or false"),
        ("norm_of_all", True, "it has no norm or no fields, or scales columns"),
        ("given", ["warp"], "given names 'warp', which is not one of its options"),
        ("format", "csv", "format is 'csv'"),
        ("frequent", [[-1, 0]], "frequent is a list of 1"),
        ("frequent", [[0, -1]], "frequent is a list of 1"),
        ("frequent", [[FEATURES, 0]], "index of a frequent feature"),
        ("frequent", [[0, 0], [0, 0]], "frequent is a list of 2"),
        ("frequent", [0], "frequent is a list of 1"),
        ("frequent", [[j, 0] for j in range(101)], "frequent is a list of 101"),
        ("training", {"loss": {"a": {"b": {"c": 1}}}}, "figures by name"),
        ("training", {ESCAPE: 1}, "figures by name"),
        ("training", {"loss": ESCAPE}, "figures by name"),
        ("training", [], "figures by name"),
        ("options", {}, "which is not one of its options"),
        ("unheard_of", 1, "is unknown"),
        (ESCAPE, 1, "is unknown"),
    ],
)
def test_entries(files, name, value, message):
    file = files("hofm")
    file.meta[name] = value
    assert message in refusal(file)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_entries_that_are_missing(files, name):
    file = files("fm")
    del file.meta[name]
    assert f"{name} is missing" in refusal(file)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *(("hofm", "order", order) for order in (3000, 10**12, "3", 3.0, 4)),
        *(("hofm", "rank", rank) for rank in ([2], [2, "1"], [2, 0], [2, [1]], 2**40)),
        *(("fm", "rank", rank) for rank in ([2, 2], 0, None)),
        *(
            ("fm", name, value)
            for name, value in (("bias", 1), ("norm", "no"), ("l1", float("inf")), ("epochs", [[1]]))
        ),
        *(("poly2", "pair_bits", bits) for bits in (0, 64)),
        ("lifted-anova", "order", 9),
        *(("kernel-basis", name, value) for name, value in (("order", 10**12), ("kernel", "rbf"), ("coef0", "1"))),
        *(("llfm", "anchor_rate", rate) for rate in (None, -0.5)),
        *(("llfm", name, value) for name, value in (("anchors", -3), ("llfm_variant", 1))),
    ],
)
def test_options(files, kind, name, value):
    file = files(kind)
    file.meta["options"][name] = value
    refusal(file)


@pytest.mark.parametrize("kind", ["poly2", "lifted-anova", "llfm", "ffm", "pn"])
def test_models_under_another_name(files, kind):
    for other in ("fm", "hofm-simplex", "kernel-basis"):
        file = files(kind)
        file.meta["model"] = other
        refusal(file)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_another_shape_or_type(files, kind):
    for name, array in files(kind).tensors.items():
        others = [None, array[:-1], np.concatenate([array, array]), array[None], array.reshape(-1)[:0]]
        others += [array.astype(dtype) for dtype in (np.uint8, np.int32, np.int64) if array.dtype != dtype]
        for other in others:
            file = files(kind)
            if other is not None and other.shape == array.shape and other.dtype == array.dtype:
                continue  # the array has only one row
            if name == COUNTS and (other is None or (other.shape == array.shape and other.dtype in TYPES)):
                continue  # large models lack them
            if name.startswith(f"{PAST}.") and other is None:
                continue  # likewise
            if other is None:
                del file.tensors[name]
            else:
                file.tensors[name] = np.ascontiguousarray(other)
            refusal(file)


def with_dictionary(files, numbers=(1, 5, 2**40), names=b"abcde", ends=(1, 3, 5)):
    """A file whose six features have ids."""
    file = files("fm")
    file.meta["dictionary"] = {"numbers": len(numbers), "names": len(ends), "bytes": len(names), "shared": False}
    file.tensors |= {
        "ids": np.array(numbers, np.int64),
        "names": np.frombuffer(names, np.uint8),
        "name_ends": np.array(ends, np.int64),
    }
    return file


def test_a_dictionary(files):
    scorer = scorer_of("m.fm", with_dictionary(files))
    assert scorer.ids(np.arange(FEATURES)) == [1, 5, 2**40, "a", "bc", "de"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"numbers": numbers} for numbers in ((1, 1, 2), (-1, 1, 2), (2**63 - 1, -(2**63), 2), (1, 5))),
        *({"ends": ends} for ends in ((0, 3, 5), (3, 1, 5), (1, 3, 4), (1, 3, 6), (1, 3, 2**62), (-5, 3, 5))),
        *({"names": names} for names in (b"bcabc", b"aabab", b"a cde", b"a\ncde", b"")),
    ],
)
def test_a_dictionary_that_is_not_valid(files, wrong):
    refusal(with_dictionary(files, **wrong))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dictionary", {"numbers": 3, "names": 3}),
        ("dictionary", {"numbers": 3, "names": 3, "bytes": -1, "shared": False}),
        ("dictionary", {"numbers": 6, "names": 0, "bytes": 5, "shared": False}),
        ("dictionary", {"numbers": 3, "names": 3, "bytes": 5, "shared": True}),
        ("dictionary", {"numbers": 3, "names": 3, "bytes": 5, "shared": 0}),
        ("dictionary", None),
        ("hash", {"name": "murmur64a", "bits": 3}),
        ("hash", {"name": "md5", "bits": 3}),
        ("hash", {"name": "murmur64a", "bits": 31}),
        ("columns", 6),
    ],
)
def test_entries_of_ids_that_are_not_valid(files, name, value):
    file = with_dictionary(files)
    file.meta[name] = value
    refusal(file)


@pytest.mark.parametrize("name", ["ids", "names", "name_ends"])
def test_arrays_of_a_dictionary_of_another_shape_or_type(files, name):
    for change in (None, lambda array: array[:-1], lambda array: array[None], lambda array: array.astype(np.int32)):
        file = with_dictionary(files)
        if change is None:
            del file.tensors[name]
        else:
            file.tensors[name] = change(file.tensors[name])
        refusal(file)


def test_arrays_that_nobody_asked_for(files):
    for name in ("w2", "state.5.V", ESCAPE):
        file = files("fm")
        file.tensors[name] = np.zeros(1)
        assert "the array" in refusal(file)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("kernel-basis", "landmarks.indptr", np.iinfo(np.int64).max),
        ("kernel-basis", "landmarks.indptr", np.iinfo(np.int64).min),
        ("kernel-basis", "landmarks.row", -1),
        ("kernel-basis", "landmarks.row", 1000),
        ("bilinear", "group", 2),
        ("bilinear", "group", -2),
    ],
)
def test_arrays_that_point_elsewhere(files, kind, name, value):
    file = files(kind)
    file.tensors[name] = file.tensors[name].copy()
    file.tensors[name][2] = value
    refusal(file)


def test_fields_without_features(files):
    """Without features, no array in the file shows the number of fields."""
    file = files("ffm")
    file.meta |= {"features": 0, "columns": None, "fields": 2**31, "frequent": [], "occurrences": None, "slots": None}
    file.tensors = {}
    assert "fields, but no features" in refusal(file)


def test_numbers_of_the_other_real_type_may_be_too_large(files, tmp_path):
    """They become infinite, without a warning from NumPy."""
    file = files("fm")
    file.meta["slots"] = None
    file.tensors = {
        name: np.full(array.shape, 1e300) if array.dtype.kind == "f" else array
        for name, array in file.tensors.items()
        if not name.startswith("state")
    }
    save(str(tmp_path / "m"), file)
    assert load_model(str(tmp_path / "m")).model.parameters["w"][0, 0] > 1e30


def test_every_option_is_checked_by_its_range(files):
    for kind in ("fm", "llfm", "kernel-basis"):
        for name, value in files(kind).meta["options"].items():
            for other in ("text", [1], -1.5, {}):
                if other == value or (OPTIONS[name].low is None and OPTIONS[name].kind is float and other == -1.5):
                    continue
                file = files(kind)
                file.meta["options"][name] = other
                refusal(file)


def test_files_that_do_not_count_pairs(files, tmp_path):
    """As of imported models: every pair is listed, with an unknown number of rows."""
    file = files("fm")
    file.meta["occurrences"] = None
    del file.tensors[TOGETHER], file.tensors[COUNTS]
    save(str(tmp_path / "m"), file)
    found = {view.name: shown for view, shown in views(inspect_model(str(tmp_path / "m")))}
    assert {row["rows"] for row in found["pairs"] + found["frequent"]} == {None}
    assert found["model"]["pair_rows"] is None


def test_files_that_count_the_most_frequent_features_alone(files, tmp_path):
    """Files of large models: the numbers of rows of the other features are unknown."""
    file = files("fm")
    del file.tensors[COUNTS]
    file.meta["frequent"], file.meta["occurrences"]["rows"] = file.meta["frequent"][:2], [5, 4]
    file.tensors[TOGETHER] = np.array([3], dtype=np.int32)
    save(str(tmp_path / "m"), file)
    found = {view.name: shown for view, shown in views(inspect_model(str(tmp_path / "m")))}
    known = dict(zip([feature for feature, _ in file.meta["frequent"]], [5, 4], strict=True))
    assert {row["feature"]: row["rows"] for row in found["weights"]} == {
        row["feature"]: known.get(row["feature"]) for row in found["weights"]
    }


def test_counts_are_not_negative(files):
    file = files("fm")
    file.tensors[COUNTS] = -file.tensors[COUNTS].astype(np.int32)
    assert "the array counts has negative numbers" in refusal(file)


@pytest.mark.parametrize(
    "counts",
    [
        {"rows": [], "looked_at": 12},
        {"rows": [-1] * FEATURES, "looked_at": 12},
        {"rows": [1] * FEATURES},
        {"rows": [1] * FEATURES, "looked_at": "12"},
        [1],
    ],
)
def test_counts_of_features(files, counts):
    file = files("fm")
    file.meta["occurrences"] = counts
    refusal(file)
