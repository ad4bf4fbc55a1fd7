"""Models of libFM, libffm and xLearn: imported ones predict as their definitions say, exported ones are read back as
these programs read them, and files that are not valid are refused with their lines."""

import itertools
import random
import struct
from typing import get_args

import foreign_models as theirs
import forging_foreign
import numpy as np
import pytest
from foreign_models import BIAS, F4, FIELDED, ROWS, F, V, W, logistic, probit, score_ffm, score_fm

import fmcli
from fmcli.api import model as model_module
from fmcli.api import opening
from fmcli.cli import export as export_command
from fmcli.cli import importing as importing_command
from fmcli.errors import BadInputError, UsageError
from fmcli.exchange import exporting, importing
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS

pytestmark = pytest.mark.filterwarnings("ignore:the model does not predict well")  # nor need it

TOLERANCE = 2e-6  # of parameters that are floats


def same(score):
    return score


FM_FILES = {
    "libFM": (theirs.libfm(), {"loss": "squared"}, same),
    "libFM by sgd": (theirs.libfm(), {"loss": "logistic"}, logistic),
    "libFM by als": (theirs.libfm(), {"loss": "probit"}, probit),
    "libFM, clipped": (theirs.libfm(), {"loss": "squared", "clip": (-1, 1)}, lambda score: min(max(score, -1), 1)),
    "libFM, Windows": (theirs.libfm().replace(b"\n", b"\r\n") + b"\r\n", {"loss": "squared"}, same),
    "xLearn": (theirs.xlearn(V=V), {"loss": "squared", "norm": False}, same),
    "xLearn, Windows": (theirs.xlearn(V=V).replace(b"\n", b"\r\n"), {"loss": "logistic", "norm": False}, logistic),
}


@pytest.mark.parametrize("name", FM_FILES)
def test_an_imported_fm_predicts_by_the_definition(name, tmp_path):
    file, choices, link = FM_FILES[name]
    (tmp_path / "m").write_bytes(file)
    model = fmcli.import_model(tmp_path / "m", **choices)
    found = model.predict(theirs.written(tmp_path / "rows", ROWS))
    np.testing.assert_allclose(found, [link(score_fm(row)) for row in ROWS], rtol=TOLERANCE, atol=TOLERANCE)
    assert (model.kind, model.options["rank"], model.summary["imported_from"]) == ("fm", 3, name.split()[0].strip(","))


@pytest.mark.parametrize(
    ("bias", "w", "factors"), list(itertools.product([BIAS, None], [W, None], [V, [[x] for x in W], None]))
)
def test_parts_that_libfm_leaves_out_are_left_out(bias, w, factors, tmp_path):
    """As by -dim 0,1,3 and the like."""
    (tmp_path / "m").write_bytes(theirs.libfm(bias, w, factors or [[]] * len(W)))
    model = fmcli.import_model(tmp_path / "m", "libfm", loss="squared")
    if factors is None and w is None:  # only a bias, or nothing
        assert not model.parameters["w"].any()
    found = model.predict(theirs.written(tmp_path / "rows", ROWS))
    expected = [score_fm(row, bias, w or [0.0] * len(W), factors) for row in ROWS]
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert model.kind == ("fm" if factors else "linear")
    assert ("bias" in model.parameters) == (bias is not None)


