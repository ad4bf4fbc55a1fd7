"""Rows as callers in Python have them: frames with their labels apart, chunks, and more rows than fit into memory."""

import os

import numpy as np
import pytest
from scipy import sparse

import fmcli
from fmcli.errors import FmcliError
from fmcli.sklearn import FMClassifier, FMFeatures, FMRanker, FMRegressor

duckdb = pytest.importorskip("duckdb")

ROWS, COLUMNS, PIECE = 240, 15, 50
QUICK = {"epochs": 3, "seed": 2, "quick_search": False}
TABLE = f"""
    SELECT (1 + (i % 20 + i * 7 % 30) % 5)::DOUBLE AS stars, 'u' || i % 20 AS user, 'f' || i * 7 % 30 AS film,
        (20.5 + i % 20)::DOUBLE AS age, CASE WHEN i % 7 > 0 THEN 'n' || i % 3 || ', x' END AS note, i % 12 AS code
    FROM range({ROWS}) AS t(i)
"""


def matrix():
    rng = np.random.default_rng(0)
    X = sparse.random_array((ROWS, COLUMNS), density=0.3, format="csr", rng=rng, dtype=np.float32)
    return X, X @ rng.normal(size=COLUMNS)


X, Y = matrix()


@pytest.fixture(scope="module")
def frames():
    """The whole table, its columns without the label, and the labels."""
    connection = duckdb.connect()
    whole = connection.sql(TABLE).set_alias("whole")
    return whole, whole.project("* EXCLUDE stars"), whole.fetchnumpy()["stars"].astype(float)


def equal_parameters(one, other):
    assert one.parameters.keys() == other.parameters.keys()
    for name, array in one.parameters.items():
        np.testing.assert_array_equal(array, other.parameters[name])


def test_frames_in_chunks_train_what_all_their_rows_do(frames, tmp_path):
    whole, _, _ = frames
    pieces = [whole.limit(PIECE), whole.limit(ROWS, PIECE)]
    cached = {"cache": tmp_path / "cache"}
    for name, rows, more in (("whole", whole, {}), ("list", pieces, {}), ("cached", iter(pieces), cached)):
        fmcli.train(rows, label="stars", **more, **QUICK).save(tmp_path / name)
    assert (tmp_path / "list").read_bytes() == (tmp_path / "whole").read_bytes() == (tmp_path / "cached").read_bytes()
    with pytest.raises(ValueError, match="frame 1: its columns are user, "):
        fmcli.train([whole, pieces[0].project("* EXCLUDE stars")], label="stars")


@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_a_frame_with_its_labels_apart_trains_what_its_csv_does(frames, tmp_path, model):
    whole, columns, stars = frames
    whole.write_csv(str(tmp_path / "t.csv"), header=True)
    whole.write_parquet(str(tmp_path / "t.parquet"))
    named = {"model": model, "categorical": "code"}  # whole numbers, which are quantities in a frame
    of_csv = fmcli.train(tmp_path / "t.csv", label="stars", **named, **QUICK)
    of_csv.save(tmp_path / "csv.fm")
    for rows in (whole, tmp_path / "t.parquet"):
        fmcli.train(rows, label="stars", **named, **QUICK).save(tmp_path / "m.fm")
        assert (tmp_path / "m.fm").read_bytes() == (tmp_path / "csv.fm").read_bytes()
    assert "valid_rmse" in fmcli.train(whole, valid=whole, label="stars", **named, **QUICK).history[0]
    apart = fmcli.train((columns, stars), **named, **QUICK)
    equal_parameters(apart, of_csv)
    estimator = FMRegressor(**named, epochs=3, random_state=2, quick_search=False).fit(columns, stars)
    equal_parameters(estimator.model_, of_csv)
    assert estimator.n_features_in_ == 5
    np.testing.assert_array_equal(estimator.predict(columns), of_csv.predict(tmp_path / "t.csv"))
    assert apart.evaluate((columns, stars)) == of_csv.evaluate(tmp_path / "t.csv")


