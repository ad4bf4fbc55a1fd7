"""Models with fields (ffm), with groups (bilinear) and with tables of pairs (poly2): masks, groups, growth, errors."""

import itertools

import numpy as np
import pytest
from modelfiles import export_arrays
from problems import CLOSE, build, choices, dataset, fill, random_rows, score_all
from test_every_pair import planted, run

from fmcli.cli.flags import with_flags
from fmcli.data.numbering import moved
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.errors import BadInputError, UsageError
from fmcli.models.layout import REAL_TYPE
from fmcli.registry.specs import make_spec
from fmcli.scoring.scorer import load_model
from fmcli.training import job, saving
from reference import kinds, slow_models

pytestmark = pytest.mark.exact

FEATURES = 9


def allocated(name, **options):
    model = build(name, FEATURES, **options)
    model.allocate(0)
    return model


# ---- Identities ----


@pytest.mark.parametrize("by_row", [False, True])
def test_ffm_of_one_field_is_fm(rng, by_row):
    ffm, fm = allocated("ffm", rank=5, fields=1, by_row=by_row), allocated("fm", rank=5)
    for name, array in fill(fm, rng).items():
        ffm.parameters[name][...] = array[:, :, None] if name == "V" else array
    rows = random_rows(rng, 12, FEATURES)
    in_one_field = [{(j, 0): value for j, value in x.items()} for x in rows]
    np.testing.assert_allclose(
        score_all(ffm, dataset(in_one_field, FEATURES)), score_all(fm, dataset(rows, FEATURES)), **CLOSE
    )


