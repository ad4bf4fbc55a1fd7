"""The transform of rows: columns, scales and groups, as they are learned, applied and kept."""

import tracemalloc

import numpy as np
import pytest
from problems import dataset

from fmcli.data.labels import FEW_CLASSES, Labels
from fmcli.data.scaling import MAX_ABS, learn
from fmcli.data.text.pieces import concatenated
from fmcli.data.text.prior_groups import PriorGroups
from fmcli.data.transform import Transform, every_column
from fmcli.registry.specs import make_spec
from fmcli.training import job, saving
from fmcli.training.setup.rows import DividedInMemory

pytestmark = pytest.mark.exact

LABELS = Labels("squared", None)


@pytest.mark.parametrize(("loss", "values"), [("squared", None), ("logistic", 2), ("softmax", 20), ("softmax", 21)])
def test_labels_take_the_bytes_that_they_need(loss, values, rng):
    rows, labels = 20_000, Labels(loss, values and tuple(range(values)))
    label = rng.integers(values or 9, size=rows).astype(np.float64)
    tracemalloc.start()
    encoded = labels.encode(label)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert labels.bytes_needed(rows) * 0.9 <= peak <= labels.bytes_needed(rows) + 10_000
    assert encoded is label if values is None else encoded.itemsize == (1 if values <= FEW_CLASSES else 8)


def test_columns_that_were_looked_up_for_few_features_do_not_hold_for_more():
    """Rows without a numbering may have any number of features; rare features share the last column."""
    frequent = np.array([True, False, True])
    transform = Transform(LABELS, 3).without_rare(frequent, share=True)
    numbering = transform.numbering
    assert every_column(3).ids.tolist() == [0, 1, 2]
    for features, entries in ((3, {0: 1.0, 1: 2.0, 2: 3.0}), (9, {2: 3.0, 8: 4.0}), (3, {1: 2.0})):
        data = transform.in_columns(dataset([entries], features, [0.0]))
        wanted = {numbering.written([j])[0]: 0.0 for j in range(len(numbering))}
        for feature, value in entries.items():
            wanted[feature if feature in (0, 2) else "(rare)"] += value
        found = dict.fromkeys(wanted, 0.0)
        values = np.ones(data.nnz) if data.value is None else data.value
        found |= dict(zip(numbering.written(data.index), values.tolist(), strict=True))
        assert found == wanted


def test_a_column_of_held_out_rows_only_has_their_scale():
    data = dataset([{0: 8.0}, {1: -2.0}, {1: 1.0}], 3, [0.0, 1.0, 2.0])
    rows = DividedInMemory(data, None, np.array([1, 2], np.int32), np.array([0], np.int32))
    assert learn(*rows.statistics(Transform(LABELS, 3), MAX_ABS), MAX_ABS).divisors.tolist() == [8, 2, 1]


def test_groups_are_kept_by_the_model_file(tmp_path):
    data = dataset([{0: 1.0, 2: 1.0}, {1: 1.0}, {0: 1.0, 1: 1.0}], 3, [0.0, 1.0, 2.0])
    groups = PriorGroups("file", np.array([5, 3, 5], np.int32), {})
    spec = make_spec("fm", "mcmc", "squared", {"epochs": 3, "burn_in": 0})
    path = str(tmp_path / "m")
    saving.save_model(path, job.train(job.plan(data, spec, groups=groups)), {}, "libsvm")
    assert saving.load_warm_start(path).transform.groups.tolist() == [5, 3, 5]


def test_rows_of_weight_1_are_joined_with_others():
    pieces = [dataset([{0: 1.0}], 1, [0.0]), dataset([{0: 1.0}], 1, [1.0]).changed(weight=np.array([3.0]))]
    assert concatenated(pieces).weight.tolist() == [1, 3]