FFM_FILES = {
    "text": (theirs.libffm_text, F),
    "with SSE": (theirs.libffm, F),
    "without SSE": (lambda V, norm: theirs.libffm(V, norm, block=1), F),
    "full blocks with SSE": (theirs.libffm, F4),
    "full blocks without SSE": (lambda V, norm: theirs.libffm(V, norm, block=1), F4),
}


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("name", FFM_FILES)
def test_an_imported_ffm_predicts_by_the_definition(name, norm, tmp_path):
    """Unknown features count in the norm, as do features of unknown fields."""
    make, factors = FFM_FILES[name]
    (tmp_path / "m").write_bytes(make(factors, norm))
    model = fmcli.import_model(tmp_path / "m")
    path = theirs.written(tmp_path / "rows", FIELDED)
    expected = [logistic(score_ffm(row, factors, norm)) for row in FIELDED]
    np.testing.assert_allclose(model.predict(path), expected, rtol=TOLERANCE)
    model.save(tmp_path / "m.fm")
    again = fmcli.load(tmp_path / "m.fm")
    np.testing.assert_array_equal(again.predict(path), model.predict(path))
    matrix = np.zeros((1, 101))  # in memory, too
    matrix[0, [1, 2, 100]] = 1.0, 2.0, 2.5
    fields = [0, 0, *[1] * 99]
    np.testing.assert_allclose(again.predict(matrix, fields=fields), [expected[3]], rtol=TOLERANCE)


@pytest.mark.parametrize("norm", [None, True, False])
def test_an_imported_ffm_of_xlearn_predicts_by_the_definition(norm, tmp_path):
    (tmp_path / "m").write_bytes(theirs.xlearn(w=W[:3], V=F))
    model = fmcli.import_model(tmp_path / "m", loss="squared", norm=norm)
    expected = [score_ffm(row, F, norm is not False, BIAS, W) for row in FIELDED]
    np.testing.assert_allclose(
        model.predict(theirs.written(tmp_path / "rows", FIELDED)), expected, rtol=TOLERANCE, atol=TOLERANCE
    )


def test_a_linear_model_of_xlearn_scales_no_rows(tmp_path):
    (tmp_path / "m").write_bytes(theirs.xlearn())
    model = fmcli.import_model(tmp_path / "m", loss="squared", norm=True)
    found = model.predict(theirs.written(tmp_path / "rows", ROWS))
    np.testing.assert_allclose(found, [score_fm(row, V=None) for row in ROWS], rtol=TOLERANCE)


def test_the_norm_of_an_imported_model_is_that_of_a_row_in_evaluate_too(tmp_path):
    (tmp_path / "m").write_bytes(theirs.libffm())
    path = theirs.written(tmp_path / "rows", FIELDED)
    measured = fmcli.import_model(tmp_path / "m").evaluate(path, ["brier"])["brier"]
    np.testing.assert_allclose(measured, np.mean([(1 - logistic(score_ffm(row))) ** 2 for row in FIELDED]), rtol=1e-5)


def test_a_training_run_continues_with_adagrads_sums_of_libffm(tmp_path):
    """One row, one step: v <- v - r g / sqrt(G + g^2), where the file has G."""
    (tmp_path / "m").write_bytes(theirs.libffm(norm=False, square=2.5))
    (tmp_path / "row").write_text("1 0:0:1 1:1:2\n0 9:9:1\n")  # the second row has no pair
    theirs_before = fmcli.import_model(tmp_path / "m")
    model = fmcli.train(tmp_path / "row", init_model=theirs_before, learning_rate=0.2, l2=0, epochs=1, holdout=0)
    a, b = np.array(F[0][1]), np.array(F[1][0])
    slope = logistic(2 * a @ b) - 1
    expected = a - 0.2 * slope * 2 * b / np.sqrt(2.5 + (slope * 2 * b) ** 2)
    np.testing.assert_allclose(model.parameters["V"][0, 0, 1], expected, rtol=1e-5)


# Exports, and back.


def trained(kind, tmp_path, **options):
    """A model whose parameters have all digits."""
    rng = np.random.default_rng(5)
    rows = ["".join(f" {f}:{f * 4 + rng.integers(4)}:{rng.random():.3f}" for f in range(3)) for _ in range(40)]
    label = [int(rng.random() < 0.5) for _ in rows]
    (tmp_path / "train").write_text("".join(f"{y}{row}\n" for y, row in zip(label, rows, strict=True)))
    return fmcli.train(
        str(tmp_path / "train"), model=kind, **{"epochs": 2, "holdout": 0, "quick_search": False, **options}
    )


