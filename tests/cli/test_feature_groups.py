"""--prior-groups: features whose parameters have a common prior."""

import gzip
import json

import numpy as np
import pytest
from inprocess import instead

from fmcli.model_file.container import load

ROWS, USERS, FILMS = 300, 12, 9
# Fields 3 and 7 stand for users and films; groups need not be counted from 0.
FIELDS = (3, 7)


def tokens(name):
    """Rows as pairs of tokens: of a user and of a film."""
    rng = np.random.default_rng(0)
    pairs = rng.integers([USERS, FILMS], size=(ROWS, 2))
    labels = rng.normal(size=USERS)[pairs[:, 0]] + rng.normal(size=FILMS)[pairs[:, 1]] + rng.normal(size=ROWS)
    return [(f"{label:.3f}", name(user), name(USERS + film)) for label, (user, film) in zip(labels, pairs, strict=True)]


def write(path, rows, fields=None):
    marks = ["" if fields is None else f"{field}:" for field in fields or FIELDS]
    lines = [f"{label} {marks[0]}{user}:1 {marks[1]}{film}:1\n" for label, user, film in rows]
    path.write_text("".join(lines))


@pytest.fixture
def files(tmp_path):
    """The same rows in three formats, and their groups in three."""
    rows, named = tokens(str), tokens("f{:02}".format)
    write(tmp_path / "rows.libsvm", rows)
    write(tmp_path / "rows.ffm", rows, FIELDS)
    write(tmp_path / "one.ffm", rows, (0, 0))
    write(tmp_path / "named.libsvm", named)
    count = USERS + FILMS
    groups = [FIELDS[feature >= USERS] for feature in range(count)]
    (tmp_path / "lines").write_text("".join(f"{group}\n" for group in groups) + "5\n")
    (tmp_path / "ids").write_text("".join(f"{feature}\t{groups[feature]}\r\n" for feature in reversed(range(count))))
    (tmp_path / "names").write_text("".join(f"f{feature:02} {group}\n" for feature, group in enumerate(groups)))
    (tmp_path / "lines.gz").write_bytes(gzip.compress((tmp_path / "lines").read_bytes()))
    return tmp_path


@pytest.fixture
def train(run, files):
    def trained(rows, *options, status=0, model="m", solver=("-s", "mcmc", "--draws", "3")):
        usual = (*solver, "-e", "6", "-k", "3", "-o", model)
        done = run("train", *instead(usual, *options), rows)
        assert done.returncode == status, done.stderr
        return load(str(files / model)) if status == 0 else done.stderr

    return trained


def parameters(file):
    kept = {name: array.tobytes() for name, array in file.tensors.items()}
    return {name: kept[name] for name in kept if name.rpartition(".")[2] in ("V", "w", "bias")}


def test_groups_of_a_file_are_as_fields(train, files):
    by_field, together = train("rows.ffm"), train("rows.libsvm")
    assert parameters(by_field) != parameters(together)
    for rows, groups in [
        ("rows.libsvm", "lines"),
        ("rows.libsvm", "ids"),
        ("rows.libsvm", "lines.gz"),
        ("one.ffm", "lines"),
        ("named.libsvm", "names"),
    ]:
        found = train(rows, "--prior-groups", groups)
        assert len(parameters(found)) == 9
        assert parameters(found) == parameters(by_field), groups
    assert parameters(train("one.ffm")) == parameters(together)
    assert parameters(train("rows.libsvm", "--meta", "lines")) == parameters(by_field)


def test_pooled_priors_are_those_of_rows_without_fields(train, files):
    pooled, together = train("rows.ffm", "--pool-priors", model="pooled"), train("rows.libsvm", model="together")
    assert parameters(pooled) == parameters(together) != parameters(train("rows.ffm"))
    assert pooled.tensors["prior_groups"].tolist() == [-1]
    updates = [("-i", "pooled"), ("-i", "pooled", "--no-pool-priors"), ("-i", "together")]
    kept, by_field, same = (
        train(rows, *options) for rows, options in zip(("rows.ffm", "rows.ffm", "rows.libsvm"), updates, strict=True)
    )
    assert parameters(kept) == parameters(same) != parameters(by_field)


def test_new_features_are_drawn_from_pooled_priors(run, train, files):
    new = {"ffm": f"1 3:{USERS + FILMS}:1 7:{USERS}:1\n", "libsvm": f"1 {USERS + FILMS}:1 {USERS}:1\n"}
    for form, text in new.items():
        (files / f"new.{form}").write_text(text)
        train(f"rows.{form}", *["--pool-priors"] * (form == "ffm"), model=form)
    found = [
        train(f"new.{form}", "-i", form, "--only-new", "--burn-in", "3", model=f"new-{form}", solver=()) for form in new
    ]
    assert parameters(found[0]) == parameters(found[1])
    log = run.ok("train", "-i", "ffm", "--only-new", "-o", "m", "new.ffm").stderr
    assert "\npriors: one for all features\n" in log


