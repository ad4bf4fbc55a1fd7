"""Scaling: columns are divided by their scale on the training rows, in training and in prediction."""

import numpy as np
import pytest
from modelfiles import copy_of, export_arrays
from problems import dataset, random_rows
from test_training import save, train

from fmcli.cli.flags import flag_of
from fmcli.data import scaling
from fmcli.data.column_values import centered, moments
from fmcli.data.dataset import Dataset
from fmcli.data.scaling import ColumnStatistics, find_odd_columns
from fmcli.errors import BadInputError, UsageError
from fmcli.export.arrays import exported
from fmcli.export.kernel_form import kernel_form
from fmcli.inspect.inspection import inspect_model, views
from fmcli.model_file.container import load
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import load_model, scorer_of
from fmcli.training import job
from fmcli.training.saving import load_warm_start

FEATURES = 6
# Column 5 never occurs, column 4 is an indicator with value 1000, column 3 is 7 in every row, and the others have
# different scales.
SCALES = np.array([1e4, 1, 1e-3, 7, 1000])


def rows_of(rng, count=40):
    """Return random rows as samples and as a dense table."""
    table = rng.normal(2, 1, size=(count, FEATURES)) * np.append(SCALES, 0)
    table[rng.random((count, FEATURES)) < 0.4] = 0
    table[:, 3] = 7
    table[:, 4] = 1000 * (rng.random(count) < 0.1)
    table = table.astype(np.float32)
    return [{j: float(row[j]) for j in np.flatnonzero(row)} for row in table], table


def data_of(rng, count=40):
    rows, table = rows_of(rng, count)
    return dataset(rows, FEATURES, (table / np.append(SCALES, 1)).sum(axis=1)), table


def learned(data, rows, method):
    """Return the scaling that a run on these rows learns."""
    every = np.arange(data.rows, dtype=np.int32)
    return scaling.learn(*(ColumnStatistics.of(data, some, method) for some in (rows, every)), method)


@pytest.mark.parametrize("method", ["standard", "max-abs"])
def test_divisors_are_those_of_a_dense_table(method, rng):
    data, table = data_of(rng)
    rows = np.arange(0, 40, 2, dtype=np.int32)
    dense = table[rows].astype(float)
    expected = np.abs(dense).max(axis=0)
    if method == "standard":
        expected[:3] = dense[:, :3].std(axis=0)  # the other columns have only one value besides 0
    expected[expected == 0] = 1
    divisors = learned(data, rows, method).divisors
    np.testing.assert_allclose(divisors, expected, rtol=1e-6)
    assert divisors[5] == 1


def dense_of(data):
    """Return rows as a dense table; the entries are checked."""
    Dataset(data.indptr, data.index, data.value, None, data.features)
    assert data.value.all()
    table = np.zeros((data.rows, data.features))
    table[np.repeat(np.arange(data.rows), np.diff(data.indptr)), data.index] = data.value
    return table


def test_zscore_centers_the_columns_of_numbers_that_half_of_the_rows_have(rng):
    data, table = data_of(rng, 200)
    table = table.astype(float)
    table[:, 2] *= rng.random(200) < 0.5  # about 30 % of the rows have it
    data = dataset([{j: row[j] for j in np.flatnonzero(row)} for row in table], FEATURES)
    rows = np.arange(0, 200, 2, dtype=np.int32)
    expected = table / np.append(SCALES, 1)
    expected[:, 3] = 1
    expected[:, :3] = table[:, :3] / table[rows, :3].std(axis=0)
    expected[:, :2] -= table[rows, :2].mean(axis=0) / table[rows, :2].std(axis=0)
    scaled = learned(data, rows, "zscore").of(data)
    np.testing.assert_allclose(dense_of(scaled), expected, rtol=1e-4, atol=1e-5)
    assert np.count_nonzero(table[:, :2] == 0) > 100  # entries are added
    plain = dense_of(learned(data, rows, "standard").of(data))
    np.testing.assert_array_equal(dense_of(scaled)[:, 2:], plain[:, 2:])


