"""fmcli train -i: training resumes from an earlier model, exactly if its solver state was kept."""

import json

import numpy as np
import pytest
from problems import ROW_SOLVERS

from fmcli.model_file.container import load
from fmcli.scoring.scorer import load_model


@pytest.fixture
def halves(sample, tmp_path):
    """The adult sample as files "whole", "first" and "second"."""
    lines = (sample / "adult.train.libsvm").read_bytes().splitlines(keepends=True)
    for name, part in (("whole", lines), ("first", lines[:1250]), ("second", lines[1250:])):
        (tmp_path / name).write_bytes(b"".join(part))


def kept(folder, model):
    """Return the arrays of a model file that training has changed, including the solver's state."""
    arrays = load(str(folder / model)).tensors
    return {name: array for name, array in arrays.items() if name not in ("seen", "counts", "together")}


def assert_same(folder, *models):
    first, *others = (kept(folder, model) for model in models)
    for other in others:
        assert first.keys() == other.keys()
        for name in first:
            assert first[name].tobytes() == other[name].tobytes(), name


EXACT = [
    ("ftrl", ["-s", "ftrl", "--l1", "1", "--l1-from-epoch", "1", "--alpha", "0.5"]),
    ("ftrl-from-start", ["-s", "ftrl"]),
    ("adagrad", ["-s", "adagrad", "-r", "0.5"]),
    ("sgd-schedule", ["-s", "sgd", "-r", "0.1", "--schedule", "invscaling"]),
    ("fobos-adaptive", ["-s", "fobos", "--adaptive", "--l1", "1e-4", "-r", "0.5", "--prox", "exact"]),
    ("sglfm", ["-m", "sglfm", "--l1-from-epoch", "1", "--no-adaptive", "-r", "0.1", "--prox", "exact"]),
    ("sha2", ["-m", "sha2", "--l1", "1", "--l1-from-epoch", "1"]),
    ("hofm", ["-m", "hofm", "-k", "4/2"]),
    # l1 begins to act at the end of an epoch, which is at another row in the halves.
    ("hofm-shared", ["-m", "hofm-shared", "-s", "ftrl", "--order", "4", "--l1-from-epoch", "1"]),
    ("hofm-simplex", ["-m", "hofm-simplex", "-s", "adagrad", "--order", "3"]),
    ("all-subsets", ["-m", "all-subsets", "-s", "adagrad", "-k", "3"]),
]


@pytest.mark.parametrize("options", [row[1] for row in EXACT], ids=[row[0] for row in EXACT])
def test_training_on_two_halves_equals_training_on_the_whole(run, halves, tmp_path, options):
    def train(name, data, init=None, epochs="1"):
        go_on = ["-i", init] if init else []
        done = run.ok("train", "--no-shuffle", "--keep-state", *options, "-e", epochs, *go_on, "-o", name, data)
        assert (": weights and solver state after " in done.stderr) == bool(init)

    train("start", "whole", epochs="0")
    train("a", "first", "start")
    train("ab", "second", "a")
    train("both", "whole", "start")
    assert_same(tmp_path, "ab", "both")
    # What is not in arrays is the same, too: a further run gives the same model.
    train("ab2", "whole", "ab")
    train("both2", "whole", "both")
    assert_same(tmp_path, "ab2", "both2")
    with pytest.raises(AssertionError):
        assert_same(tmp_path, "a", "both")


def test_without_state_only_the_weights_go_on(run, halves, tmp_path):
    options = ["--no-shuffle", "-e", "1", "-r", "0.5"]
    run.ok("train", "--no-keep-state", *options, "-o", "a", "first")
    done = run.ok("train", *options, "-i", "a", "-o", "b", "second")
    assert "\nresuming from a: weights after 1 epoch; " in done.stderr
    run.ok("train", *options, "-o", "a2", "first")
    assert (tmp_path / "a2").stat().st_size > (tmp_path / "a").stat().st_size
    run.ok("train", *options, "-i", "a2", "-o", "b2", "second")
    with pytest.raises(AssertionError):
        assert_same(tmp_path, "b", "b2")
    # Another solver ignores the state.
    done = run("train", "-s", "sgd", "-e", "1", "-i", "a2", "-o", "c", "second")
    assert "\nresuming from a2: weights after 1 epoch; " in done.stderr
    assert "\nchanged: solver sgd (was adagrad), --learning-rate 0.01 (was 0.5)\n" in done.stderr