def test_fields_of_a_model_remain_beside_groups(train, files):
    (files / "odd").write_text("".join(f"{feature % 2}\n" for feature in range(USERS + FILMS)))
    by_field, by_file = (train("rows.ffm", "-m", "ffm", *groups) for groups in ((), ("--prior-groups", "odd")))
    assert by_file.meta["fields"] == by_field.meta["fields"] == FIELDS[1] + 1
    assert parameters(by_file) != parameters(by_field)
    assert parameters(train("rows.ffm", "-m", "ffm", "--prior-groups", "lines")) == parameters(by_field)


def test_a_run_resumes_with_the_groups_of_its_model(train, files):
    train("rows.libsvm", "--prior-groups", "lines", model="before")
    (files / "one").write_text("0\n" * (USERS + FILMS))
    kept, given, other = (
        train("rows.libsvm", "-i", "before", *groups)
        for groups in ((), ("--prior-groups", "ids"), ("--prior-groups", "one"))
    )
    assert kept.tensors["groups"].tolist() == [FIELDS[feature >= USERS] for feature in range(USERS + FILMS)]
    assert parameters(kept) == parameters(given) != parameters(other)
    train("rows.libsvm", "-i", "before", model="between", solver=("-s", "cd"))
    again = train("rows.libsvm", "-i", "between")
    assert again.tensors["groups"].tobytes() == kept.tensors["groups"].tobytes(), "solvers without priors keep them"
    new = files / "new.libsvm"
    new.write_text((files / "rows.libsvm").read_text() + f"1 {USERS + FILMS}:1 {USERS + FILMS + 1}:1\n")
    message = f"before has no group for feature {USERS + FILMS} of the training rows, nor for 1 other; each needs one"
    assert message in train(new, "-i", "before", status=65)
    (files / "more").write_text(f"{USERS + FILMS} 3\n{USERS + FILMS + 1} 1\n")
    assert train(new, "-i", "before", "--prior-groups", "more").tensors["groups"][-4:].tolist() == [7, 7, 3, 1]


def test_named_features_are_resumed(train, files):
    before = train("named.libsvm", "--prior-groups", "names", model="before")
    rows = (files / "named.libsvm").read_text() + "1 a-new-one:1 f03:1\n"
    (files / "more.libsvm").write_text(rows)
    (files / "more").write_text("a-new-one 0\n")
    groups = train("more.libsvm", "-i", "before", "--prior-groups", "more").tensors["groups"].tolist()
    assert groups == [0, *before.tensors["groups"].tolist()], "names are in the order of their bytes"


def test_rare_features_share_a_group(train):
    found = train("named.libsvm", "--prior-groups", "names", "--min-count", "25", "--rare", "share").tensors["groups"]
    assert len(found) < USERS + FILMS
    assert sorted(set(found.tolist())) == [3, 7, 2**31 - 1]


def test_a_continued_run_has_the_same_groups(run, train, files):
    options = ("--prior-groups", "lines", "--checkpoint", "c", "--checkpoint-every", "1e-9")
    whole = train("rows.libsvm", "--prior-groups", "lines", model="whole")
    run.ok("train", "-s", "mcmc", "-e", "6", "--draws", "3", "-k", "3", "-o", "m", *options, "--max-seconds",
                  "1e-9", "rows.libsvm")  # fmt: skip
    (files / "other").write_text("".join(f"{feature % 3}\n" for feature in range(USERS + FILMS)))
    other = (*options[2:], "--resume", "--prior-groups", "other")
    assert "the training data" in train("rows.libsvm", *other, status=65)
    assert parameters(train("rows.libsvm", *options, "--resume")) == parameters(whole)


def test_groups_of_rows_with_relations(train, files):
    """Whose blocks have features of groups of their own, too."""
    rows = [line.split() for line in (files / "rows.libsvm").read_text().splitlines()]
    films = [int(row[2].partition(":")[0]) - USERS for row in rows]
    (files / "own").write_text("".join(f"{label} {user}\n" for label, user, _ in rows))
    (files / "block").write_text("".join(f"{USERS + film}:1\n" for film in range(FILMS)))
    (files / "map").write_text("".join(f"{film}\n" for film in films))
    related = train("own", "--relation", "block=map", "--prior-groups", "lines", "-e", "1", "--draws", "1")
    joined = train("rows.libsvm", "--prior-groups", "lines", "-e", "1", "--draws", "1")
    assert related.tensors["groups"].tolist() == joined.tensors["groups"].tolist()
    np.testing.assert_allclose(related.tensors["V"], joined.tensors["V"], rtol=1e-3, atol=1e-4)
    alone = train("own", "--relation", "block=map", "-e", "1", "--draws", "1")
    assert not np.allclose(alone.tensors["V"], related.tensors["V"], rtol=1e-3, atol=1e-4)