def test_a_value_that_is_the_mean_has_no_entry():
    data = dataset([{0: 1.0, 1: 5.0}, {0: 2.0}, {0: 3.0, 1: 5.0}, {}], 3).take(np.arange(3))
    scaled = learned(data, np.arange(3, dtype=np.int32), "zscore").of(data)
    np.testing.assert_allclose(dense_of(scaled), [[-(1.5**0.5), 1, 0], [0, 0, 0], [1.5**0.5, 1, 0]], rtol=1e-6)
    assert scaled.indptr.tolist() == [0, 2, 2, 4]


def test_centers_help_on_columns_far_from_zero(rng):
    """Beside columns of mean 30 and deviation 1, the bias and weights hinder each other unless they are centered."""
    x = rng.normal(30, 1, size=(400, 3))
    data = dataset([dict(enumerate(row)) for row in x], 3, (x - 30) @ [1, -2, 1] + (x[:, 0] - 30) * (x[:, 1] - 30))
    kept = {method: train(data, scale=method, epochs=10, plan={"holdout": 0.25}) for method in ("standard", "zscore")}
    plain, centered = (min(epoch.valid["rmse"] for epoch in kept[method].epochs) for method in kept)
    assert centered < 0.5 * plain


def test_rows_with_fields_cannot_be_centered(rng):
    data = dataset(random_rows(rng, 30, FEATURES, fields=2), FEATURES, rng.normal(size=30))
    with pytest.raises(UsageError, match="ffm has fields"):
        job.plan(data, make_spec("ffm", options={"scale": "zscore"}))
    with pytest.raises(ValueError, match="fields"):
        centered(data, np.ones(FEATURES, np.float32), np.ones(FEATURES, np.float32))
    few = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="for each column"):
        centered(dataset([{4: 1.0}], FEATURES), few, few)


def test_columns_of_held_out_rows_alone_have_their_own_divisors():
    data = dataset([{0: 2.0}, {0: 4.0, 1: 500.0}], 3)
    np.testing.assert_array_equal(learned(data, np.array([0], dtype=np.int32), "max-abs").divisors, [2, 500, 1])


def test_a_standard_deviation_is_accurate_far_from_zero():
    values = np.array([1e4, 1e4 + 1, 1e4 + 2])
    data = dataset([{0: value} for value in values], 1)
    mean, squares = moments(data, np.arange(3, dtype=np.int32))
    assert np.sqrt(squares / 3) == pytest.approx(values.std(), rel=1e-12)
    assert mean == pytest.approx(values.mean())


def test_the_longest_row_is_found(rng):
    data, dense = data_of(rng)
    assert data.longest_square() == pytest.approx((dense**2).sum(axis=1).max(), rel=1e-6)
    assert data.normalized().longest_square() == pytest.approx(1, rel=1e-6)
    assert dataset([{}, {}], 3).longest_square() == 0


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("method", ["standard", "max-abs", "zscore"])
def test_a_scaled_run_is_a_run_on_scaled_rows(method, norm, rng, tmp_path):
    data, table = data_of(rng)
    trained = train(data, scale=method, norm=norm, epochs=3, plan={"holdout": 0.25})
    scaling_ = learned(data, trained.plan.rows, method)
    held = np.setdiff1d(np.arange(40), trained.plan.rows)
    assert np.abs(table[held]).max() > np.abs(table[trained.plan.rows]).max()  # held-out rows do not affect the scale
    divided = train(scaling_.of(data), norm=norm, epochs=3, plan={"holdout": 0.25})
    assert trained.epochs[-1].valid == divided.epochs[-1].valid
    assert np.isfinite(trained.epochs[-1].loss)
    one, two = (load_model(save(tmp_path, name, run)) for name, run in (("one", trained), ("two", divided)))
    for name, array in one.model.parameters.items():
        np.testing.assert_array_equal(array, two.model.parameters[name])
    other, _ = data_of(rng)
    np.testing.assert_array_equal(one.scores(other), two.scores(scaling_.of(other)))
    assert np.abs(one.scores(other) - two.scores(other)).max() > 0.01


def test_exported_arrays_check_a_prediction(rng, tmp_path):
    data, table = data_of(rng)
    path = save(tmp_path, "m", train(data, "linear", scale="standard", epochs=3))
    arrays = export_arrays(path)
    by_hand = arrays["bias"] + (table / arrays["scale"]) @ arrays["w"][0]
    np.testing.assert_allclose(load_model(path).scores(data)[:, 0], by_hand, rtol=1e-5)
    # inspect lists the method and the divisors. The divisors are not parameters of pairs, so no pairs are listed.
    figures = {view.name: found for view, found in views(inspect_model(path))}
    assert figures["options"]["scale"] == "standard"
    assert figures["arrays"][-1]["array"] == "scale"
    assert "pairs" not in figures


