"""Features with large numbers and names as ids: from the text to the model and back."""

import random
import re

import numpy as np
import pytest

from fmcli.scoring.prediction import load_model

KINDS = ["fm", "ffm", "poly2", "lifted-anova", "hofm", "linear"]


def rows(rename, *, ffm=False, seed=1, count=400):
    """Rows of features 0 to 39, with other ids. The label depends on features 0 to 9."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        features = sorted(rng.sample(range(40), 5))
        label = sum(j < 10 for j in features) % 2
        entries = [f"{f'{j % 3}:' if ffm else ''}{rename(j)}:{rng.choice([1, 0.5, 2])}" for j in features]
        rng.shuffle(entries)
        lines.append(f"{label} {' '.join(entries)}\n")
    return "".join(lines)


RENAMES = {
    "large": lambda j: 2**40 + 1000 * j**3,
    "sparse": lambda j: 50_000_000 + 1000 * j,
    "names": lambda j: f"site=x{j:02}.com:80",
    "both": lambda j: 2**61 + j if j < 20 else f"é{j}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rename", RENAMES)
def test_renamed_ids_give_the_same_parameters(run, tmp_path, kind, rename):
    if (KINDS.index(kind) + list(RENAMES).index(rename)) % 2 and kind != "fm":
        pytest.skip("a pair of others covers it")
    ffm = kind == "ffm"
    form = "ffm" if ffm else "libsvm"
    options = ["-q", "-m", kind, "-f", form, "-e", "2"]
    (tmp_path / "t").write_text(rows(RENAMES[rename], ffm=ffm))
    (tmp_path / "plain").write_text(rows(int, ffm=ffm))
    assert run("train", *options, "-o", "m", "t").returncode == 0
    assert run("train", *options, "-j", "3", "-o", "m3", "t").returncode == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "m3").read_bytes()
    assert run("train", *options, "-o", "p", "plain").returncode == 0
    ours, theirs = load_model(str(tmp_path / "m")), load_model(str(tmp_path / "p"))
    assert ours.ids(np.arange(40)) == [RENAMES[rename](j) for j in range(40)]
    for name, array in ours.model.parameters.items():
        assert array.tobytes() == theirs.model.parameters[name].tobytes()
    one, other = run("predict", "-f", form, "m", "t"), run("predict", "-f", form, "p", "plain")
    assert one.stdout == other.stdout
    assert one.returncode == 0
    shown = run("inspect", "m").stdout.decode()
    frequent = ours.ids(ours.occurrences.features[:1])[0]
    assert re.search(rf"^{re.escape(str(frequent))} ", shown, re.M)
    text = run("export", "m", "-").stdout.decode().splitlines()
    assert text[text.index("array features 40") + 1].split() == [str(RENAMES[rename](j)) for j in range(40)]
    assert run("export", "m", "m.npz").returncode == 0
    assert (
        np.load(tmp_path / "m.npz")["features"].tolist() == [RENAMES[rename](j) for j in range(40)] or rename == "both"
    )


def test_other_ids_are_unseen(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    run("train", "-q", "-e", "1", "-o", "m", "t")
    done = run("predict", "m", input=f"1 5:1 {2**61}:1 a:1 é39:1 a:0\n1 {2**61}:1 é39:1\n".encode())
    assert "2 unseen" in done.stderr
    first, second = done.stdout.split()
    assert first == second
    done = run("predict", "--unseen", "error", "m", input=f"1 {2**61}:1\n1 {2**61}:1 é3:2\n".encode())
    assert done.returncode == 65
    assert "<stdin>:2:25: found '\\xc3\\xa93:2', expected a feature that occurred in training" in done.stderr


def test_a_warm_start_joins_dictionaries(run, tmp_path):
    """Old features keep what they have learned; new ones begin. The columns are those of all ids."""
    old, new = RENAMES["both"], lambda j: 2**61 + j - 5 if j < 20 else f"é{j + 5}"
    (tmp_path / "old").write_text(rows(old))
    (tmp_path / "new").write_text(rows(new, seed=2))
    (tmp_path / "plain").write_text(rows(int))
    run("train", "-q", "-e", "2", "-o", "m", "old")
    for begin, data in (("m", "new"), ("m", "plain"), ("p", "new")):
        run("train", "-q", "-e", "2", "-o", "p", "plain")
        done = run("train", "-e", "0", "-i", begin, "-o", "m2", data)
        assert done.returncode == 0, done.stderr
        first, second = load_model(str(tmp_path / begin)), load_model(str(tmp_path / "m2"))
        ids = second.ids(np.arange(second.model.features))
        assert ids == sorted(set(ids), key=lambda id: (isinstance(id, str), str(id) if isinstance(id, str) else id))
        places = [ids.index(id) for id in first.ids(np.arange(first.model.features))]
        assert second.model.features > len(places)
        assert (second.model.parameters["w"][:, places] == first.model.parameters["w"]).all()
        assert (second.model.parameters["V"][:, places] == first.model.parameters["V"]).all()
    assert run("train", "-q", "-e", "2", "-i", "m", "-v", "plain", "-o", "m", "new").returncode == 0


def test_validation_data_have_the_columns_of_the_training_rows(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    (tmp_path / "v").write_text(rows(RENAMES["both"], seed=2) + "1 new:1 7:1\n")
    done = run("train", "-e", "2", "-v", "v", "-o", "m", "t")
    assert done.returncode == 0
    loss = re.search(r"valid-logloss +(\S+)", done.stderr)[1]
    assert f"logloss       {loss}"[:12] in run("evaluate", "m", "v").stdout.decode()
    assert run("train", "-q", "-e", "1", "-v", "v", "-o", "m", "-", input=rows(int).encode()).returncode == 0


@pytest.mark.parametrize("kind", ["fm", "ffm", "poly2"])
def test_hashed_ids(run, tmp_path, kind):
    """Predictions and evaluation hash by themselves. Without collisions, a model learns as with a dictionary."""
    ffm = kind == "ffm"
    (tmp_path / "t").write_text(rows(RENAMES["both"], ffm=ffm))
    form = ["-f", "ffm"] if ffm else []
    for bits in ("18", "3"):
        done = run("train", "-m", kind, "--hash-bits", bits, "-e", "3", "-o", f"h{bits}", *form, "t")
        assert done.returncode == 0, done.stderr
    run("train", "-q", "-m", kind, "-e", "3", "-o", "d", *form, "t")
    assert load_model(str(tmp_path / "h3")).dimension == 8
    losses = [
        float(re.search(r"^logloss +(\S+)", run("evaluate", *form, model, "t").stdout.decode(), re.M)[1])
        for model in ("h18", "d", "h3")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[2] > losses[1]
    assert "ids" in run("inspect", "h18").stdout.decode()
    done = run("train", "--hash-bits", "17", "-i", "h18", "-o", "x", *form, "t")
    assert done.returncode == 2
    assert "h18 was trained with --hash-bits 18, so that its columns are not those of 17 bits" in done.stderr
    assert run("train", "--hash-bits", "17", "-i", "d", "-o", "x", *form, "t").returncode == 2
    assert run("train", "-q", "-e", "1", "-i", "h18", "-o", "x", *form, "t").returncode == 0
    assert load_model(str(tmp_path / "x")).hash_bits == 18


def test_an_ambiguous_format_of_names_is_refused(run):
    done = run("train", "-o", "m", "-", input=b"1 7:site=x:80:1\n")
    assert done.returncode == 65
    assert "has 3 colons, of which the last one precedes the value; use -f libsvm if" in done.stderr


def test_the_kernel_form_keeps_the_dictionary(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    run("train", "-q", "-m", "lifted-anova", "--order", "2", "-e", "1", "-o", "m", "t")
    assert run("export", "--kernel-form", "m", "k.fm").returncode == 0
    one, other = (np.array(run("predict", "--raw", name, "t").stdout.split(), float) for name in ("m", "k.fm"))
    assert one == pytest.approx(other, abs=1e-5)
