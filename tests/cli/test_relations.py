"""--relation: rows that are joined while they are read, trained on, and scored."""

import gzip
from dataclasses import replace

import pytest
from inprocess import instead
from related import tables


@pytest.fixture
def rows(tmp_path):
    """The rows, the joined rows, and the options for relations."""
    return tables().write(tmp_path)


@pytest.fixture
def model(run, rows, tmp_path):
    path = tmp_path / "joined.fm"
    run.ok("train", "-q", "-s", "cd", "-e", "5", "-o", path, rows[1])
    return path


@pytest.mark.parametrize("threads", ["1", "2"])
def test_predictions_are_those_of_the_joined_rows(run, rows, model, threads):
    plain, joined, options = rows
    one = run("predict", model, joined)
    other = run.ok("predict", "-j", threads, model, plain, *options)
    assert other.stdout == one.stdout
    assert len(set(one.stdout.split())) > 100
    alone = run("predict", model, plain)
    assert alone.stdout != one.stdout


def test_metrics_are_those_of_the_joined_rows(run, rows, model):
    plain, joined, options = rows
    one = run("evaluate", "-x", "rmse", model, joined)
    other = run.ok("evaluate", "-x", "rmse", model, plain, *options)
    assert other.stdout == one.stdout


def test_an_id_of_a_row_and_of_its_relation_counts_twice_as_in_joined_text(run, model, tmp_path):
    found = tables()
    shared = replace(found, own=[[*entries[:-1], (12, 0.5)] for entries in found.own])
    plain, joined, options = shared.write(tmp_path, "shared")
    other = run.ok("predict", model, plain, *options)
    assert other.stdout == run("predict", model, joined).stdout


def test_a_long_join_is_split_into_parts(run, model, tmp_path, monkeypatch):
    from fmcli.data.related import files as relations
    from fmcli.scoring.prediction import Counts, predict
    from fmcli.scoring.scorer import load_model

    plain, joined, options = tables(rows=500).write(tmp_path, "long")
    monkeypatch.setattr(relations, "ENTRIES", 100)
    files = [relations.RelationFiles(*text.split("=")) for text in options[1::2]]
    scorer = load_model(str(model))

    def predicted(path, **keywords):
        return b"".join(predict(scorer, [path], output="value", counts=Counts(), **keywords))

    assert predicted(plain, relations=files, threads=2) == predicted(joined)


def test_relations_may_be_compressed_and_input_may_be_piped(run, rows, model, tmp_path):
    plain, joined, options = rows
    table, _, which = options[1].partition("=")
    (tmp_path / "users.gz").write_bytes(gzip.compress((tmp_path / table).read_bytes()))
    options[1] = f"{tmp_path / 'users.gz'}={which}"
    with open(plain, "rb") as text:
        other = run("predict", model, *options, stdin=text)
    assert other.returncode == 0, other.stderr
    assert other.stdout == run("predict", model, joined).stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"map0": "0\n1\n"}, "map0:3: the file ends, but there are more rows; each needs one line"),
        ({"map0": "0\n" * 301}, "map0:301: the file has more lines than the 300 rows"),
        ({"map1": "0\n7\n" + "0\n" * 298}, "map1:2: found '7', expected the number of a row of"),
        ({"map1": "0\n-1\n" + "0\n" * 298}, "relation1, which has rows 0 to 6"),
        ({"map1": "0\n\n" + "0\n" * 298}, "map1:2: found ''"),
        ({"map0": "0\nx\n" + "0\n" * 298}, "map0:2: found 'x'"),
        ({"relation0": ""}, "relation0, which has no rows"),
        ({"relation0": "12:1\n13:x\n"}, "relation0:2:1: found '13:x', expected index:value"),
        ({"relation0": "12:1\n1 13:1\n"}, "relation0:2:1: found '1', expected index:value; the rows of a relation"),
    ],
)
def test_errors_name_file_and_line(run, rows, model, tmp_path, change, message):
    plain, _, options = rows
    for name, text in change.items():
        (tmp_path / f"rows.{name}").write_text(text)
    done = run.fails(65, "predict", model, plain, *options)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--relation", "users"], 2, "--relation users: it must be ROWS=MAP"),
        (["--relation", "nosuch=nosuch.map"], 66, "cannot read nosuch: No such file"),
        (["--relation", "MODEL=MODEL", "--on-bad-line", "skip"], 2, "a line of MAP belongs to each row"),
        (["--relation", "MODEL=MODEL", "--cluster", "local:1"], 2, "--relation and --cluster cannot be combined"),
    ],
)
def test_what_cannot_be_joined_is_refused(run, rows, model, options, status, message):
    options = [option.replace("MODEL", str(model)) for option in options]
    done = run("predict", model, rows[0], *options)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_a_model_with_fields_is_refused(run, rows, tmp_path):
    text, path = tmp_path / "a.ffm", tmp_path / "a.fm"
    text.write_text("1 0:1:1 1:2:1\n0 0:2:1\n")
    run.ok("train", "-q", "-m", "ffm", "-o", path, text)
    done = run.fails(2, "predict", path, rows[0], *rows[2])
    assert "needs fields" in done.stderr


