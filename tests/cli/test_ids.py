"""Features with large numbers and names as ids: from the text to the model and back."""

import random
import re

import numpy as np
import pytest

import fmcli
from fmcli.scoring.scorer import load_model


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


OTHERS = [("ffm", "large"), ("ffm", "both"), ("poly2", "sparse"), ("lifted-anova", "names"), ("hofm", "both")]


@pytest.mark.parametrize(("kind", "rename"), [*(("fm", rename) for rename in RENAMES), *OTHERS])
def test_renamed_ids_give_the_same_parameters(run, tmp_path, kind, rename):
    ffm = kind == "ffm"
    form = "ffm" if ffm else "libsvm"
    options = ["-q", "-m", kind, "-f", form, "-e", "2"]
    (tmp_path / "t").write_text(rows(RENAMES[rename], ffm=ffm))
    (tmp_path / "plain").write_text(rows(int, ffm=ffm))
    run.ok("train", *options, "-o", "m", "t")
    run.ok("train", *options, "-j", "3", "-o", "m3", "t")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "m3").read_bytes()
    run.ok("train", *options, "-o", "p", "plain")
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
    run.ok("export", "m", "m.npz")
    if rename != "both":
        assert np.load(tmp_path / "m.npz")["features"].tolist() == [RENAMES[rename](j) for j in range(40)]


def test_another_kind_that_is_chosen_knows_the_ids(run, rng, tmp_path):
    x = rng.uniform(-1, 1, (150, 2))
    rows = [(abs(u + 0.3 * v) < 0.4, u, v) for u, v in x]
    for name, second in {"plain": 1, "t": 100_000}.items():
        (tmp_path / name).write_text("".join(f"{y:d} 0:{u:.3f} {second}:{v:.3f}\n" for y, u, v in rows))
        log = run.ok("train", "--auto", "-e", "5", "-o", f"{name}.fm", name).stderr
        assert "model fm, " not in log
    fmcli.train(tmp_path / "t", auto=True, epochs=5).save(tmp_path / "python.fm")
    scores = {run.ok("predict", model, "t").stdout for model in ("t.fm", "python.fm")}
    assert scores == {run.ok("predict", "plain.fm", "plain").stdout}


def test_training_leaves_the_callers_rows_as_they_are(tmp_path):
    (tmp_path / "t").write_text(rows(lambda j: 2000 * j))
    data = fmcli.read(tmp_path / "t")
    ids, of_file = data.dataset.index.copy(), fmcli.train(tmp_path / "t", epochs=2).predict(data)
    for _ in range(2):
        assert np.array_equal(fmcli.train(data, epochs=2).predict(data), of_file)
    assert np.array_equal(data.dataset.index, ids)