def test_the_log_and_the_dry_run(run, files):
    done = run.ok("train", "-s", "mcmc", "--prior-groups", "lines", "--dry-run", "rows.libsvm")
    assert "\npriors: one for each of 2 groups of features, as in lines\n" in done.stderr


def test_the_log_says_where_groups_are_from(run, train, files):
    train("rows.libsvm", "--prior-groups", "ids", model="before")
    usual = ("train", "-s", "mcmc", "-e", "1", "-o", "m")
    for options, words in (
        (("-i", "before", "rows.libsvm"), "one for each of 2 groups of features, as in before"),
        (("rows.ffm",), "one for each of 2 fields"),
        (("rows.libsvm",), "one for all features"),
    ):
        assert f"\npriors: {words}\n" in run(*usual, *options).stderr
    shown = [json.loads(run("inspect", "--json", path).stdout)["model"] for path in ("before", "m")]
    assert [figures.get("groups") for figures in shown] == [2, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n1\nx\n", "bad:3: found 'x', expected the group of a feature, a whole number from 0 to 2147483646"),
        ("0\n-1\n", "bad:2: found '-1', expected the group of a feature, a whole"),
        ("0\n1.0\n", "bad:2: found '1.0', expected"),
        ("0\n2147483647\n", "bad:2: found '2147483647', expected"),
        ("0\n\n1\n", "bad:2: found '', expected the group of a feature"),
        ("0\n1 2\n", "bad:2: found '1 2', expected the group of a feature"),
        ("0 1\n1\n", "bad:2: found '1', expected an id and its group, a whole"),
        ("0 1\n1 a\n", "bad:2: found '1 a', expected an id and its group"),
        ("0 1 2\n", "bad:1: found '0 1 2', expected a group, or an id and a group, a whole"),
        ("\n", "bad:1: found '', expected a group, or an id and a group"),
        ("0 1\n7 1\n00 1\n", "bad:3: found a second group for feature 0; each feature has one"),
        ("0\n1\n", f"no group for feature 2 of the training rows, nor for {USERS + FILMS - 3} others; each needs one"),
        ("", f"bad has no group for feature 0 of the training rows, nor for {USERS + FILMS - 1} others"),
        ("".join(f"{feature} 1\n" for feature in range(USERS + FILMS - 1)), "for feature 20 of the training rows;"),
        ("\x1f\x8b\x08", "bad: "),
    ],
)
def test_bad_files(train, files, text, message):
    (files / "bad").write_bytes(text.encode("latin-1"))
    error = train("rows.libsvm", "--prior-groups", "bad", status=65)
    assert f"fmcli: error: {message}" in error or message in error
    assert not (files / "m").exists()


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("-s", "cd"), 2, "--prior-groups tells which features share a prior, and cd has none; use -s mcmc, or leave"),
        ((), 2, "and adagrad has none"),
        (("-s", "mcmc", "--hash-bits", "4"), 2, "--prior-groups and --hash-bits cannot be combined: a column of"),
        (("-s", "mcmc", "-o", "lines"), 2, "the output lines would overwrite the input lines"),
        (("-s", "mcmc", "--prior-groups", "missing"), 66, "cannot read missing"),
        (("-s", "mcmc", "--meta", "ids"), 2, "set the same option"),
    ],
)
def test_refusals(run, files, options, status, message):
    done = run("train", *instead(["--prior-groups", "lines"], *options), "rows.libsvm")
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_pooled_priors_of_groups_or_without_priors_are_refused(run, train, files):
    error = train("rows.ffm", "--pool-priors", "--prior-groups", "lines", status=2)
    assert "--prior-groups and --pool-priors cannot be combined: both tell which features share a prior" in error
    assert "--pool-priors" in run.fails(2, "train", "-s", "cd", "--pool-priors", "-o", "m", "rows.ffm").stderr
    train("rows.ffm", "--pool-priors", model="pooled")
    assert "cannot be combined" in train("rows.ffm", "-i", "pooled", "--prior-groups", "lines", status=2)


def test_help_shows_the_option_only_with_mcmc(run):
    assert b"--prior-groups" in run("train", "--help-all", "-s", "mcmc").stdout
    assert b"--prior-groups" not in run("train", "--help-all", "-s", "cd").stdout


def test_a_model_file_with_other_groups_is_refused(run, train, files):
    from fmcli.model_file.container import ModelFile, save

    file = train("rows.libsvm", "--prior-groups", "lines")
    for wrong in (np.zeros(3, np.int32), np.full(USERS + FILMS, -2, np.int32), np.zeros(USERS + FILMS, np.int64)):
        save(str(files / "forged"), ModelFile(file.meta, {**file.tensors, "groups": wrong}))
        done = run("predict", "forged", "rows.libsvm")
        assert done.returncode == 65, json.dumps(wrong.tolist())
        assert "the array groups" in done.stderr