def test_columns_of_a_frame_may_have_numbers_as_names(frames):
    """They are names all the same; the first line of a CSV would be no header."""
    _, columns, stars = frames
    numbered = columns.project('"user" AS "0", age AS "1"')
    model = fmcli.train((numbered, stars), **QUICK)
    assert {"0=u3", "1"} <= set(model.parameters["features"].tolist())
    assert model.evaluate((numbered, stars), ["rmse"])["rmse"] < stars.std()


def test_a_text_is_the_name_of_one_column(frames):
    whole, _, _ = frames
    named = {"label": "stars", "numeric": "age", "categorical": "code", "ignore": "note", "missing_values": "u3"}
    model = fmcli.train(whole, **named, **QUICK)
    found = {name.partition("=")[0] for name in model.parameters["features"].tolist()}
    assert found == {"user", "film", "age", "code"}
    assert "user=u3" not in model.parameters["features"].tolist()


def typed_frame(rows=300):
    """A frame with a column of each type, whose kinds their cells would tell otherwise, or not at all."""
    arrow = pytest.importorskip("pyarrow")
    cells = {
        "few": arrow.array([row % 3 for row in range(rows)], "int64"),
        "ids": arrow.array(range(rows), "int32"),
        "whole": arrow.array([row % 50 for row in range(rows)], "float64"),
        "text": arrow.array([str(row % 4) for row in range(rows)], "string"),
        "rare": arrow.array([f"u{row}" for row in range(rows)], "large_string"),
        "truth": arrow.array([row % 2 > 0 for row in range(rows)], "bool"),
        "level": arrow.array([row % 5 for row in range(rows)], "int64").dictionary_encode(),
        "half": arrow.array([row % 4 / 2 for row in range(rows)], "float64").dictionary_encode(),
    }
    return arrow.table(cells)


def test_the_types_of_a_frame_tell_what_its_columns_are():
    """Whatever the cells of some of its rows are, so folds agree."""
    frame = typed_frame()
    wanted = dict.fromkeys(("few", "ids", "whole"), "number")
    wanted |= dict.fromkeys(("text", "rare", "truth", "level", "half"), "category")
    label = np.arange(len(frame)) % 7 > 2
    for rows in (slice(None), slice(0, 40), slice(40, 200)):
        part = frame.slice(*slice(*rows.indices(len(frame))).indices(len(frame))[:1], len(label[rows]))
        model = FMClassifier(epochs=1, quick_search=False).fit(part, label[rows]).model_
        assert model._scorer.table.kinds == wanted
    named = fmcli.train((frame, label), categorical="few", numeric="whole", ignore="rare", **QUICK)
    assert {**wanted, "few": "category", "rare": "ignored"} == named._scorer.table.kinds


@pytest.mark.parametrize("train", ["train", "pair", "cache", "estimator", "chunks"])
def test_names_that_hardly_repeat_and_numbers_of_other_kinds_are_told(train, tmp_path, recwarn):
    """Once for each fit, and no more if the parameters of the warning are given."""
    pandas = pytest.importorskip("pandas")
    rows = range(240)
    columns = {
        "url": [f"http://x/{row}" for row in rows],
        "title": pandas.Categorical([f"t{row // 3 * 2}" if row % 3 else f"s{row}" for row in rows]),
        "user": [f"u{row % 30}" for row in rows],
        "few": [f"n{row % 40}" for row in rows],
        "price": [f"{row}.5" for row in rows],
        "level": pandas.Categorical([row % 4 / 2 for row in rows]),
        "user_id": [row % 60 for row in rows],
        "age": [row % 60 for row in rows],
        "is_ad": [row % 2 for row in rows],
    }
    frame, y = pandas.DataFrame(columns), [row % 3 * 1.0 for row in rows]
    calls = {
        "train": lambda **named: fmcli.train(frame.assign(y=y), label="y", **named, **QUICK),
        "pair": lambda **named: fmcli.train((frame, y), **named, **QUICK),
        "cache": lambda **named: fmcli.train(frame.assign(y=y), label="y", cache=tmp_path / "c", **named, **QUICK),
        "estimator": lambda **named: FMRegressor(epochs=1, quick_search=False, **named).fit(frame, y),
        "chunks": lambda **named: fmcli.train(iter([frame.assign(y=y)]), label="y", **named, **QUICK),
    }
    calls[train]()
    told = [str(one.message) for one in recwarn if "the column" in str(one.message)]
    assert len(told) == 3
    assert told[0].startswith(
        "the column 'url' has 240 different names in 240 cells, such as http://x/0 and the column"
    )
    assert "give ignore=['url', 'title'] to leave them out" in told[0]
    assert told[1].startswith("the column 'price': numbers with fractions are names here, since they are text; give n")
    assert told[2].startswith("the column 'user_id' has 60 different whole numbers in 240 cells, such as 0: ")
    assert "give categorical=['user_id'] for ids" in told[2]
    recwarn.clear()
    calls[train](ignore=["url", "title"], categorical=["price", "user_id"])
    calls[train](categorical=["url", "title"], numeric=["price", "user_id"])
    assert not [one for one in recwarn if "the column" in str(one.message)]


