"""Options that name columns of tables which a model or a schema knows: they agree, act, or are refused."""

import warnings

import numpy as np
import pytest

import fmcli
from fmcli.registry.row_choices import OF_TABLES
from fmcli.sklearn import FMClassifier

QUICK = ("-q", "-e", "1", "--holdout", "0", "-o", "m.fm")
FAST = {"epochs": 1, "holdout": 0, "quick_search": False}
ROWS = 120
# Option -> values that agree with what is known, and values that do not, with words of the error.
OPTIONS = {
    "label": (["y"], {"age": "knows the column 'age' as a number", "nope": "there is no column 'nope'"}),
    "categorical": (["code", "user"], {"age": "'age' as a number", "user,y": "'y' as the label"}),
    "numeric": (["age"], {"user": "'user' as names", "age,nope": "no column 'nope'"}),
    "several": (["tags"], {"user": "'user' as names"}),
    "vector": ([], {"user": "'user' as names"}),
    "decimal": ([], {".": "has the decimal mark"}),
    "separator": (["|"], {"/": "separates the values in a cell by"}),
    "ignore": (["leak"], {"user": "'user' as names", "nope": "no column 'nope'"}),
    "weight_column": ([], {"age": "'age' as a number"}),
    "missing_values": (["?"], {}),
    "missing": (["auto", "none"], {"feature": "knows the columns whose missing cells are features"}),
    "bins": ([], {"4": "has bins of its own, or none"}),
    "columns": ([], {"a,b,c,d,e,f": "knows the names of the columns"}),
    "delimiter": ([], {";": "separates cells by"}),
    "encoding": (["utf-8"], {"latin-1": "reads Latin-1: no"}),
}
CASES = [(option, value) for option, (_, others) in OPTIONS.items() for value in others]


@pytest.fixture
def known(run, tmp_path):
    """A table, a model of it, and its schema."""
    rows = [f"l{i % 2},u{i % 9},{i % 30 + 0.5},{i % 4},a|b{i % 3},{(i % 9 + i % 4) % 2}\n" for i in range(ROWS)]
    (tmp_path / "t.csv").write_text("leak,user,age,code,tags,y\n" + "".join(rows))
    named = ("--label", "y", "--ignore", "leak", "--categorical", "code", "--several", "tags")
    run.ok("train", *QUICK, *named, "t.csv")
    (tmp_path / "s.json").write_bytes(run.ok("train", *named, "--print-schema", "t.csv").stdout)
    return tmp_path


def words_of(option, value):
    more = ["--several", "tags"] if option == "separator" else []
    return [*more, f"--{option.replace('_', '-')}", value]


def test_every_option_for_columns_has_a_case():
    others = {"schema", "print_schema", "sql", "join"}  # join is checked with its tables
    assert set(OF_TABLES) == OPTIONS.keys() | others


def test_options_repeat_what_is_known(run, known):
    """As in a job that also makes the first model: with or without them, the model is the same."""
    for source in (("-i", "m.fm"), ("--schema", "s.json")):
        run.ok("train", *QUICK[:-1], "n.fm", *source, "t.csv")
        wanted = (known / "n.fm").read_bytes()
        for option, (values, _) in OPTIONS.items():
            for value in values:
                run.ok("train", *QUICK[:-1], "n.fm", *source, *words_of(option, value), "t.csv")
                assert ((known / "n.fm").read_bytes() == wanted) == (option != "missing_values"), (source, option)
    both = ("-i", "m.fm", "--schema", "s.json")
    run.ok("train", *QUICK[:-1], "n.fm", *both, "t.csv")
    (known / "s.json").write_bytes(run.ok("train", "--label", "y", "--print-schema", "t.csv").stdout)
    assert "knows its columns, and not as s.json" in run.fails(2, "train", *QUICK, *both, "t.csv").stderr