def predicted(run, model, joined):
    done = run.ok("predict", "--raw", model, joined)
    return [float(line) for line in done.stdout.split()]


@pytest.mark.parametrize(
    ("solver", "options", "named"),
    [
        (("-s", "cd", "-e", "5"), ("--holdout", "0.2", "--no-refit", "--min-count", "40"), False),
        (("-s", "cd", "-e", "3", "--loss", "squared"), ("--pos-weight", "2"), True),
        (("-s", "mcmc", "-e", "12", "--burn-in", "2"), (), True),
    ],
)
def test_train_gives_the_model_of_the_joined_text(run, tmp_path, solver, options, named):
    found = tables(binary="--pos-weight" in options)
    plain, joined, relations = found.write(tmp_path, "train", name=(lambda j: f"n{j}") if named else str)
    one, other = tmp_path / "one.fm", tmp_path / "other.fm"
    for path, text, more in ((one, joined, []), (other, plain, relations)):
        done = run.ok("train", "-k", "4", *solver, *options, "-o", path, text, *more)
    assert "joined with 2 relations" in done.stderr
    expected = predicted(run, one, joined)
    assert predicted(run, other, joined) == pytest.approx(expected, abs=1e-3)
    again = tmp_path / "again.fm"
    done = run.ok("train", "-i", other, *instead(solver, "-e", "4"), "-o", again, plain, *relations)
    assert predicted(run, again, joined) != expected


@pytest.mark.parametrize("solver", [("-s", "cd", "-e", "5"), ("-s", "mcmc", "-e", "6", "--draws", "2")])
def test_ensembles(run, rows, tmp_path, solver):
    """Of the joined text; the members train at the same time, with the bits of members that train alone."""
    plain, joined, relations = rows
    files = {}
    for name, more in (
        ("joined", ["-j", "2", joined]),
        ("one", ["-j", "1", plain, *relations]),
        ("two", ["-j", "2", plain, *relations]),
    ):
        run.ok("train", "-k", "3", *solver, "--ensemble", "3", *more, "-o", tmp_path / name)
        files[name] = run("predict", tmp_path / name, joined).stdout
        assert files[name] == run("predict", tmp_path / name, plain, *relations).stdout
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    numbers = [[float(line) for line in files[name].split()] for name in ("one", "joined")]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-3)
    run.ok("train", "-k", "3", *solver, plain, *relations, "-o", tmp_path / "single")
    assert run("predict", tmp_path / "single", joined).stdout != files["one"]