def test_other_ids_are_unseen(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    run("train", "-q", "-e", "1", "-o", "m", "t")
    done = run("predict", "m", input=f"1 5:1 {2**61}:1 a:1 é39:1 a:0\n1 {2**61}:1 é39:1\n".encode())
    assert "2 of 6 non-zeros unseen" in done.stderr
    first, second = done.stdout.split()
    assert first == second
    done = run.fails(65, "predict", "--unseen", "error", "m", input=f"1 {2**61}:1\n1 {2**61}:1 é3:2\n".encode())
    assert "<stdin>:2:25: found '\\xc3\\xa93:2', expected a feature that occurred in training" in done.stderr


@pytest.mark.parametrize("kind", ["bilinear", "llfm", "hofm", "poly2"])
def test_arrays_of_every_kind_get_columns_for_new_ids(run, tmp_path, kind):
    """All groups, anchors and weights of old features stay."""
    (tmp_path / "old").write_text(rows(lambda j: f"n{j:02}", ffm=True, count=60))
    (tmp_path / "new").write_text(rows(lambda j: f"n{j + 7:02}", ffm=True, count=60).replace(":n", ":n"))
    options = ["-q", "-f", "ffm", "-e", "1", "-m", kind, *(["--split-index", "9"] if kind == "bilinear" else [])]
    run.ok("train", *options, "-o", "m", "old")
    done = run("train", "-q", "-f", "ffm", "-e", "0", "-i", "m", "-o", "m2", "new")
    if kind == "poly2":
        assert done.returncode == 2
        assert "a dictionary of ids cannot get new features" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    first, second = load_model(str(tmp_path / "m")), load_model(str(tmp_path / "m2"))
    assert second.ids(np.arange(47)) == [f"n{j:02}" for j in range(47)]
    for name, array in [*first.model.parameters.items(), *first.model.constants.items()]:
        axis = first.model.feature_axis(name)
        ours = {**second.model.parameters, **second.model.constants}[name]
        old = ours if axis is None else np.take(ours, np.arange(40), axis=axis)
        assert (old == array).all()


def test_a_warm_start_joins_dictionaries(run, tmp_path):
    """Old features keep what they have learned; new ones begin. There are columns for all ids."""
    old, new = RENAMES["both"], lambda j: 2**61 + j - 5 if j < 20 else f"é{j + 5}"
    (tmp_path / "old").write_text(rows(old))
    (tmp_path / "new").write_text(rows(new, seed=2))
    (tmp_path / "plain").write_text(rows(int))
    run("train", "-q", "-e", "2", "-o", "m", "old")
    for begin, data in (("m", "new"), ("m", "plain"), ("p", "new")):
        run("train", "-q", "-e", "2", "-o", "p", "plain")
        run.ok("train", "-e", "0", "-i", begin, "-o", "m2", data)
        first, second = load_model(str(tmp_path / begin)), load_model(str(tmp_path / "m2"))
        ids = second.ids(np.arange(second.model.features))
        assert ids == sorted(set(ids), key=lambda id: (isinstance(id, str), str(id) if isinstance(id, str) else id))
        places = [ids.index(id) for id in first.ids(np.arange(first.model.features))]
        assert second.model.features > len(places)
        assert (second.model.parameters["w"][:, places] == first.model.parameters["w"]).all()
        assert (second.model.parameters["V"][:, places] == first.model.parameters["V"]).all()
    run.ok("train", "-q", "-e", "2", "-i", "m", "-v", "plain", "-o", "m", "new")


def test_validation_data_have_the_columns_of_the_training_rows(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    (tmp_path / "v").write_text(rows(RENAMES["both"], seed=2) + "1 new:1 7:1\n")
    done = run.ok("train", "-e", "2", "-v", "v", "-o", "m", "t")
    loss = re.search(r"valid-logloss +(\S+)", done.stderr)[1]
    assert f"logloss       {loss}"[:12] in run("evaluate", "m", "v").stdout.decode()
    run.ok("train", "-q", "-e", "1", "-v", "v", "-o", "m", "-", input=rows(int).encode())


QUICK = ("-e", "3", "--no-quick-search")


@pytest.mark.parametrize("kind", ["fm", "ffm", "poly2"])
def test_hashed_ids(run, tmp_path, kind):
    """Predictions and evaluation hash by themselves. Without collisions, a model learns as with a dictionary."""
    ffm = kind == "ffm"
    (tmp_path / "t").write_text(rows(RENAMES["both"], ffm=ffm))
    form = ["-f", "ffm"] if ffm else []
    for bits in ("18", "3"):
        done = run.ok("train", "-m", kind, "--hash-bits", bits, *QUICK, "-o", f"h{bits}", *form, "t")
    run("train", "-q", "-m", kind, *QUICK, "-o", "d", *form, "t")
    assert load_model(str(tmp_path / "h3")).dimension == 8
    losses = [
        float(re.search(r"^logloss +(\S+)", run("evaluate", *form, model, "t").stdout.decode(), re.M)[1])
        for model in ("h18", "d", "h3")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[2] > losses[1]
    if kind == "poly2":
        return
    assert "ids" in run("inspect", "h18").stdout.decode()
    done = run.fails(2, "train", "--hash-bits", "17", "-i", "h18", "-o", "x", *form, "t")
    assert "h18 was trained with --hash-bits 18, so its columns do not fit 17 bits" in done.stderr
    run.fails(2, "train", "--hash-bits", "17", "-i", "d", "-o", "x", *form, "t")
    run.ok("train", "-q", "-e", "1", "-i", "h18", "-o", "x", *form, "t")
    assert load_model(str(tmp_path / "x")).transform.hash_bits == 18


def test_an_ambiguous_format_of_names_is_refused(run):
    done = run.fails(65, "train", "-o", "m", "-", input=b"1 7:site=x:80:1\n")
    assert "has 3 colons; the last one precedes the value; use -f libsvm if" in done.stderr


def test_the_kernel_form_keeps_the_dictionary(run, tmp_path):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    run("train", "-q", "-m", "lifted-anova", "--order", "2", "-e", "1", "-o", "m", "t")
    run.ok("export", "--kernel-form", "m", "k.fm")
    one, other = (np.array(run("predict", "--raw", name, "t").stdout.split(), float) for name in ("m", "k.fm"))
    assert one == pytest.approx(other, abs=1e-5)


def counted(text):
    """The number of rows that have each id."""
    ids = [entry.rpartition(":")[0] for line in text.splitlines() for entry in line.split()[1:]]
    return {id: ids.count(id) for id in ids}


@pytest.mark.parametrize("rename", ["both", "plain"])
@pytest.mark.parametrize("kind", ["fm", "ffm"])
def test_rare_features_are_dropped(run, tmp_path, rename, kind):
    """The parameters are as for text without them."""
    ffm, least = kind == "ffm", 40
    form = "ffm" if ffm else "libsvm"
    text = rows(RENAMES.get(rename, int), ffm=ffm, count=300)
    rare = {id for id, times in counted(text).items() if times < least}
    assert 5 < len(rare) < 35
    without = "".join(
        " ".join(word for word in line.split() if word.rpartition(":")[0] not in rare) + "\n"
        for line in text.splitlines()
    )
    (tmp_path / "t").write_text(text)
    (tmp_path / "without").write_text(without)
    for name, options in (("t", ["--min-count", str(least)]), ("without", [])):
        run.ok("train", "-m", kind, "-f", form, "-e", "2", "--holdout", "0", *options, "-o", f"{name}.fm", name)
    one, other = load_model(str(tmp_path / "t.fm")), load_model(str(tmp_path / "without.fm"))
    kept = np.flatnonzero(one.seen)
    assert one.ids(kept) == other.ids(np.flatnonzero(other.seen))
    for name in ("w", "V"):
        ours, theirs = (np.take(m.model.parameters[name], np.flatnonzero(m.seen), axis=1) for m in (one, other))
        if rename == "both" or kind == "ffm":  # start values go by column
            assert ours.tobytes() == theirs.tobytes()
    outputs = [run("predict", "-f", form, "t.fm", name).stdout for name in ("t", "without")]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("ffm", [False, True])
def test_rare_features_share_a_column(run, tmp_path, ffm):
    """The parameters are as for text in which they share a name, which is the last one."""
    least, form = 40, "ffm" if ffm else "libsvm"
    text = rows(RENAMES["both"], ffm=ffm, count=300)
    times = counted(text)

    def shared(line):
        words = [word.rpartition(":") for word in line.split()[1:]]
        return " ".join(
            f"{id.partition(':')[0] + ':' if ffm else ''}~~:{x}" if times.get(id, 0) < least else f"{id}:{x}"
            for id, _, x in words
        )

    (tmp_path / "t").write_text(text)
    (tmp_path / "same").write_text("".join(f"{line[0]} {shared(line)}\n" for line in text.splitlines()))
    (tmp_path / "same").write_text((tmp_path / "same").read_text().replace("~~", "\U0010ffff"))
    kind = ["-m", "ffm" if ffm else "fm", "-f", form, "-e", "2", "--holdout", "0"]
    run.ok("train", *kind, "--min-count", "40", "--rare", "share", "-o", "t.fm", "t")
    run.ok("train", *kind, "-o", "same.fm", "same")
    one, other = load_model(str(tmp_path / "t.fm")), load_model(str(tmp_path / "same.fm"))
    assert one.ids(np.arange(one.model.features))[-1] == "(rare)"
    for name, array in one.model.parameters.items():
        assert array.tobytes() == other.model.parameters[name].tobytes()
    assert run("predict", "-f", form, "t.fm", "t").stdout == run("predict", "-f", form, "same.fm", "same").stdout
    field = "1:" if ffm else ""
    rare = next(id for id, count in times.items() if count < least and id.startswith(field))
    done = run(
        "predict", "-f", form, "t.fm", input=f"1 {rare}:1\n1 {field}never:1\n1 {field}5:0.5 {rare}:0.5\n".encode()
    )
    assert len(set(done.stdout.split())) == 1
    assert "unseen" not in done.stderr
    run.ok("train", "-q", "-i", "t.fm", *kind, "-o", "again.fm", "t")
    assert load_model(str(tmp_path / "again.fm")).model.features == one.model.features


def test_held_out_rows_do_not_make_features_frequent(run, tmp_path):
    (tmp_path / "t").write_text(rows(int, count=100))
    (tmp_path / "v").write_text(rows(int, seed=2, count=100) + "1 77:1\n0 77:1\n")
    done = run("train", "--min-count", "1000", "-e", "1", "-v", "v", "-o", "m", "t")
    assert "0 features in 1,000 training rows or more; all others are dropped" in done.stderr
    run.ok("train", "--min-count", "1", "-q", "-e", "1", "-o", "one", "t")
    run.ok("train", "-q", "-e", "1", "-o", "none", "t")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "none").read_bytes()
    done = run("train", "--min-count", "60", "--holdout", "0.5", "-e", "1", "-o", "m", "t")
    assert "0 features in 60 training rows or more" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rare", "share"], "--rare needs --min-count; give both"),
        (["--min-count", "2", "--rare", "share", "--hash-bits", "9"], "a shared column needs a dictionary"),
        (["--min-count", "2", "--online"], "it trains on rows before all of them are counted"),
        (["--min-count", "2", "-i", "m"], "the rows of that model are not counted"),
    ],
)
def test_rare_features_where_they_make_no_sense(run, tmp_path, options, message):
    (tmp_path / "t").write_text("1 1:1\n0 2:1\n")
    run.ok("train", "-q", "-e", "1", "-o", "m", "t")
    done = run.fails(2, "train", *options, "-o", "n", "t")
    assert message in done.stderr