PURE = {"bias": False, "linear": False}
EXPORTS = {
    "fm": ("libfm", {}),
    "fm without weights": ("libfm", {"linear": False}),
    "fm without bias": ("libfm", {"bias": False}),
    "glfm": ("libfm", {"rank": 2}),
    "linear": ("libfm", {}),
    "ffm": ("libffm", PURE),
    "ffm of rank 8": ("libffm", {**PURE, "rank": 8}),
    "ffm of rank 4": ("libffm-no-sse", PURE),
    "ffm of rank 3": ("libffm-text", {**PURE, "rank": 3, "norm": False}),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_exported_model_comes_back_to_the_bit(name, tmp_path):
    to, options = EXPORTS[name]
    kind = name.split()[0]
    model = trained(kind, tmp_path, **options)
    model.export(tmp_path / "theirs", to=to)
    again = fmcli.import_model(tmp_path / "theirs", loss="logistic")
    assert again.kind == {"glfm": "fm"}.get(kind, kind)
    assert again.parameters.keys() == model.parameters.keys()
    for array, before in model.parameters.items():
        assert again.parameters[array].tobytes() == before.tobytes(), array
    assert again.options["norm"] == model.options["norm"]
    rows = str(tmp_path / "train")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def loaded_by_libfm(text, features, bias, weights, factors):
    """The numbers that libFM's -load_model finds, line by line, with the sizes that its -dim says."""
    lines = iter(text.decode().split("\n"))
    found = {"bias": 0.0, "w": [], "V": []}
    if bias:
        next(lines)
        found["bias"] = float(next(lines))
    if weights:
        next(lines)
        found["w"] = [float(next(lines)) for _ in range(features)]
    next(lines)
    for _ in range(features):
        line = next(lines)
        parts = line.split(" ") if " " in line else []  # it finds parts by the blanks between them
        assert len(parts) == factors
        found["V"].append([float(part) for part in parts])
    assert list(lines) == [""]
    return found


@pytest.mark.parametrize(("kind", "rank", "factors"), [("fm", 5, 5), ("fm", 1, 2), ("linear", None, 0)])
def test_libfm_reads_the_very_numbers(kind, rank, factors, tmp_path):
    """An FM of rank 1 gets a second factor of 0: libFM takes a single one for none."""
    model = trained(kind, tmp_path, **({"rank": rank} if rank else {}))
    model.export(tmp_path / "m", to="libfm")
    found = loaded_by_libfm((tmp_path / "m").read_bytes(), 12, True, True, factors)
    arrays = {name: array.astype(float)[0] for name, array in model.parameters.items()}
    assert found["bias"] == arrays["bias"]
    assert found["w"] == arrays["w"].tolist()
    assert np.array(found["V"]).reshape(12, -1)[:, : rank or 0].tolist() == arrays.get("V", np.zeros((12, 0))).tolist()
    assert not any(number for row in found["V"] for number in row[rank or 0 :])


def test_libffm_finds_parameters_where_it_expects_them(tmp_path):
    model = trained("ffm", tmp_path, rank=6, **PURE)
    model.export(tmp_path / "m", to="libffm")
    file = (tmp_path / "m").read_bytes()
    assert struct.unpack_from("<iii?", file) == (12, 3, 6, True)
    numbers = struct.unpack(f"<{(len(file) - 13) // 4}f", file[13:])
    V = model.parameters["V"][0]
    assert len(numbers) == 12 * 3 * 8 * 2
    for j, f, d in itertools.product(range(12), range(3), range(8)):
        at = (j * 3 + f) * 16 + (d // 4) * 8 + d % 4
        assert numbers[at] == (np.float32(V[j, f, d]) if d < 6 else 0)
        assert numbers[at + 4] == 1


def test_features_without_parameters_are_zeros(tmp_path):
    (tmp_path / "rows").write_text("1 0:2:1 1:9:1\n0 0:5:1 1:9:2\n" * 4)
    model = fmcli.train(str(tmp_path / "rows"), model="ffm", epochs=1, holdout=0, **PURE)
    model.export(tmp_path / "m", to="libffm")
    again = fmcli.import_model(tmp_path / "m").parameters["V"]
    assert again.shape == (1, 10, 2, 4)
    assert again[0, [2, 5, 9]].any(axis=(1, 2)).all()
    assert not np.delete(again[0], [2, 5, 9], axis=0).any()


REFUSED = {
    "is of kind anova, not linear or fm": ("libfm", "anova", {}),
    "is of kind ffm, not linear or fm": ("libfm", "ffm", {}),
    "is of kind fm, not ffm": ("libffm", "fm", {}),
    "is of loss hinge, not squared, huber, logistic or soft-logistic": ("libfm", "fm", {"loss": "hinge"}),
    "is of loss squared, not logistic or soft-logistic": ("libffm-text", "ffm", {"loss": "squared", **PURE}),
    "has 2 classes": ("libfm", "fm", {"loss": "softmax"}),
    "scales columns": ("libfm", "linear", {"scale": "standard"}),
    "scales rows to unit length": ("libfm", "fm", {"norm": True}),
    "has a bias": ("libffm", "ffm", {"linear": False}),
    "has linear weights": ("libffm", "ffm", {"bias": False}),
    "has 2 draws|draws of all parameters": ("libfm", "fm", {"solver": "mcmc", "draws": 2, "epochs": 4, "burn_in": 1}),
    "has calibrated probabilities": ("libfm", "fm", {"calibrate": "platt"}),
    "is an ensemble of 2 models": ("libfm", "fm", {"ensemble": 2}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_a_form_cannot_have_is_refused_by_name(message, tmp_path):
    to, kind, options = REFUSED[message]
    model = trained(kind, tmp_path, **options)
    with pytest.raises(UsageError, match=message):
        model.export(tmp_path / "m", to=to)
    assert not (tmp_path / "m").exists()


def test_names_are_refused(tmp_path):
    model = fmcli.train(([{"a": 1.0}, {"b": 1.0}] * 5, [0, 1] * 5), epochs=1, holdout=0)
    with pytest.raises(UsageError, match="has a dictionary of names, which a model of libFM cannot have"):
        model.export(tmp_path / "m", to="libfm")


# Files that are not valid.

FM_TEXT, FFM_TEXT, X_TEXT = theirs.libfm(), theirs.libffm_text(), theirs.xlearn(V=V)
INVALID = {
    "empty": (b"", r"m: is empty"),
    "other": (b"1 0:1 1:2\n", r"m: is not a model of libFM, libffm or xLearn"),
    "binary xLearn": (struct.pack("<Q", 3) + b"ffm" + bytes(40), r"m: is a binary model of xLearn"),
    "short fm": (FM_TEXT[: FM_TEXT.index(b"#pair")], r"m:8: the file ends here, expected #pairwise .*truncated"),
    "short factors": (
        FM_TEXT.rsplit(b"\n", 2)[0] + b"\n",
        r"m:12: the file ends here, expected the factors of feature 3",
    ),
    "long fm": (FM_TEXT + b"1 2 3\n", r"m:13:1: found '1 2 3', expected the end of the file after the factors of 4"),
    "bias": (FM_TEXT.replace(b"0.25\n", b"none\n", 1), r"m:2:1: found 'none', expected a number of at most"),
    "nan": (FM_TEXT.replace(b"-1.25\n", b"nan\n"), r"m:5:1: found 'nan', expected a number"),
    "inf": (FM_TEXT.replace(b"1.5 0.125", b"1.5 -inf"), r"m:10:5: found '-inf', expected a number"),
    "huge": (FM_TEXT.replace(b"1.5 0.125", b"1.5 1e999"), r"m:10:5: found '1e999', expected a number"),
    "underscore": (FM_TEXT.replace(b"-1.25", b"1_25"), r"m:5:1: found '1_25', expected a number"),
    "two biases": (FM_TEXT.replace(b"0.25\n", b"0.25 1\n", 1), r"m:2:1: found '0.25 1', expected one number"),
    "uneven": (FM_TEXT.replace(b"1.5 0.125", b"1.5"), r"m:10:1: found '1.5 -0.5', expected 3 numbers"),
    "heading": (
        FM_TEXT.replace(b"#pairwise", b"#pair"),
        r"m:8:1: found '#pair int.*', expected #pairwise interactions",
    ),
    "no features": (b"#global bias W0\n1\n#pairwise interactions Vj,f\n", r"m:4: the file ends here"),
    "sizes": (FFM_TEXT.replace(b"m 2", b"m 0"), r"m:2:1: found 'm 0', expected m and a whole number from 1 to"),
    "huge sizes": (FFM_TEXT.replace(b"n 3", b"n 99999999999"), r"m:1:1: found 'n 99999999999', expected n and a whole"),
    "more sizes": (FFM_TEXT.replace(b"n 3", b"n 2147483647"), r"m:11: the file ends here, expected w3,0 and 3 numbers"),
    "normalization": (FFM_TEXT.replace(b"ion 1", b"ion 2"), r"m:4:1: found 'normalization 2', expected normalization"),
    "order": (FFM_TEXT.replace(b"w1,0", b"w1,1"), r"m:7:1: found 'w1,1 .*', expected w1,0 and 3 numbers"),
    "more k": (FFM_TEXT.replace(b"k 3", b"k 4"), r"m:5:1: found 'w0,0 .*', expected w0,0 and 4 numbers"),
    "names": (X_TEXT.replace(b"i_2", b"i_3"), r"m:4:1: found 'i_3: 0', expected i_2: and one number"),
    "short xLearn": (X_TEXT[: X_TEXT.index(b"v_3")], r"m:9: the file ends here, expected v_3: and 3 numbers"),
    "no factors": (
        X_TEXT.replace(b"v_1: 1.5 0.125 -0.5", b"v_1:"),
        r"m:7:1: found 'v_1:', expected v_1: and 3 numbers",
    ),
    "after": (X_TEXT + b"v_4: 1 2 3\n", r"m:10:1: found 'v_4: 1 2 3', expected the end of the file"),
    "no weights": (b"bias: 1\n", r"m:2: the file ends here, expected i_0: and one number"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_files_are_refused_with_their_line(name, tmp_path):
    file, message = INVALID[name]
    (tmp_path / "m").write_bytes(file)
    with pytest.raises(BadInputError, match=message):
        fmcli.import_model(tmp_path / "m", loss="logistic", norm=False if b"bias:" in file else None)


BINARY = theirs.libffm()
WRONG_BINARY = {
    "truncated": (
        BINARY[:-4],
        r"m: is truncated, or not a model of libffm: 3 features, 2 fields and 3 factors take 205 b",
    ),
    "longer": (
        BINARY + b"\0",
        r"m: is not a model of libffm: 3 features, 2 fields and 3 factors take 205 bytes, but the",
    ),
    "head": (BINARY[:12], r"m: is not a model of libffm, or truncated: 12 bytes"),
    "negative": (
        struct.pack("<i", -3) + BINARY[4:],
        r"m: is not a model of libffm: it begins neither as text nor with",
    ),
    "flag": (BINARY[:12] + b"\2" + BINARY[13:], r"m: is not a model of libffm: it begins neither as text"),
    "huge": (struct.pack("<iii?", *[2**31 - 1] * 3, True) + bytes(99), r"m: is truncated, or not a model of libffm"),
    "nan": (
        BINARY[:13] + struct.pack("<f", np.nan) + BINARY[17:],
        r"m: is not a valid model of libffm: it has numbers",
    ),
    "sums": (theirs.libffm(square=-1.0), r"m: is not a valid model of libffm: .* squared gradients below 1"),
    "alike": (
        theirs.libffm([[[1.0] * 4]]),
        r"m: is not a valid model of libffm: .* cannot be told from its parameters",
    ),
}


@pytest.mark.parametrize("name", WRONG_BINARY)
def test_wrong_binary_files_of_libffm_are_refused(name, tmp_path):
    file, message = WRONG_BINARY[name]
    (tmp_path / "m").write_bytes(file)
    with pytest.raises(BadInputError, match=message):
        fmcli.import_model(tmp_path / "m", "libffm")


WRONG_CHOICES = [
    (FM_TEXT, {}, "does not say what its scores mean; use loss='squared' for regression; use loss='logistic'"),
    (FM_TEXT, {"loss": "hinge"}, "there is no loss of other programs 'hinge'"),
    (FM_TEXT, {"loss": "logistic", "clip": (1, 5)}, "only models of loss squared clip predictions; leave out clip"),
    (FM_TEXT, {"loss": "squared", "labels": (0, 1)}, "predict numbers, not labels; leave out labels"),
    (FM_TEXT, {"loss": "squared", "clip": (5, 1)}, "5 and 1 are not two finite numbers, the smaller one first; see"),
    (FM_TEXT, {"loss": "squared", "norm": True}, "this model of libFM does not scale rows to unit length"),
    (FM_TEXT, {"loss": "squared", "tool": "libfn"}, "there is no tool 'libfn'; did you mean libfm"),
    (FFM_TEXT, {"loss": "squared"}, "libffm has no models of loss squared; use loss='logistic'"),
    (FFM_TEXT, {"norm": False}, "this model of libffm scales rows to unit length; use norm=True"),
    (X_TEXT, {"loss": "probit"}, "xLearn has no models of loss probit"),
    (X_TEXT, {"loss": "squared"}, "by the fourth power of the length of a row, which no model here does; use norm=F"),
    (X_TEXT, {"loss": "squared", "norm": True}, "by the fourth power of the length of a row"),
]


@pytest.mark.parametrize(("file", "choices", "message"), WRONG_CHOICES)
def test_choices_that_do_not_fit_a_file_are_refused(file, choices, message, tmp_path):
    (tmp_path / "m").write_bytes(file)
    with pytest.raises(UsageError) as error:
        fmcli.import_model(tmp_path / "m", **choices)
    assert message in str(error.value)


def test_every_loss_is_one_that_a_form_has_or_has_not():
    """A new loss or kind needs a decision: the lists have exactly the ones that other programs predict alike."""
    listed = {loss for form in exporting.FORMS.values() for loss in form.losses}
    assert {name for name, loss in LOSSES.items() if loss.link.endswith(":LOGIT")} <= listed
    assert {LOSSES[name].task for name in listed} == {"real", "binary", "soft"}
    assert {kind for kind in MODELS if exporting.family(kind) == "fm"} == {"fm", "sglfm", "glfm", "l1fm"}


def test_the_command_and_python_have_the_same_names():
    """They are repeated where imports would be slow, and where types need them."""
    for names, others, literal in (
        (importing.TOOLS, importing_command.TOOLS, opening.Tool),
        (exporting.FORMS, export_command.FORMS, model_module.Form),
    ):
        assert tuple(names) == others == get_args(literal)


def test_changed_files_are_refused_or_read(tmp_path):
    """A random change of a valid file never ends in another way."""
    counts = dict.fromkeys(("refused", "imported"), 0)
    files = forging_foreign.corpus()
    for case in range(400):
        rng = random.Random(case)
        outcome = forging_foreign.use(forging_foreign.changed(rng, rng.choice(files)), tmp_path / "m")
        counts[outcome.kind] += 1
    assert min(counts.values()) > 20