@pytest.mark.parametrize("named", [False, True])
def test_rows_of_relations_that_nothing_refers_to_are_left_out(run, tmp_path, named):
    """Also features that only they have, and that are in the rows, too."""
    found = tables()
    relations = [
        [[(19, 1.0), (4, 1.0)], *found.relations[0], [(20, 1.0)]],
        [*found.relations[1], [(1000, 1.0), (19, 2.0)]],
    ]
    more = replace(found, relations=relations, maps=[[row + 1 for row in found.maps[0]], found.maps[1]])
    options, name = ("train", "-s", "cd", "-k", "2", "-e", "3"), (lambda j: f"n{j:04}") if named else str
    files = []
    for number, each in enumerate((found, more)):
        plain, joined, relations = each.write(tmp_path, f"rows{number}", name=name)
        run.ok(*options, "-o", tmp_path / str(number), plain, *relations)
        assert run("predict", tmp_path / str(number), plain, *relations).stdout == (
            run("predict", tmp_path / str(number), joined).stdout
        )
        files.append((tmp_path / str(number)).read_bytes())
    assert files[0] == files[1]


def test_ordered_labels(run, tmp_path):
    found = tables()
    ordered = replace(found, labels=[float(sum(label > cut for cut in (-1, 0, 2))) for label in found.labels])
    plain, joined, relations = ordered.write(tmp_path, "ordered")
    usual = ("train", "-s", "mcmc", "--loss", "ordinal", "-k", "3", "-e", "8", "--draws", "4")
    for name, more in (("one", [joined]), ("other", [plain, *relations])):
        run.ok(*usual, *more, "-o", tmp_path / name)
    one, other = (run("predict", tmp_path / name, joined).stdout.split() for name in ("one", "other"))
    assert [float(line) for line in other] == pytest.approx([float(line) for line in one], abs=1e-3)
    assert len(set(one)) > 100


def test_a_run_with_relations_continues_from_its_checkpoint(run, rows, tmp_path):
    plain, _, options = rows
    whole, cut = tmp_path / "whole.fm", tmp_path / "cut.fm"
    command = ["train", "-s", "cd", "-e", "6", "--tol", "0", "--holdout", "0", plain, *options]
    run.ok(*command, "-o", whole)
    kept = ["--checkpoint", tmp_path / "kept", "-o", cut]
    run.ok(*command, *kept, "--max-seconds", "0.000001")
    done = run.ok(*command, *kept, "--resume")
    assert cut.read_bytes() == whole.read_bytes()
    numbers = tmp_path / "rows.map0"
    run.ok(*command, *kept, "--max-seconds", "0.000001")
    first, _, rest = numbers.read_text().partition("\n")
    numbers.write_text(f"{(int(first) + 1) % 11}\n{rest}")
    done = run(*command, *kept, "--resume")
    assert done.returncode != 0
    assert "other" in done.stderr or "differ" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "poly2", "-s", "cd"], "--relation trains the models linear, fm, shfm, not poly2"),
        (["-s", "adagrad"], "use -s cd or -s mcmc, or join the files"),
        (["-s", "cd", "--norm"], "--relation and --norm cannot be combined"),
        (["-s", "cd", "--scale", "max-abs"], "--relation and --scale cannot be combined"),
        (["-s", "cd", "--hash-bits", "8"], "--relation and --hash-bits cannot be combined"),
        (["-s", "cd", "-v", "VALID"], "--relation and -v cannot be combined"),
        (["-s", "cd", "--on-bad-line", "skip"], "a line of MAP belongs to each row"),
    ],
)
def test_what_cannot_be_trained_is_refused(run, rows, options, message):
    plain, _, relations = rows
    options = [option.replace("VALID", plain) for option in options]
    done = run("train", *options, "-o", "x.fm", plain, *relations)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_feature_in_two_parts_is_refused_in_training(run, tmp_path):
    found = tables()
    shared = replace(found, own=[[*entries, (12, 0.5)] for entries in found.own])
    plain, _, options = shared.write(tmp_path, "shared")
    done = run.fails(65, "train", "-s", "cd", "-o", "x.fm", plain, *options)
    assert f"feature 12 is in {plain} and in {options[1].partition('=')[0]}" in done.stderr


def test_a_loss_without_largest_curvature_is_refused(run, tmp_path):
    found = tables()
    counts = replace(found, labels=[float(round(abs(label))) for label in found.labels])
    plain, _, options = counts.write(tmp_path, "counts")
    done = run.fails(2, "train", "-s", "cd", "--loss", "poisson", "-o", "x.fm", plain, *options)
    assert "loss poisson has no largest curvature" in done.stderr