@pytest.mark.parametrize("model", ["fm", "ffm"])
def test_frames_without_rows_have_no_predictions(frames, model):
    _, columns, stars = frames
    trained = fmcli.train((columns, stars), model=model, **QUICK)
    classes = fmcli.train((columns, stars), model=model, loss="softmax", **QUICK)
    none = columns.filter("false")
    assert trained.predict(none).shape == (0,)
    assert classes.predict(none).shape == (0, 5)
    assert trained.explain(none) == []
    assert np.isnan(trained.evaluate((none, stars[:0]), "mae")["mae"])
    chosen, predictions = trained.recommend(columns.project("user").filter("false"), columns.project("film"), top=2)
    assert chosen.shape == predictions.shape == (0, 2)
    with pytest.raises(ValueError, match="X has 0 samples"):
        FMRegressor().fit(none, stars[:0])


def test_other_frames_are_told_how_to_become_frames(frames):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    _, columns, stars = frames
    known = fmcli.train((columns, stars), **QUICK)
    lazy = polars.LazyFrame({"x": stars, "y": stars})
    for call in (
        lambda: fmcli.train(lazy, label="y"),
        lambda: fmcli.train((lazy, stars)),
        lambda: known.predict(lazy),
        lambda: FMRegressor().fit(lazy, stars),
    ):
        with pytest.raises(ValueError, match=r"LazyFrame has no rows yet; give the result of its collect\(\)"):
            call()
    numbered = pandas.DataFrame({0: stars, 1: stars})
    assert fmcli.train((numbered, stars), **QUICK).parameters["w"].shape == (1, 2)
    with pytest.raises(ValueError, match="the columns of data have numbers in place of names"):
        fmcli.train(numbered, label="y")
    partly = numbered.assign(y=stars)
    for call in (lambda: fmcli.train(partly, label="y"), lambda: FMRegressor().fit(partly, stars)):
        with pytest.raises(ValueError, match="a frame has the name 0 of a column, which is not text; rename"):
            call()
    with pytest.raises(ValueError, match=r"the frame: Could not convert .*column m"):
        fmcli.train((pandas.DataFrame({"m": [1, "a"]}), [0, 1]))
    with pytest.raises(ValueError, match="knows the columns of a table by their names, and X has none"):
        known.predict(numbered)


@pytest.mark.parametrize("names", [["a", "b"], [0, 1]], ids=["a frame", "a matrix"])
def test_a_series_with_the_index_of_the_rows_in_another_order_is_refused(names):
    """Rows and labels belong together by their places, as for arrays."""
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(np.random.default_rng(4).random((60, 2)), columns=names)
    y = x[names[0]] * 2
    shuffled = x.iloc[::-1]
    for call in (
        lambda: fmcli.train((shuffled, y), **QUICK),
        lambda: fmcli.train((x, y), **QUICK).evaluate((shuffled, y), "mae"),
    ):
        with pytest.raises(ValueError, match=r"y has the index of X in another order; give y.loc\[X.index\], or "):
            call()
    with pytest.raises(ValueError, match="weight has the index of X in another order"):
        fmcli.Data(x, y, weight=y.iloc[::-1])
    wanted = fmcli.train((shuffled, y.loc[shuffled.index]), **QUICK).predict(x)
    for label in (y.to_numpy()[::-1], y.iloc[::-1].set_axis(range(100, 160))):
        np.testing.assert_array_equal(fmcli.train((shuffled, label), **QUICK).predict(x), wanted)