def test_no_epochs_leave_an_earlier_model_as_it_is(run, halves, tmp_path):
    run.ok("train", "-o", "a", "whole")
    run.ok("train", "-e", "0", "-i", "a", "-o", "b", "first")
    assert_same(tmp_path, "a", "b")


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "ftrl", "fobos"])
def test_a_model_grows_for_new_features(run, halves, tmp_path, solver):
    run.ok("train", "--keep-state", "-s", solver, "-o", "a", "whole")
    (tmp_path / "more").write_text("1 3:1 300:1\n-1 4:1 200:1\n" * 20)
    done = run.ok("train", "--keep-state", "-s", solver, "-i", "a", "-o", "b", "more")
    assert "; 2 new features\n" in done.stderr
    before, after = (load_model(str(tmp_path / name)) for name in "ab")
    assert (before.model.features, after.model.features) == (122, 301)
    old, new = before.model.parameters, after.model.parameters
    assert (old["w"][:, 5:] == new["w"][:, 5:122]).all() or solver == "fobos"  # its penalty acts on every feature
    assert (old["w"][:, 3] != new["w"][:, 3]).all()
    assert new["w"][0, 300] > 0 > new["w"][0, 200]
    assert new["V"][0, 300].all()
    assert not new["V"][0, 299].any()
    assert after.seen[[200, 300]].all()
    assert (after.seen[:122] == before.seen).all()
    done = run("predict", "b", input=b"300:1\n200:1\n")
    first, second = map(float, done.stdout.split())
    assert first > second
    assert "unseen" not in done.stderr


def test_labels_and_loss_stay_those_of_the_earlier_model(run, halves, tmp_path):
    run.ok("train", "--loss", "squared-hinge", "-o", "a", "whole")
    done = run("train", "-i", "a", "-o", "b", "second")
    assert "; loss squared-hinge: from a\n" in done.stderr
    (tmp_path / "other").write_text("0 1:1\n1 1:1\n")
    done = run.fails(65, "train", "-i", "a", "-o", "c", "other")
    assert "the model does not know the label 0, only -1, 1" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "shfm"], "a is a model of kind fm, whose parameters do not fit shfm; use -m fm"),
        (["-k", "3"], "a has V of shape (1, 121, 8), this run (1, 121, 3); use --rank 8"),
        (["--no-bias"], "a and this run differ in having bias"),
        (["--loss", "squared"], "a was trained with loss logistic, not squared, whose labels mean something else"),
    ],
)
def test_other_models_are_refused_before_data_is_read(run, halves, tmp_path, options, message):
    run.ok("train", "-q", "-e", "0", "-o", "a", "first")
    (tmp_path / "bad").write_text("no data\n")
    done = run.fails(2, "train", *options, "-i", "a", "-o", "b", "bad")
    assert message in done.stderr
    assert not (tmp_path / "b").exists()


def test_another_order_is_refused_even_where_parameters_look_alike(run, halves, tmp_path):
    options = ["-q", "-m", "anova", "-e", "0"]
    run.ok("train", *options, "--order", "3", "-o", "a", "first")
    done = run.fails(2, "train", "--order", "4", "-i", "a", "-o", "b", "first")
    assert "a is of order 3, not 4; use --order 3" in done.stderr


def test_a_model_may_resume_into_its_own_file_and_says_what_changes(run, halves, tmp_path):
    run.ok("train", "-q", "-k", "3", "--l2", "1e-3", "-e", "2", "--holdout", "0", "first")
    done = run.ok("train", "-i", "first.fm", "-e", "1", "--log-json", "log", "first")
    assert "\nresuming from first.fm: weights and solver state after 2 epochs; 0 new features\n" in done.stderr
    assert "\nas in first.fm: --l2 0.001, --rank 3\n" in done.stderr
    assert "\nchanged: " not in done.stderr
    assert "\nepoch 3  loss " in done.stderr
    assert json.loads((tmp_path / "log").read_text().splitlines()[1])["epoch"] == 3
    done = run("train", "-i", "first.fm", "-o", "first.fm", "-m", "sglfm", "-e", "1", "first")
    assert "\nresuming from first.fm: weights after 3 epochs; " in done.stderr
    assert "\nchanged: model sglfm (was fm), solver fobos (was adagrad)" in done.stderr
    done = run.fails(2, "train", "-i", "first.fm", "--log-json", "first.fm", "-o", "b", "first")


ONE_EPOCH = "\none epoch by default: more would make the model forget older rows (-e sets another number)\n"
USERS, NEWCOMERS, FILMS, RANK = 60, 15, 40, 3


@pytest.fixture
def ratings(tmp_path):
    """Write rows of users and films, labeled by an FM: of known users and of newcomers, to train on and to check."""
    rng = np.random.default_rng(0)
    users, films = 0.7 * rng.normal(size=(USERS + NEWCOMERS, RANK)), 0.7 * rng.normal(size=(FILMS, RANK))
    levels = 0.5 * rng.normal(size=USERS + NEWCOMERS)
    for name, rows, begin, end in (("old", 6000, 0, USERS), ("new", 900, USERS, USERS + NEWCOMERS)):
        for part, share in (("train", rows), ("check", rows)):
            user, film = rng.integers(begin, end, share), rng.integers(FILMS, size=share)
            label = levels[user] + (users[user] * films[film]).sum(axis=1) + rng.normal(size=share)
            pairs = zip(label, user, film, strict=True)
            (tmp_path / f"{name}.{part}").write_text("".join(f"{y:.3f} {u}:1 {100 + f}:1\n" for y, u, f in pairs))