def test_options_that_say_something_else_are_refused(run, known):
    before = (known / "m.fm").read_bytes()
    for option, value in CASES:
        message, flag = OPTIONS[option][1][value], f"--{option.replace('_', '-')}"
        for command in (("train", *QUICK, "-i", "m.fm"), ("train", *QUICK, "--schema", "s.json"), ("convert",)):
            more = ("--schema", "s.json") if command == ("convert",) else ()
            done = run.fails(2, *command, *more, *words_of(option, value), "t.csv")
            assert message in done.stderr, option
            assert f"leave out {flag}" in done.stderr, option
    assert (known / "m.fm").read_bytes() == before


def test_python_refuses_the_same(known):
    model = fmcli.load(known / "m.fm")
    for option, value in CASES:
        if option in ("columns", "encoding"):  # of the command alone
            continue
        choices = {option: int(value) if option == "bins" else value.split(",") if "," in value else value}
        choices |= {"several": "tags"} if option == "separator" else {}
        with pytest.raises(ValueError, match=OPTIONS[option][1][value]) as caught:
            fmcli.train(known / "t.csv", init_model=model, **choices, **FAST)
        assert f"leave out {option}" in str(caught.value)
    with pytest.raises(ValueError, match="separator / is between the values"):
        fmcli.train(known / "t.csv", label="y", separator="/", **FAST)


def test_an_estimator_goes_on_with_its_own_choices(known):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(known / "t.csv")
    named = {"ignore": "leak", "categorical": "code", "several": "tags", "missing": "feature", "bins": 4}
    estimator = FMClassifier(**named).partial_fit(frame.drop(columns="y"), frame.y, classes=[0, 1])
    estimator.partial_fit(frame[:40].drop(columns="y"), frame.y[:40])
    with pytest.raises(ValueError, match="knows the column 'age' as a number"):
        estimator.set_params(ignore="age").partial_fit(frame.drop(columns="y"), frame.y)


def test_text_has_no_columns_to_name(run, known):
    (known / "x.libsvm").write_text("1 1:1 2:2\n0 2:1\n" * 50)
    (known / "x.csv").write_bytes((known / "x.libsvm").read_bytes())
    for option, (_, others) in OPTIONS.items():
        words = words_of(option, "NA" if option == "missing_values" else next(iter(others)))
        assert run("train", *QUICK, *words, "x.libsvm").returncode in (2, 65), option
        done = run.fails(2, "train", *QUICK, "-f", "libsvm", *words, "x.csv")
        assert "text of features has no columns to name" in done.stderr
    run.ok("train", *QUICK[:-1], "n.fm", "-f", "libsvm", "x.csv")
    (known / "named.libsvm").write_text("1 user=u1:1\n")
    (known / "u.csv").write_text("user,job\nu1,nurse\n")
    for words in (("--missing-values", "NA"), ("--join", "user=u.csv")):
        assert "named.libsvm is not a table" in run.fails(2, "predict", *words, "m.fm", "named.libsvm").stderr
        assert "-f and " in run.fails(2, "predict", "-f", "libsvm", *words, "m.fm", "named.libsvm").stderr


def test_a_column_that_the_model_does_not_know_is_named(run, known):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(known / "t.csv").assign(new=1.5)
    frame.to_csv(known / "new.csv", index=False)
    for words in ((), ("--disk", "--cache", "c"), ("--online",)):
        done = run.ok("train", "-q", "-e", "1", "-o", "n.fm", "-i", "m.fm", *words, "new.csv")
        assert "ignored columns, which the model of -i does not know: new" in done.stderr
    for rows in (known / "new.csv", frame, (frame.drop(columns="y"), frame.y)):
        with pytest.warns(UserWarning, match="ignored columns, which the model does not know: new"):
            fmcli.train(rows, init_model=known / "m.fm", **FAST)


