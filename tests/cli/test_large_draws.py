"""A model whose draws would take more than 64 MB keeps them in 16 bits, and every command takes it as any other."""

import numpy as np
import pytest
from inprocess import run_here

from fmcli.registry import options
from fmcli.training import draws

# Fewer bytes than the default, so that a smaller model has large draws.
MOST, USERS, ITEMS, RANK = 8_000_000, 7_500, 40, 16
COLUMNS = ["--label", "y", "--categorical", "user,item"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, the model of its rows, and the log of its training."""
    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    items, noise = rng.integers(ITEMS, size=USERS), rng.normal(size=USERS)
    rows = [
        f"{item % 5 + error:.2f},u{user},i{item}\n" for user, (item, error) in enumerate(zip(items, noise, strict=True))
    ]
    (folder / "rows.csv").write_text("y,user,item\n" + "".join(rows))
    (folder / "few.csv").write_text("y,user,item\n" + "".join(rows[:50]))
    (folder / "new.csv").write_text("y,user,item\n" + "".join(f"9,new{i % 2},i{i}\n" for i in range(20)))
    (folder / "users.csv").write_text("user\nu1\nu2\n")
    (folder / "items.csv").write_text("item\n" + "".join(f"i{item}\n" for item in range(ITEMS)))
    sizes = ["-k", str(RANK), "-e", "31", "--burn-in", "1", "-j", "2"]
    with pytest.MonkeyPatch.context() as patch:
        for module in (draws, options):
            patch.setattr(module, "MOST_DRAWN", MOST)
        command = ["train", *COLUMNS, "-s", "mcmc", *sizes, "--no-quick-search", "--holdout", "0"]
        done = run_here([*command, "-o", "m.fm", "rows.csv"], folder)
    assert done.returncode == 0, done.stderr
    (folder / "log").write_text(done.stderr)
    return folder


@pytest.fixture
def here(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)


def lines(done):
    return done.stdout.decode().splitlines()


def test_by_default_the_draws_take_64_mb():
    assert draws.MOST_DRAWN == options.MOST_DRAWN == 64_000_000


def test_the_draws_take_the_bytes_that_they_may(folder):
    count = 1 + (MOST - 4 * (numbers := 1 + (USERS + ITEMS) * (RANK + 1))) // (2 * numbers + 2)
    assert f"the model averages {count} later draws (7." in (folder / "log").read_text()
    assert " MiB, 16-bit numbers)\n" in (folder / "log").read_text()
    names = 8 * (USERS + ITEMS)  # the text of the dictionary, and the ends of names
    assert 0 < (folder / "m.fm").stat().st_size - MOST < 4 * names
    assert count > MOST // (4 * numbers) + 10


@pytest.mark.usefixtures("here")
def test_predictions_with_what_is_beside_them(run):
    found = np.array(
        [line.split() for line in lines(run.ok("predict", "--std", "--interval", "0.9", "m.fm", "few.csv"))]
    )
    prediction, std, low, high = found.astype(float).T
    assert np.isfinite(found.astype(float)).all()
    assert (std > 0).all()
    assert ((low < prediction) & (prediction < high)).all()
    parts = lines(run.ok("predict", "--explain", "3", "m.fm", "few.csv"))
    assert any("item=" in line for line in parts)
    top = lines(run.ok("recommend", "m.fm", "--given", "users.csv", "--over", "items.csv", "--top", "3"))
    assert len([line for line in top if line.startswith("u1")]) == 3
    done = run.fails(2, "export", "m.fm", "x.npz")
    assert "draws of all parameters, whose predictions only predict and evaluate can average" in done.stderr


@pytest.mark.usefixtures("here")
def test_updates_and_new_features(run):
    run.ok("train", "-q", "-i", "m.fm", "--only-new", "-o", "grown.fm", "new.csv")
    known = [lines(run.ok("predict", "-q", model, "few.csv")) for model in ("m.fm", "grown.fm")]
    assert known[0] == known[1]
    new = [
        np.mean([float(line) for line in lines(run.ok("predict", "-q", model, "new.csv"))])
        for model in ("m.fm", "grown.fm")
    ]
    assert new[1] > new[0] + 1
    done = run.ok("train", "-i", "m.fm", "-e", "3", "-o", "next.fm", "few.csv")
    assert "Wrote next.fm in " in done.stderr
    run.ok("inspect", "next.fm")