@pytest.mark.parametrize("options", [["--online"], ["--disk", "--cache", "c", "-e", "2"]])
def test_rows_that_are_not_kept_can_have_any_ids(run, tmp_path, options):
    (tmp_path / "t").write_text(rows(RENAMES["both"]))
    for threads in ("1", "2"):
        run.ok("train", "-q", *options, "-j", threads, "-o", f"m{threads}", "t")
    assert (tmp_path / "m1").read_bytes() == (tmp_path / "m2").read_bytes()
    assert load_model(str(tmp_path / "m1")).ids(np.arange(40)) == [RENAMES["both"](j) for j in range(40)]
    run.ok("train", "-q", *options, "--hash-bits", "12", "-o", "m", "t")
    assert load_model(str(tmp_path / "m")).transform.hash_bits == 12
    run.ok("predict", "m", "t")


def test_rare_values_that_add_up_to_too_much_are_bad_input(run, tmp_path):
    (tmp_path / "rows").write_text("1 a:3e38 b:3e38\n0 c:1\n1 c:1 a:3e38 x:3e38 y:3e38\n")
    done = run.fails(65, "train", "--min-count", "2", "--rare", "share", "rows")
    assert "the values of a row's rare features, which share a column, add up to more than" in done.stderr


@pytest.mark.parametrize(
    ("form", "known", "token", "texts"),
    [
        ("libsvm", "a:1 b:1", "zz:1", ["1 a:1 zz:1", "zz:1 a:1", "1 qid:3 zz:1", "1 a:0 zz:1", "1 a:1 zz:1 # a"]),
        ("ffm", "0:a:1 1:b:1", "2:2:1", ["1 0:a:1 2:2:1"]),
    ],
)
def test_an_unseen_feature_is_named_if_ids_are_hashed(run, tmp_path, form, known, token, texts):
    (tmp_path / "rows").write_text(f"1 {known}\n0 {known}\n")
    run.ok("train", "-q", "-f", form, "--hash-bits", "12", "-o", "m", "rows")
    for text in texts:
        (tmp_path / "new").write_text(f"1 {known}\n{text}\n")
        done = run("predict", "-f", form, "--unseen", "error", "m", "new")
        assert done.stderr.endswith(
            f"new:2:{text.index(token) + 1}: found '{token}', expected a feature that occurred in training; "
            "this feature did not, and unseen features are an error\n"
        )
        assert done.returncode == 65
