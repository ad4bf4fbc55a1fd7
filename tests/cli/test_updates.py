"""Updates of a model by the rows of a night (train -i), by cd and lbfgs; see also ../test_nights.py."""

import numpy as np
import pytest

from fmcli.model_file.container import load


def ratings(rng, users=12, rows=1200, noise=0.1):
    """Ratings of an FM with interactions: the columns of the two features of each row, labels, and text."""
    index = np.stack([rng.integers(0, users, rows), rng.integers(users, 2 * users, rows)], axis=1)
    v = rng.normal(size=(2 * users, 3))
    y = 3.5 + (v[index[:, 0]] * v[index[:, 1]]).sum(axis=1) + noise * rng.normal(size=rows)
    return index, y, [f"{label:.4f} {i}:1 {j}:1\n" for label, (i, j) in zip(y, index, strict=True)]


def test_what_a_quick_search_chose_is_as_many_times_the_default_of_all_rows(run, rng, tmp_path):
    """So it is inherited, and the log says so; a given strength remains as it is."""
    _, _, lines = ratings(rng)
    (tmp_path / "n0").write_text("".join(lines[:600]))
    (tmp_path / "n1").write_text("".join(lines[600:]))
    run.ok("train", "--quick-search", "-q", "-s", "cd", "-o", "m", "n0")
    file = load(str(tmp_path / "m"))
    chosen = file.meta["multiples"]
    factor = chosen["l2_v"]
    assert file.meta["options"]["l2_v"] == pytest.approx(factor * 10 / 480)  # a fifth was held out
    log = run.ok("train", "-i", "m", "-o", "n", "n1").stderr
    assert f"is {factor:.3g} times the default for all rows, as in m\n" in log
    after = load(str(tmp_path / "n")).meta
    assert after["options"]["l2_v"] == pytest.approx(factor * 10 / 1200)
    assert after["multiples"] == chosen
    run.ok("train", "-q", "-i", "m", "--l2-v", "0.5", "-o", "n", "n1")
    assert load(str(tmp_path / "n")).meta["multiples"] == {
        name: times for name, times in chosen.items() if name != "l2_v"
    }


@pytest.mark.parametrize("options", [["--disk", "--cache", "c", "--memory", "1"], []], ids=str)
def test_it_does_not_matter_where_rows_are(run, rng, tmp_path, options):
    index, _, lines = ratings(rng)
    (tmp_path / "t").write_text("".join(lines))
    run.ok("train", "-q", "-s", "lbfgs", "-e", "30", "--holdout", "0", *options, "-o", "m", "t")
    file = load(str(tmp_path / "m"))
    assert file.meta["past"] == len(lines)
    np.testing.assert_allclose(file.tensors["past.curvature.w"].ravel(), np.bincount(index.ravel()))
    V = file.tensors["V"][0].astype(float)
    curvature = np.zeros_like(V)
    np.add.at(curvature, index, V[index[:, ::-1]] ** 2)
    np.testing.assert_allclose(file.tensors["past.curvature.V"][0], curvature, rtol=1e-4, atol=1e-7)


def test_new_features_that_are_learned_alone_are_held_later(run, rng, tmp_path):
    index, _, lines = ratings(rng)
    new = index[:, 0] == 3
    for name, some in (("old", ~new), ("new", new)):
        (tmp_path / name).write_text("".join(lines[row] for row in np.flatnonzero(some)))
    run.ok("train", "-q", "-s", "cd", "--no-refit", "--holdout", "0", "-o", "m", "old")
    run.ok("train", "-q", "--only-new", "-i", "m", "-o", "m", "new")
    curvatures = load(str(tmp_path / "m")).tensors["past.curvature.w"][0]
    assert curvatures[3] == new.sum()
    assert curvatures[0] == np.sum(index[:, 0] == 0)


def test_factors_begin_anew_once_the_earlier_rows_show_interactions(run, rng, tmp_path):
    """The first night has too few rows: the penalty sends its factors to 0, from which one epoch does not take them."""
    _, _, lines = ratings(rng)
    logs = []
    for night in range(8):
        (tmp_path / "n").write_text("".join(lines[30 * night : 30 * night + 30]))
        options = ["-i", "m"] if night else ["-s", "cd", "--no-quick-search", "-e", "20"]
        logs.append(run.ok("train", *options, "-o", "m", "n").stderr)
        if not night:
            assert np.abs(load(str(tmp_path / "m")).tensors["V"]).max() < 0.01
    begun = ["restarted the factors: interactions of the earlier rows" in log for log in logs]
    assert begun[0] < any(begun)
    assert np.abs(load(str(tmp_path / "m")).tensors["V"]).max() > 0.1


@pytest.mark.parametrize("kind", ["anova", "sha2"])
def test_dead_factors_of_other_kinds_begin_at_start_values(run, rng, tmp_path, kind):
    _, _, lines = ratings(rng)
    for night in range(2):
        (tmp_path / "n").write_text("".join(lines[30 * night : 30 * night + 30]))
        options = ["-i", "m"] if night else ["-m", kind, "-s", "cd", "--no-quick-search", "--l2-v", "9"]
        done = run.ok("train", *options, "-o", "m", "n")
        factors = np.abs(load(str(tmp_path / "m")).tensors["V"]).max()
        assert factors < 1e-6 or night
    assert "restarted the factors, which were near 0 because the rows were too few" in done.stderr


def test_a_file_without_the_loss_of_its_rows(run, rng, tmp_path):
    (tmp_path / "t").write_text("".join(ratings(rng)[-1]))
    run.ok("train", "-q", "-s", "cd", "--no-keep-state", "-o", "m", "t")
    assert load(str(tmp_path / "m")).meta["past"] is None