def test_bilinear_is_fm_on_pairs_across(rng):
    """The FM score on x minus the FM scores on the entries of each group."""
    bilinear, fm = allocated("bilinear", rank=5, split_index=4), allocated("fm", rank=5)
    for name, array in fill(fm, rng).items():
        bilinear.parameters["UV" if name == "V" else name][...] = array
    rows = random_rows(rng, 12, FEATURES)
    below = [{j: value for j, value in x.items() if j < 4} for x in rows]
    above = [{j: value for j, value in x.items() if j >= 4} for x in rows]
    score, low, high = (score_all(fm, dataset(part, FEATURES)) for part in (rows, below, above))
    fm.parameters["V"][...] = 0
    linear = score_all(fm, dataset(rows, FEATURES))
    # The contribution of the pairs across groups is score - low - high + bias.
    want = linear + score - low - high + fm.parameters["bias"][0]
    np.testing.assert_allclose(score_all(bilinear, dataset(rows, FEATURES)), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("one_hot", [True, False])
def test_bilinear_of_two_one_hot_groups_is_ffm_of_two_fields(rng, one_hot):
    """The models are equal if each group has one entry. Otherwise, ffm also has pairs within a field."""
    bilinear, ffm = allocated("bilinear", rank=5, split_index=4), allocated("ffm", rank=5, fields=2)
    for name, array in fill(bilinear, rng).items():
        ffm.parameters["V" if name == "UV" else name][...] = array[:, :, None] if name == "UV" else array
    sizes = (1, 1) if one_hot else (2, 3)
    rows = []
    for _ in range(6):
        sides = rng.choice(4, sizes[0], False), 4 + rng.choice(5, sizes[1], False)
        rows.append({(int(j), f): 1.5 for f, side in enumerate(sides) for j in sorted(side)})
    data = dataset(rows, FEATURES)
    assert np.allclose(score_all(bilinear, data), score_all(ffm, data), **CLOSE) == one_hot


# ---- ffm ----


def trained(data, model="ffm", solver="adagrad", epochs=2, warm_start=None, **options):
    spec = make_spec(model, solver, "squared", {"epochs": epochs, "norm": False, **options})
    return job.train(job.plan(data, spec, warm_start=warm_start))


def saved(done, path, **keywords):
    """Save a trained model and load it as the model that a later run resumes from."""
    saving.save_model(str(path), done, job.summary(done), "ffm", **keywords)
    return saving.load_warm_start(str(path))


ROWS = [{(0, 0): 1.0, (1, 1): 2.0}, {(0, 0): 1.0, (2, 1): 1.0, (3, 1): 1.0}, {(4, 2): 1.0}, {(5, 0): 1.0, (5, 1): 1.0}]
# The (feature, field) factors that are used in a pair. Field 2 occurs alone, features 2 and 3 have the same field, and
# feature 5 forms a pair with itself.
MET = {(0, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (5, 0), (5, 1)}
LABELS = [1.0, -1.0, 2.0, 0.5]


def whole(plan, array):
    """An array of a model with rows for all features: zeros for features that do not occur."""
    return moved(array, 1, slice(None), plan.data.numbering.ids, plan.data.dimension)


def not_zero(plan):
    return {(int(j), int(f)) for _, j, f, _ in np.argwhere(whole(plan, plan.model.parameters["V"]))}


@pytest.mark.parametrize("group_l1", [0.0, 1e-6])
@pytest.mark.parametrize("epochs", [0, 3])
@pytest.mark.parametrize("solver", ["sgd", "adagrad", "ftrl", "fobos"])
def test_factors_without_a_pair_are_zero(solver, epochs, group_l1):
    done = trained(dataset(ROWS, 7, LABELS), "ffm", solver, epochs, group_l1=group_l1)
    assert not_zero(done.plan) == MET


def test_factors_are_for_the_fields_of_all_pairs(rng):
    """Most features are the first or second entry of rows with the same fields and with other ones."""
    features = np.sort(rng.permuted(np.tile(np.arange(FEATURES), (40, 1)), axis=1)[:, :2], axis=1)
    fields = rng.integers(5, size=(40, 2))
    rows = [dict.fromkeys(zip(j, f, strict=True), 1.0) for j, f in zip(features.tolist(), fields.tolist(), strict=True)]
    met = {(j, g) for x in rows for j, f in x for k, g in x if k != j}
    assert not_zero(trained(dataset(rows, FEATURES, rng.uniform(size=40)), "ffm", "sgd", 0).plan) == met


def test_rows_held_out_do_not_count():
    plan = job.plan(dataset(ROWS * 5, 7, LABELS * 5), make_spec("ffm", "sgd", "squared", {"epochs": 0}))
    plan.model.prepare(TrainingRows(plan.data, np.array([0, 2], dtype=np.int32)), None)
    assert not_zero(job.train(plan).plan) == {(0, 1), (1, 0)}


def test_unknown_fields_and_an_index_in_several_fields(rng):
    """Entries with fields unknown to the model are in no pair, but their linear weights count."""
    rows = random_rows(rng, 20, FEATURES, fields=6)
    assert any(len({j for j, _ in x}) < len(x) for x in rows)
    for options in ({"by_row": False}, {"by_row": True}):
        model = allocated("ffm", rank=4, **options)
        params = fill(model, rng)
        slow = [slow_models.score("ffm", params, x, choices(model)) for x in rows]
        np.testing.assert_allclose(score_all(model, dataset(rows, FEATURES)), slow, **CLOSE)


@pytest.mark.parametrize("group_l1", [0.0, 1e-6])
@pytest.mark.parametrize("solver", ["sgd", "adagrad", "ftrl"])
def test_ffm_grows_for_new_features_fields_and_pairs(tmp_path, solver, group_l1):
    first = trained(dataset(ROWS, 7, LABELS), solver=solver, group_l1=group_l1)
    warm_start = saved(first, tmp_path / "first", keep_state=True)
    new = [{(0, 0): 1.0, (4, 2): 1.0}, {(2, 1): 1.0, (8, 3): 1.0}]
    data = dataset(new, 10, [1.0, 2.0])
    start = trained(data, solver=solver, group_l1=group_l1, epochs=0, warm_start=warm_start, seed=5).plan
    v = whole(start, start.model.parameters["V"])
    assert v.shape == (1, 10, 4, 4)
    assert not_zero(start) == MET | {(0, 2), (4, 0), (8, 1), (2, 3)}
    # Known parameters and their state are the same to the bit; FTRL recomputes them from its state.
    old = {name: whole(first.plan, first.plan.model.parameters[name]) for name in ("V", "w")}
    for j, f in MET:
        assert (v[0, j, f] == old["V"][0, j, f]).all()
    np.testing.assert_array_equal(whole(start, start.model.parameters["w"])[:, :7], old["w"])
    for name, slots in start.model.states.items():
        for slot, state in enumerate(slots):
            kept = first.plan.model.states[name][slot]
            if name != "bias":
                kept, state = whole(first.plan, kept), whole(start, state)
            known = (slice(None), *np.transpose(sorted(MET))) if name == "V" else tuple(map(slice, kept.shape))
            np.testing.assert_array_equal(state[known], kept[known])
    done = trained(data, solver=solver, group_l1=group_l1, warm_start=warm_start)
    assert (whole(done.plan, done.plan.model.parameters["V"])[0, 8, 1] != v[0, 8, 1]).all()
    # The third run knows the parameters that are new in the second.
    again = trained(data, solver=solver, group_l1=group_l1, epochs=0, warm_start=saved(done, tmp_path / "second"))
    np.testing.assert_array_equal(again.plan.model.parameters["V"], done.plan.model.parameters["V"])


def test_exported_ffm_has_parameters_only(tmp_path):
    path = tmp_path / "model"
    saved(trained(dataset(ROWS, 7, LABELS)), path)
    arrays = export_arrays(str(path))
    assert {name: array.shape for name, array in arrays.items()} == {"bias": (1,), "w": (1, 7), "V": (1, 7, 3, 4)}


def test_rows_without_fields_are_refused():
    for model in ("ffm", "bilinear"):
        with pytest.raises(BadInputError, match=f"have no fields.*{model}"):
            trained(dataset([{0: 1.0}], 1, [1.0]), model)


# ---- bilinear ----


def test_groups_come_from_fields(tmp_path):
    rows = [{(0, 0): 1.0, (3, 1): 2.0, (5, 2): 1.0}, {(1, 0): 1.0, (4, 1): 1.0, (5, 3): 1.0}]
    done = trained(dataset(rows, 7, [1.0, 2.0]), "bilinear", init_std=0.5)
    warm_start = saved(done, tmp_path / "model")
    arrays = export_arrays(str(tmp_path / "model"))
    assert arrays["group"].tolist() == [0, 0, -1, 1, 1, -1, -1]
    assert arrays.keys() == {"bias", "w", "U", "V", "group"}
    for name, side in (("U", 0), ("V", 1)):
        assert (arrays[name] != 0).any(axis=(0, 2)).tolist() == (arrays["group"] == side).tolist()
    # Scoring uses the group of a feature, not its field, so the rows need no fields.
    x = {0: 1.0, 3: 2.0, 4: -1.0, 5: 0.5}
    a = arrays["U"][0, 0]
    b = 2 * arrays["V"][0, 3] - arrays["V"][0, 4]
    want = arrays["bias"][0] + sum(arrays["w"][0, j] * x[j] for j in x) + a @ b
    loaded = load_model(str(tmp_path / "model"))
    assert not loaded.needs_fields
    assert loaded.scores(dataset([x], 7))[0, 0] == pytest.approx(want, rel=1e-5)
    # If training resumes, known features keep their groups, and new features get groups.
    more = dataset([{(0, 0): 1.0, (8, 1): 1.0}], 9, [1.0])
    assert trained(more, "bilinear", warm_start=warm_start).plan.model.constants["group"].tolist() == [
        *[0, 0, -1, 1, 1, -1, -1],
        *[-1, 1],
    ]
    with pytest.raises(BadInputError, match="feature 3 occurs in field 0, but in field 1 in the data of the earlier"):
        trained(dataset([{(3, 0): 1.0}], 7, [1.0]), "bilinear", warm_start=warm_start)


@pytest.mark.parametrize(("other", "words"), [(1, "field 1"), (5, "another field")])
def test_a_feature_on_both_sides_is_refused(other, words):
    with pytest.raises(BadInputError, match=f"feature 2 occurs in field 0 and in {words}"):
        trained(dataset([{(2, 0): 1.0}, {(1, 1): 1.0, (2, other): 1.0}], 3, [1.0, 2.0]), "bilinear")


def test_other_fields_of_a_feature_are_one_coordinate():
    rows = [{(0, 0): 1.0, (1, 1): 1.0, (2, 2): 1.0, (2, 3): 2.0}]
    apart = trained(dataset(rows, 3, [1.0]), "bilinear")
    summed = trained(dataset([{(0, 0): 1.0, (1, 1): 1.0, (2, 2): 3.0}], 3, [1.0]), "bilinear")
    for name, array in apart.plan.model.parameters.items():
        np.testing.assert_array_equal(array, summed.plan.model.parameters[name])


# ---- poly2 ----


@pytest.mark.parametrize("lengths", [[600], [0, 3, 91, 92, 1, 91, 2, 92, 30]])
def test_pairs_share_entries(lengths, rng):
    """The first steps on rows with up to 179,700 pairs, which share 2^12 entries."""
    rows = [
        {int(j): float(np.float32(rng.uniform(0.5, 1.5))) for j in sorted(rng.choice(1000, size=n, replace=False))}
        for n in lengths
    ]
    data = dataset(rows, 1000, np.ones(len(rows)))
    done = run("poly2", "sgd", "squared", data, epochs=1, pair_bits=12, l2=0.0, learning_rate=1e-10, bias=False)
    table = done.plan.model.parameters["W"][0]
    want = np.zeros(1 << 12)
    for x in rows:
        for i, j in itertools.combinations(x, 2):
            want[kinds.splitmix64((i << 32) + j) >> 52] += x[i] * x[j]
    np.testing.assert_allclose(table, 1e-10 * want, rtol=1e-4)
    table[...] = rng.normal(size=len(table))
    together = score_all(done.plan.model, data)
    assert len(set(together.flat)) >= len(set(lengths)) - 1
    np.testing.assert_array_equal(together, [score_all(done.plan.model, dataset([x], 1000))[0] for x in rows])


def test_poly2_grows_while_its_table_is_exact(tmp_path):
    rows = [{0: 1.0, 2: 1.0}, {1: 2.0, 2: 1.0}]
    warm_start = saved(trained(dataset(rows, 3, [1.0, 2.0]), "poly2", pair_bits=4), tmp_path / "model")
    wide = dataset([{2: 1.0, 4: 1.0}], 5, [1.0])
    done = trained(wide, "poly2", pair_bits=4, epochs=0, warm_start=warm_start).plan.model
    old = warm_start.model.parameters["W"]
    assert done.parameters["W"].shape == (1, 10)
    np.testing.assert_array_equal(done.parameters["W"][:, :3], old)
    assert not done.parameters["W"][:, 3:].any()
    with pytest.raises(UsageError, match=r"there are 28 pairs, more than 2\^4$") as caught:
        trained(dataset([{7: 1.0}], 8, [1.0]), "poly2", pair_bits=4, warm_start=warm_start)
    assert with_flags(caught.value).endswith("; use --pair-bits 5")
    assert trained(dataset([{7: 1.0}], 8, [1.0]), "poly2", pair_bits=5, warm_start=warm_start).plan.model.parameters[
        "W"
    ].shape == (1, 28)
    hashed = saved(trained(dataset(rows, 3, [1.0, 2.0]), "poly2", pair_bits=1), tmp_path / "hashed")
    with pytest.raises(UsageError, match="has W of shape") as caught:
        trained(wide, "poly2", pair_bits=3, warm_start=hashed)
    assert caught.value.options == {"pair_bits": 1}


def test_pairs_that_never_occur_have_no_weight():
    data, _ = planted("poly2", "squared")
    few = data.take(np.arange(20))
    table = run("poly2", "adagrad", "squared", few, epochs=2).plan.model.parameters["W"][0]
    occur = {
        j * (j - 1) // 2 + i
        for x in np.split(few.index, few.indptr[1:-1])
        for at, j in enumerate(x.tolist())
        for i in x[:at].tolist()
    }
    assert set(np.flatnonzero(table).tolist()) == occur
    assert table.dtype == REAL_TYPE