def test_the_kernel_form_keeps_the_scale(rng, tmp_path):
    data, _ = data_of(rng)
    path = save(tmp_path, "m", train(data, "lifted-anova", scale="max-abs", epochs=1))
    scorer = load_model(path)
    np.testing.assert_array_equal(kernel_form(path, scorer)[1]["scale"], exported(scorer)["scale"])


def test_resuming_keeps_the_scale_of_known_columns(rng, tmp_path):
    rows, _ = rows_of(rng)
    known = dataset([{j: x for j, x in row.items() if j != 1} for row in rows], FEATURES, np.arange(40.0))
    warm_start = load_warm_start(save(tmp_path, "old", train(known, scale="max-abs", epochs=1)))
    more = dataset([{j: 3 * x for j, x in row.items()} for row in rows], FEATURES, np.arange(40.0))
    scale = train(more, scale="max-abs", epochs=1, plan={"warm_start": warm_start}).plan.transform.scale
    rows_ = np.arange(40, dtype=np.int32)
    expected = learned(known, rows_, "max-abs").divisors
    expected[1] = learned(more, rows_, "max-abs").divisors[1]  # a new column, scaled by the new rows
    np.testing.assert_array_equal(scale.divisors, expected)
    old = load_warm_start(save(tmp_path, "centered", train(known, scale="zscore", epochs=1)))
    kept = train(more, scale="zscore", epochs=1, plan={"warm_start": old}).plan.transform.scale
    centers = learned(known, rows_, "zscore").centers
    centers[1] = learned(more, rows_, "zscore").centers[1]
    np.testing.assert_array_equal(kept.centers, centers)
    assert np.count_nonzero(centers) >= 3
    other = job.plan(more, make_spec(options={"scale": "standard"}), warm_start=warm_start)
    np.testing.assert_array_equal(other.transform.scale.divisors, learned(more, rows_, "standard").divisors)
    assert warm_start.continued(None, None, None, {}).values["scale"] == "max-abs"
    assert warm_start.run.changed(other.spec)["scale"] == ("max-abs", "standard")


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf])
def test_divisors_of_a_file_must_be_positive(value, rng, tmp_path):
    data, _ = data_of(rng)
    file = copy_of(load(save(tmp_path, "m", train(data, scale="max-abs", epochs=1))))
    file.tensors["scale"][2] = value
    with pytest.raises(BadInputError, match="scale has numbers that are not positive and finite"):
        scorer_of("m", file)
    centered = copy_of(load(save(tmp_path, "centered", train(data, scale="zscore", epochs=1))))
    centered.tensors["center"][0] = value if value * 0 != 0 else np.nan
    with pytest.raises(BadInputError, match="center has numbers that are not finite"):
        scorer_of("m", centered)
    del centered.tensors["center"]
    with pytest.raises(BadInputError, match="array center is missing"):
        scorer_of("m", centered)
    del file.tensors["scale"]
    with pytest.raises(BadInputError, match="array scale is missing"):
        scorer_of("m", file)


def test_columns_far_from_1_are_named(rng):
    data, _ = data_of(rng)
    everything = np.arange(40, dtype=np.int32)
    odd = find_odd_columns(data, everything, "none")
    assert (odd.large, odd.widest, odd.narrowest) == (1, 0, 2)
    assert "column 0 has values up to" in odd.found
    assert "--scale standard" in odd.way_out(flag_of)
    assert find_odd_columns(data, everything, "standard").way_out(flag_of) == "use --scale max-abs"
    for method in ("standard", "max-abs"):
        assert job.plan(data, make_spec(options={"scale": method})).odd_columns is None
    apart = dataset([{0: 500.0, 1: 0.1}, {0: 1.0, 1: 0.2}], 2)
    text = find_odd_columns(apart, everything[:2], "none").found
    assert "column 0 has values up to 500, column 1 only up to 0.2" in text
    usual = dataset(random_rows(rng, 30, FEATURES), FEATURES)
    assert find_odd_columns(usual, everything[:30], "none") is None
    assert find_odd_columns(dataset([{}], 1), everything[:1], "none") is None