def test_a_new_column_may_be_ignored(run, known):
    """Then the updated model knows it as one to ignore, so later runs do not warn of it."""
    frame = pytest.importorskip("pandas").read_csv(known / "t.csv").assign(new=1.5)
    frame.to_csv(known / "new.csv", index=False)
    modes = ((), ("--online",), ("--cluster", "local:1"))
    for source in (("--schema", "s.json"), *(("-i", "m.fm", *mode) for mode in modes)):
        done = run.ok("train", *QUICK[:3], *source, "--ignore", "new,leak", "-o", "n.fm", "new.csv")
        assert "new" not in done.stderr.replace("new.csv", ""), source
        if "--cluster" not in source:
            done = run.fails(2, "train", *QUICK[:3], *source, "--ignore", "new,nope", "-o", "n.fm", "new.csv")
            assert "no column 'nope'" in done.stderr
    assert "warning" not in run.ok("train", "-q", "-i", "n.fm", "-e", "1", "-o", "o.fm", "new.csv").stderr
    run.ok("convert", "-q", "--schema", "s.json", "--ignore", "new", "new.csv")
    with open(known / "new.csv", "rb") as text:
        done = run.fails(2, "train", *QUICK, "-i", "m.fm", "--ignore", "new", "-", stdin=text)
    assert "no column 'new'" in done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (known / "new.csv", frame):
            fmcli.train(rows, init_model=known / "m.fm", ignore="new", **FAST)


def test_further_cells_are_missing_in_prediction(run, known):
    text = (known / "t.csv").read_text()
    (known / "na.csv").write_text(text.replace(",0.5,", ",NA,").replace(",u3,", ",none,"))
    (known / "gaps.csv").write_text(text.replace(",0.5,", ",,").replace(",u3,", ",,"))
    wanted = run.ok("predict", "m.fm", "gaps.csv").stdout
    both = ("--missing-values", "NA", "--missing-values", "none")
    assert run.ok("predict", *both, "m.fm", "na.csv").stdout == wanted
    assert run.ok("predict", *both, "--fold-in", "na.csv", "m.fm", "na.csv").stdout == wanted
    metrics = run.ok("evaluate", "-x", "logloss", "m.fm", "gaps.csv").stdout
    assert run.ok("evaluate", "-x", "logloss", *both, "m.fm", "na.csv").stdout == metrics
    model = fmcli.load(known / "m.fm")
    expected = model.predict(known / "gaps.csv")
    np.testing.assert_array_equal(model.predict(known / "na.csv", missing_values=["NA", "none"]), expected)
    found = model.evaluate(known / "na.csv", "logloss", missing_values=["NA", "none"])
    assert found == model.evaluate(known / "gaps.csv", "logloss")
    run.ok("train", *QUICK[:-1], "n.fm", "-i", "m.fm", *both, "na.csv")
    run.ok("predict", "n.fm", "na.csv")
    with pytest.raises(ValueError, match="the model knows no tables"):
        fmcli.train((np.eye(4), [1, 2, 3, 4]), **FAST).predict(np.eye(4), missing_values="NA")


def test_an_array_is_no_row_of_a_table(known):
    model = fmcli.load(known / "m.fm")
    for call in (lambda: model.predict(np.eye(4)), lambda: model.evaluate((np.eye(4), [0, 1, 0, 1]))):
        with pytest.raises(ValueError, match="the columns of a table by their names, and X has none"):
            call()


def test_options_without_use_in_other_commands_are_refused(run, known):
    for words, message in {
        ("inspect", "--join", "user=u.csv", "m.fm"): "--join needs --importance",
        ("inspect", "--missing-values", "NA", "m.fm"): "--missing-values needs --importance",
        ("inspect", "--importance", "t.csv", "--seed", "3", "m.fm"): "--seed needs --permute",
        ("split", "--seed", "3", "--by-order", "t.csv", "1", "2"): "the order decides where a row goes",
        ("split", "--seed", "3", "--by-time", "age", "t.csv", "1", "2"): "times decide where a row goes",
        ("train", "--label", "y", "--label-weights", "t.csv"): "a table has a column of weights; see --weight-column",
    }.items():
        assert message in run.fails(2, *words).stderr
    run.ok("inspect", "--importance", "t.csv", "--missing-values", "u3", "m.fm")
    run.ok("split", "--seed", "3", "--by-group", "user", "t.csv", "1", "2")