@pytest.mark.parametrize("solver", ROW_SOLVERS)
def test_an_update_by_the_defaults_learns_newcomers_and_keeps_the_others(run, ratings, solver):
    """Held-out rows of known users may become worse by .5 %. More epochs, without state, make them worse than that."""

    def rmse(model):
        figures = [run("evaluate", "-q", "--json", "-x", "rmse", model, f"{part}.check") for part in ("old", "new")]
        return [json.loads(done.stdout)["metrics"]["rmse"] for done in figures]

    first = ("train", "-q", "-s", solver, "-e", "60", "-o", "m", "old.train")
    run.ok(*first)
    done = run.ok("train", "-i", "m", "-o", "updated", "new.train")
    assert ONE_EPOCH in done.stderr
    (old, new), (old_after, new_after) = rmse("m"), rmse("updated")
    assert old_after < 1.005 * old
    assert new_after < 0.97 * new
    run(*first, "--no-keep-state")
    run("train", "-q", "-i", "m", "-e", "30", "-o", "often", "new.train")
    assert rmse("often")[0] > 1.005 * old


@pytest.mark.parametrize("more", [[], ["-v", "old.check"], ["--holdout", "0.2"]], ids=" ".join)
def test_validation_data_choose_the_epoch_of_an_update(run, ratings, tmp_path, more):
    """Without them an update has one epoch; rows are held out only if that is asked for."""
    run("train", "-q", "-e", "2", "-o", "m", "old.train")
    done = run.ok("train", "-i", "m", "-o", "n", "--log-json", "log", *more, "new.train")
    assert (ONE_EPOCH in done.stderr) == (not more)
    epochs = [json.loads(line).get("epoch") for line in (tmp_path / "log").read_text().splitlines()]
    assert (4 in epochs) == bool(more)


@pytest.mark.parametrize(
    ("solver", "option"), [("cd", "--init-strength=0"), ("lbfgs", "--init-strength=0"), ("mcmc", "")]
)
def test_solvers_of_all_rows_warn_that_they_forget(run, ratings, solver, option):
    run("train", "-q", "-e", "5", "-s", solver, "-o", "m", "old.train")
    done = run("train", "-i", "m", "-e", "5", "-o", "n", *filter(None, [option]), "new.train")
    forgets = f"fmcli: warning: {solver} fits these rows alone, and forgets the rows that m was trained on"
    assert forgets in done.stderr
    if option:
        done = run("train", "-i", "m", "-e", "5", "-o", "n", "new.train")
        assert "earlier rows hold parameters near their values (--init-strength" in done.stderr
        assert forgets not in done.stderr


def test_new_users_are_learned_alone_and_in_memory(run, ratings, tmp_path):
    """Predictions of known users stay the same bytes; predict --fold-in equals the grown model."""
    run.ok("train", "-q", "-e", "30", "-o", "m", "old.train")
    done = run.ok("train", "-i", "m", "--only-new", "-o", "n", "new.train")
    assert "the rest of m is unchanged" in done.stderr
    before, after = (run.ok("predict", "-q", model, "old.check").stdout for model in "mn")
    assert before == after
    grown, folded = run.ok("predict", "n", "new.check"), run.ok("predict", "--fold-in", "new.train", "m", "new.check")
    assert grown.stdout == folded.stdout != run.ok("predict", "m", "new.check").stdout
    assert "new features from 900 rows of new.train" in folded.stderr
    run.ok("train", "-q", "-i", "m", "--only-new", "--disk", "--cache", "c", "-o", "d", "new.train")
    from_disk = np.array(run.ok("predict", "d", "new.check").stdout.split(), dtype=float)
    np.testing.assert_allclose(from_disk, np.array(grown.stdout.split(), dtype=float), atol=1e-4)
    again = run.ok("train", "-i", "n", "--only-new", "-o", "same", "new.train")
    assert "n has seen all features of the rows: the model is as it was" in again.stderr
    assert (tmp_path / "n").read_bytes() == (tmp_path / "same").read_bytes()
    run.fails(2, "train", "--only-new", "-o", "x", "new.train")
    for option in ("-s cd", "--patience 1", "-x mae", "--fail-worse-than-constant"):
        run.fails(2, "train", "-i", "m", "--only-new", *option.split(), "-o", "x", "new.train")


def test_another_schedule_drops_the_options_of_the_earlier_one(run, halves, tmp_path):
    first = ["-s", "sgd", "--schedule", "invscaling", "--power", "0.3", "-e", "1", "-o", "m"]
    run.ok("train", "-q", *first, "whole")
    for options, shown in (
        ([], "--power 0.3, --schedule invscaling"),
        (["--schedule", "constant"], "changed: --power 0.5 (was 0.3), --schedule constant (was invscaling)"),
    ):
        done = run("train", "-e", "1", "-i", "m", *options, "-o", "n", "whole")
        assert (done.returncode, shown in done.stderr) == (0, True), done.stderr