@pytest.mark.parametrize("names", [("10:30", "1000", "a b"), ("", "x"), ("50%", "a b\tc"), ("a b", "a!b", "c")])
def test_labels_are_any_texts(names, tmp_path):
    label = np.array(names, dtype=object)[np.digitize(Y, np.quantile(Y, np.linspace(0, 1, len(names) + 1)[1:-1]))]
    model = fmcli.train((X, label), loss="softmax", class_weight=dict.fromkeys(names, 2.0), **QUICK)
    model.save(tmp_path / "m.fm")
    assert set(fmcli.load(tmp_path / "m.fm").labels) == set(model.predict(X, "label")) | set(names) == set(names)
    estimator = FMClassifier(epochs=20, quick_search=False).fit(X, label)
    assert estimator.score(X, label) > 0.7
    chosen = estimator.classes_[estimator.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(chosen, estimator.predict(X))
    score = estimator.decision_function(X)
    best = score.argmax(axis=1) if score.ndim > 1 else (score > 0).astype(int)
    np.testing.assert_array_equal(estimator.classes_[best], chosen)
    partly = FMClassifier().partial_fit(X, label, classes=names)
    assert set(partly.partial_fit(X, label).predict(X)) <= set(names)


def test_estimators_take_frames(frames):
    _, columns, stars = frames
    quick = {"epochs": 2, "quick_search": False, "rank": 3}
    classifier = FMClassifier(**quick, missing="feature").fit(columns, stars > 3, eval_set=[(columns, stars > 3)] * 2)
    assert "note=" in classifier.model_.parameters["features"].tolist()
    assert classifier.predict_proba(columns).shape == (ROWS, 2)
    partly = FMClassifier(rank=3).partial_fit(columns, stars > 3, classes=[False, True])
    assert partly.partial_fit(columns, stars > 3).model_.summary["epochs"] == 2
    query = np.arange(ROWS) // 10
    assert 0 < FMRanker(**quick).fit(columns, stars, qid=query).score(columns, stars, qid=query) <= 1
    assert FMFeatures(**quick).fit_transform(columns, stars + 0.5).shape == (ROWS, 3)


@pytest.mark.parametrize("cached", [False, True])
def test_chunks_train_what_all_their_rows_do(tmp_path, cached):
    more = {**QUICK, **({"cache": tmp_path / "rows.cache"} if cached else {})}
    starts = range(0, ROWS, PIECE)
    matrices = ((X[at : at + PIECE], Y[at : at + PIECE]) for at in starts)
    equal_parameters(fmcli.train(matrices, **more), fmcli.train((X, Y), **QUICK))
    names = [{"user": f"u{row % 13}", "film": f"f{row % 7}"} for row in range(ROWS)]
    order = np.argsort(Y)  # the first chunk has one label
    labels = np.where(np.median(Y) < Y, "yes", "no")[order]
    whole = fmcli.train(fmcli.Data(names, labels, weight=np.arange(ROWS) % 3), **QUICK)
    chunks = [
        fmcli.Data(names[at : at + PIECE], labels[at : at + PIECE], weight=np.arange(ROWS)[at : at + PIECE] % 3)
        for at in starts
    ]
    of_chunks = fmcli.train(chunks, **more)
    assert of_chunks.labels == ["no", "yes"]
    equal_parameters(of_chunks, whole)


def test_groups_may_continue_in_the_next_chunk():
    """Their values, which are texts here, tell which rows belong together, in any order."""
    of_group = np.array([f"q{row * 7 % 50}" for row in range(ROWS)])
    chunks = (
        fmcli.Data(X[at:end], Y[at:end], group=of_group[at:end]) for at, end in ((0, 7), (7, PIECE), (PIECE, ROWS))
    )
    ranked = {**QUICK, "loss": "bpr"}
    equal_parameters(fmcli.train(chunks, **ranked), fmcli.train(fmcli.Data(X, Y, group=of_group), **ranked))


def test_a_cache_is_that_of_the_command_and_used_again(run, tmp_path):
    text = "\n".join(
        f"{label:.3f} " + " ".join(f"{j}:{X[row, j]:.3f}" for j in X[[row]].indices) for row, label in enumerate(Y)
    )
    (tmp_path / "t.txt").write_text(text + "\n")
    run.ok("train", "--disk", "--cache", "command.cache", "-e", "3", "--seed", "2", "--no-quick-search", "t.txt")
    for _ in range(2):
        fmcli.train(tmp_path / "t.txt", cache=tmp_path / "t.cache", **QUICK).save(tmp_path / "python.fm")
        assert (tmp_path / "python.fm").read_bytes() == (tmp_path / "t.txt.fm").read_bytes()
        os.utime(tmp_path / "t.cache", ns=(1, 1))
    assert os.stat(tmp_path / "t.cache").st_mtime_ns == 1


def test_a_cache_of_several_shards_is_trained_on(tmp_path, monkeypatch):
    monkeypatch.setattr("fmcli.data.stored.cache.CHUNK_BYTES", 2_000)
    monkeypatch.setattr("fmcli.data.stored.cache.SHARD_BYTES", 2_000)
    chunks = ((X[at : at + PIECE], Y[at : at + PIECE]) for at in range(0, ROWS, PIECE))
    model = fmcli.train(chunks, cache=tmp_path / "c", valid=(X, Y), epochs=40, rank=2, memory=3, quick_search=False)
    assert model.evaluate((X, Y), ["r2"])["r2"] > 0.8


@pytest.mark.parametrize("several", [False, True], ids=["one shard", "several shards"])
@pytest.mark.parametrize("holdout", ["group:user:0.2", "time:rank:0.2", "last-of:user:2"])
def test_rows_that_a_cache_cannot_hold_out_are_refused(frames, holdout, several, tmp_path, monkeypatch):
    """Random rows in their place would be validation data of the groups that are trained on."""
    if several:
        monkeypatch.setattr("fmcli.data.stored.cache.CHUNK_BYTES", 2_000)
        monkeypatch.setattr("fmcli.data.stored.cache.SHARD_BYTES", 2_000)
    frame = frames[0].project("*, row_number() OVER () AS rank")
    for call in (fmcli.train, fmcli.tune):
        with pytest.raises(ValueError, match=r"a cache does not keep the groups of rows"):
            call(frame, label="stars", numeric=["rank"], holdout=holdout, cache=tmp_path / "c")


class WithoutPyarrow:
    """A frame of pandas where pyarrow is not installed."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise ImportError("`Import pyarrow` failed.")


RANKED = fmcli.Data(X, Y, group=np.arange(ROWS) // 10)
WRONG = {
    "the frame needs pyarrow to be read": lambda frames: fmcli.train(WithoutPyarrow(), label="stars"),
    "data has no chunks": lambda frames: fmcli.train(iter([])),
    "chunk 0 of data is of the type csr_array, not": lambda frames: fmcli.train(iter([X])),
    "chunk 1 of data differs from the first one": lambda frames: fmcli.train([(X, Y), (X, Y.astype(str))]),
    "cache and ranking cannot be combined: a cache": lambda frames: fmcli.train([RANKED], loss="bpr", cache="c"),
    "in texts as labels, weights, fields or groups": lambda frames: fmcli.train([RANKED, (X, Y)], loss="bpr"),
    "chunk 0 of data has a frame": lambda frames: fmcli.train([frames[1:]]),
    "memory needs cache": lambda frames: fmcli.train((X, Y), memory=5),
    "weight_column needs a frame with its labels": lambda frames: fmcli.train(frames[1:], weight_column="age"),
    "cache and ranking cannot be combined": lambda frames: fmcli.train(
        frames[0], label="stars", group_field="user", metrics="gauc", cache="c"
    ),
    "cache and holdout group:.., time:.. or last-of:.. cannot be combined": lambda frames: fmcli.train(
        frames[0], label="stars", cache="c", holdout="group:user:0.2"
    ),
    "group_field needs a frame with its labels": lambda frames: fmcli.train(
        frames[1:], group_field="user", metrics="gauc"
    ),
    r"y has a label that is missing \(None\)": lambda frames: fmcli.train((X, ["a", None] * (ROWS // 2))),
    r"y has the label 'b\\x07', expected": lambda frames: fmcli.train((X, ["a", "b\a"] * (ROWS // 2))),
    "memory is [-i][n5][f.]0*; it must be > 0": lambda frames: fmcli.train((X, Y), memory=-5, cache="c"),
    "cd needs all rows in memory; leave out cache": lambda frames: fmcli.train((X, Y), solver="cd", cache="c"),
    "is not a cache that fmcli has made": lambda frames: fmcli.train((X, Y), cache=__file__),
    "no column is the label; the columns are stars": lambda frames: fmcli.train(frames[0]),
    "the labels are given twice": lambda frames: fmcli.train(frames[1:], label="stars"),
    "y has 3 values, but X has 240 rows": lambda frames: fmcli.train((frames[1], [1, 2, 3])),
    "held out by a column only if label": lambda frames: fmcli.train(frames[1:], holdout="group:user:0.1"),
    "the fields of a frame are its columns": lambda frames: FMRegressor().fit(*frames[1:], fields=range(5)),
    "no column 'jobs'": lambda frames: FMRegressor(categorical=["jobs"]).fit(*frames[1:]),
    "only tables have columns to name": lambda frames: FMRegressor(categorical=["user"]).fit(X, Y),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_rows_are_value_errors(frames, message):
    with pytest.raises(ValueError, match=message) as caught:
        WRONG[message](frames)
    assert isinstance(caught.value, FmcliError)


def test_masked_values_are_refused_and_an_empty_mask_is_not():
    X = matrix()[0].toarray()
    masks = np.zeros(X.shape, dtype=bool), np.zeros(len(X), dtype=bool)
    whole, labels = (np.ma.masked_array(values, mask) for values, mask in zip((X, np.array(Y)), masks, strict=True))
    model = fmcli.train((whole, labels), epochs=1, holdout=0)
    np.testing.assert_array_equal(model.predict(whole), fmcli.train((X, Y), epochs=1, holdout=0).predict(X))
    estimator = FMRegressor(epochs=1).fit(whole, labels)
    masks[0][3, 1] = masks[1][2] = True
    holes, gaps = np.ma.masked_array(X, masks[0]), np.ma.masked_array(np.array(Y), masks[1])
    for call in (
        lambda: fmcli.Data(holes, Y),
        lambda: fmcli.train((holes, Y)),
        lambda: model.predict(holes),
        lambda: FMRegressor().fit(holes, Y),
        lambda: estimator.predict(holes),
    ):
        with pytest.raises(ValueError, match="X has masked values"):
            call()
    for call in (lambda: fmcli.Data(X, gaps), lambda: fmcli.train((X, gaps)), lambda: FMRegressor().fit(X, gaps)):
        with pytest.raises(ValueError, match="y has masked values"):
            call()


def test_the_type_of_a_column_that_is_not_read_has_the_name_of_pandas():
    pandas = pytest.importorskip("pandas")
    cut = pandas.cut(np.arange(40), 4)
    for column, name in ((cut, r"category of interval\[float64"), (pandas.IntervalIndex(cut), r"interval\[float64")):
        with pytest.raises(ValueError, match=f"the column 'c' has the type {name}"):
            fmcli.train(pandas.DataFrame({"y": [0, 1] * 20, "c": column}), label="y")
