"""Every error: its exit status, its message, and that nothing is written."""

import gzip
import os
import resource

import pytest

GOOD = b"1 1:1 2:1\n-1 2:1\n"
TEXT = "".join(f"{i % 2} {i}:1 {i + 1}:0.5\n" for i in range(5000)).encode()

# Content of the file "t", exit status, message; the name is the test id.
BAD_DATA = [
    ("nan", b"1 1:1\n-1 1:nan\n", 65, "t:2:4: found '1:nan', expected"),
    ("a fraction as an index", b"1 1:1\n-1 1:1 2.5:1\n", 65, "t:2:8: found '2.5:1', expected"),
    ("a negative index", b"1 -1:1\n", 65, "t:1:3: found '-1:1', expected"),
    ("no colon", b"1 1:1\n-1 7\n", 65, "t:2:4: found '7', expected"),
    ("overflow", b"1 1:1e39\n", 65, "t:1:3: found '1:1e39', expected"),
    ("truncated gzip", gzip.compress(TEXT)[:-100], 65, "t: the gzip data is truncated"),
    ("empty", b"", 65, "t: the file has no rows"),
    ("comments only", b"# nothing\n\n", 65, "t: the file has no rows"),
    ("binary", bytes(range(256)) * 8, 65, "looks like binary data"),
    ("one label only", b"1 1:1\n1 2:1\n", 65, "every label is 1: a model cannot learn from a single value or class"),
]


@pytest.mark.parametrize(
    ("content", "status", "message"), [row[1:] for row in BAD_DATA], ids=[row[0] for row in BAD_DATA]
)
def test_bad_training_data(run, tmp_path, content, status, message):
    (tmp_path / "t").write_bytes(content)
    done = run("train", "-o", "m", "t")
    assert done.returncode == status, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fmcli: error: ")
    assert message in last
    assert os.listdir(tmp_path) == ["t"]


def test_memory_errors_suggest_a_solution(run, tmp_path):
    (tmp_path / "t").write_text("1 2000000000:1\n-1 1:1\n")
    done = run.fails(4, "train", "--hash-bits", "24", "-e", "1", "-k", "65536", "--holdout", "0", "t")
    assert "of memory" in done.stderr
    assert "a smaller rank, fewer features or fewer rows" in done.stderr


def test_three_labels_do_not_fit_logistic_loss(run, tmp_path):
    (tmp_path / "t").write_text("1 1:1\n2 1:1\n3 1:1\n")
    done = run.fails(65, "train", "--loss", "logistic", "t")
    assert "needs labels with two values, but these are 1, 2, 3; use --loss squared" in done.stderr


# Arguments, exit status, message. "t" is a valid file, which is not read; in the last case it does not exist.
MISUSE = [
    (["train"], 2, "missing argument 'TRAIN...': the rows to train on, or a query with --sql"),
    (["train", "-m", "model.bin", "t"], 2, "-m is the model kind; the model file is -o: -o model.bin"),
    (["train", "-m", "t", "t"], 2, "-m is the model kind; the model file is -o: -o t"),
    (["train", "-s", "4", "t"], 2, "-s is the solver; threads are -j: -j 4"),
    (["train", "-v", "5", "t"], 2, "-v is the validation file"),
    (["train", "-v5", "t"], 2, "-v is the validation file"),
    (["train", "-m", "nosuch", "t"], 2, "there is no model 'nosuch'; there are: linear, poly2, fm, anova, shfm"),
    (["train", "-s", "nosuch", "t"], 2, "there is no solver 'nosuch'; there are: sgd, adagrad, ftrl"),
    (["train", "--loss", "nosuch", "t"], 2, "there is no loss 'nosuch'; there are: squared, logistic"),
    (["train", "--alpha", "1", "t"], 2, "--alpha does not apply to fm, adagrad; it applies to solver ftrl"),
    (["train", "-m", "linear", "-k", "3", "t"], 2, "--rank does not apply to linear, adagrad; it applies to model fm,"),
    (["train", "-m", "linear", "--no-linear", "t"], 2, "--no-linear does not apply to linear, adagrad; it applies to"),
    (["train", "-k", "0", "t"], 2, "--rank is 0; it must be 1 to 65536"),
    (["train", "-m", "hofm", "-k", "8/0", "t"], 2, "--rank is 8/0; it must be 1 to 65536"),
    (["train", "-k", "8/4", "t"], 2, "--rank is 8/4; fm takes one number"),
    (["train", "-m", "hofm", "--order", "4", "-k", "8/4", "t"], 2, "with --order 4 hofm takes 3, one for each degree"),
    (["train", "-k", "two", "t"], 2, "'two' is not a valid integer"),
    (["train", "-r", "nan", "t"], 2, "--learning-rate is nan; it must be > 0"),
    (["train", "--l2", "-1", "t"], 2, "--l2 is -1; it must be >= 0"),
    (["train", "-j", "0", "t"], 2, "'-j' / '--threads'"),
    (["train", "-f", "csv", "t"], 2, "'csv' is not one of 'auto', 'libsvm', 'ffm'"),
    (["train", "--rnk", "3", "t"], 2, "there is no option '--rnk'; did you mean --rank?\nsee fmcli train --help"),
    (["train", "--learning_rate", "3", "t"], 2, "there is no option '--learning_rate'; did you mean --learning-rate?"),
    (["train", "--sigmoid", "t"], 2, "there is no option '--sigmoid': it belongs to fmcli predict"),
    (["predict", "-k8", "t"], 2, "there is no option '-k': it belongs to fmcli train"),
    (["train", "-k"], 2, "option '-k' requires an argument\nsee fmcli train --help"),
    (["tune", "-j"], 2, "option '-j' requires an argument\nsee fmcli tune --help"),
    (["recommend", "--t", "3"], 2, "there is no option '--t'\nsee fmcli recommend --help"),
    (["inspect", "--see", "3"], 2, "there is no option '--see'; did you mean --seed?\nsee fmcli inspect --help"),
    (["cv", "--onlin", "t"], 2, "there is no option '--onlin'\nsee fmcli cv --help"),
    (["predict", "--zzz", "t"], 2, "there is no option '--zzz'\nsee fmcli predict --help"),
    (["train", "-m", "hoffm", "t"], 2, "there is no model 'hoffm'; did you mean hofm"),
    (["train", "-m", "FM", "t"], 2, "there is no model 'FM'; did you mean fm?"),
    (["train", "-s", "adagrd", "t"], 2, "there is no solver 'adagrd'; did you mean adagrad? there are: sgd, adagrad"),
    (["train", "--loss", "hinges", "t"], 2, "there is no loss 'hinges'; did you mean hinge? there are: squared,"),
    (["train", "--loss", "mse", "t"], 2, "there is no loss 'mse'; did you mean squared?"),
    (["train", "-x", "acc", "t"], 2, "there is no metric 'acc'; did you mean accuracy?"),
    (["trian", "t"], 2, "there is no command 'trian'; did you mean train?"),
    (["fit", "t"], 2, "there is no command 'fit'; did you mean train?"),
    (["t"], 2, "there is no command 't', but a file with this name; did you mean fmcli train t?"),
    (["-m", "fm", "train", "t"], 2, "there is no option '-m': options follow the command: fmcli COMMAND -m"),
    (["train", "-f", "model.bin", "t"], 2, "-f is the format; the model file is -o: -o model.bin"),
    (["train", "-f", "5", "t"], 2, "-f is the format; folds are fmcli cv --folds 5"),
    (["train", "-e", "0.01", "t"], 2, "-e is the number of epochs; --patience stops training early, with -v FILE"),
    (["train", "-q", "ab", "t"], 2, "-q is quiet; every pair of features interacts"),
    (["train", "--log-every", "0", "t"], 2, "'--log-every'"),
    (["train", "--valid", "t", "--holdout", "0.1", "t"], 2, "-v and --holdout cannot be combined: both give"),
    (["train", "--holdout", "1", "t"], 2, "'1' is not a share in the range 0<=x<1"),
    (["train", "--holdout", "-0.1", "t"], 2, "'-0.1' is not a share in the range 0<=x<1"),
    (["train", "--patience", "0", "t"], 2, "'--patience'"),
    (["train", "-x", "nosuch", "t"], 2, "there is no metric 'nosuch'; there are: logloss, auc"),
    (["train", "-x", "auc", "--loss", "squared", "t"], 2, "metric auc does not fit loss squared; use one of: rm"),
    (["train", "-x", "sparsity", "-v", "t", "t"], 2, "sparsity cannot choose the epoch"),
    (["train", "-x", "sparsity", "--holdout", "0.5", "t"], 2, "sparsity cannot choose the epoch"),
    (["train", "-v", "missing", "t"], 66, "cannot read missing: No such file or directory"),
    (["train", "-i", "missing", "t"], 66, "cannot read missing: No such file or directory"),
    (["train", "-i", "t", "-o", "m", "t"], 65, "t: is a text file, not an fmcli model"),
    (["train", "-v", "-", "-o", "m", "-"], 2, "standard input (-) can be read only once"),
    (["train", "-v", "v", "-o", "v", "t"], 2, "the output v would overwrite the input v"),
    (["train", "-i", "m", "--log-json", "m", "t"], 2, "the output m would overwrite the input m"),
    (["train", "--log-json", "t", "t"], 2, "the output t would overwrite the input t"),
    (["train", "--log-json", "t.fm", "t"], 2, "the outputs t.fm and t.fm are the same file"),
    (["train", "--log-json", "no/log", "t"], 74, "no/log: cannot be written: its folder does not exist"),
    (["train", "-m", "glfm", "--l1", "1", "t"], 2, "--l1 cannot be used with glfm: glfm has only the group penalty"),
    (["train", "-m", "glfm", "--l1-v", "1", "t"], 2, "--l1-v cannot be used with glfm"),
    (["train", "-m", "l1fm", "--group-l1", "1", "t"], 2, "--group-l1 cannot be used with l1fm: l1fm has only the L1"),
    (["train", "-m", "sglfm", "--l1", "0", "t"], 2, "sglfm needs --l1 > 0; use -m fm for 0"),
    (["train", "-m", "sglfm", "--group-l1", "0", "t"], 2, "sglfm needs --group-l1 > 0; use -m fm for 0"),
    (["train", "--beta-start", "ones", "t"], 2, "--beta-start does not apply to fm, adagrad; it applies to model"),
    (["train", "-m", "anova", "--beta-start", "zeros", "t"], 2, "it must be alternate, ones or random"),
    (["train", "--huber-delta", "2", "t"], 2, "--huber-delta does not apply to fm, adagrad; it applies to loss huber"),
    (["train", "-s", "sgd", "--power", "0.3", "t"], 2, "--power applies only to --schedule invscaling, and the"),
    (["train", "-s", "fobos", "--schedule", "invscaling", "--t0", "3", "t"], 2, "--t0 applies only to --schedule"),
    (["train", "--disk", "--online", "t"], 2, "--disk and --online cannot be combined: a cache keeps the rows for"),
    (["train", "--batch-size", "0", "t"], 2, "--batch-size is 0; it must be 1 to 16777216"),
    (["train", "-o", "t", "t"], 2, "the output t would overwrite the input t"),
    (["train", "-o", "./t", "t"], 2, "the output ./t would overwrite the input t"),
    (["train", "-o", "-", "t"], 2, "a model cannot be written to standard output"),
    (["train", "-o", "m", "-", "-"], 2, "standard input (-) can be read only once"),
    (["train", "missing"], 66, "cannot read missing: No such file or directory"),
    (["train", "t", "missing"], 66, "cannot read missing: No such file or directory"),
    (["train", "t", "model.fm"], 66, "cannot read model.fm: No such file or directory; to write the model to it, use"),
    (["predict", "t", "t", "out"], 66, "to write predictions to it, use -o out"),
    (["train", "."], 66, "cannot read .: Is a directory"),
    (["train", "-o", "t/m", "t"], 74, "t/m: cannot be written: Not a directory"),
    (["train", "-o", "no/m", "t"], 74, "no/m: cannot be written: its folder does not exist"),
    (["train", "-o", "/proc/m", "t"], 74, "/proc/m: cannot be written: "),
    (["predict"], 2, "missing argument 'MODEL'"),
    (["predict", "missing", "t"], 66, "cannot read missing: No such file or directory"),
    (["predict", "t", "missing"], 66, "cannot read missing: No such file or directory"),
    (["predict", "-o", "t", "m", "t"], 2, "the output t would overwrite the input t"),
    (["predict", "t", "t"], 65, "t: is a text file, not an fmcli model; have you swapped model and data?"),
    (["export", "missing", "m.npz"], 66, "cannot read missing: No such file or directory"),
    (["nosuch"], 2, "there is no command 'nosuch'; there are: train, predict, "),
    (["-task", "c", "t"], 2, "there is no option '-task': options follow the command: fmcli COMMAND -task"),
    (["--verion"], 2, "there is no option '--verion'; did you mean --version?"),
    (["--nosuch"], 2, "there is no option '--nosuch': options follow the command: fmcli COMMAND --nosuch"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), MISUSE, ids=[" ".join(row[0]) for row in MISUSE])
def test_misuse(run, tmp_path, arguments, status, message):
    (tmp_path / "t").write_bytes(GOOD)
    done = run(*arguments)
    assert done.returncode == status, done.stderr
    assert done.stdout == b""
    assert done.stderr.startswith("fmcli: error: ")
    assert message in done.stderr
    assert os.listdir(tmp_path) == ["t"]
    assert (tmp_path / "t").read_bytes() == GOOD


def test_no_command_shows_the_help_as_an_error(run):
    done = run.fails(2)
    assert done.stdout == b""
    assert done.stderr.startswith("Usage: fmcli")


@pytest.fixture
def model_bytes(adult_model):
    return bytearray(adult_model.read_bytes())


def test_a_truncated_model(run, tmp_path, model_bytes):
    (tmp_path / "m").write_bytes(model_bytes[:-100])
    done = run.fails(65, "predict", "m", input=GOOD)
    assert done.stderr.startswith("fmcli: error: m: is truncated")


@pytest.mark.parametrize("place", [300, -100], ids=["header", "tensor"])
def test_a_model_with_a_flipped_byte(run, tmp_path, model_bytes, place):
    model_bytes[place] ^= 1
    (tmp_path / "m").write_bytes(model_bytes)
    done = run.fails(65, "predict", "m", input=GOOD)
    assert done.stderr.startswith("fmcli: error: m: is corrupted")
    assert done.stdout == b""


def test_an_unexpected_exception_is_reported_as_a_bug(run, tmp_path):
    (tmp_path / "t").write_bytes(GOOD)
    bug = "import fmcli.training.planning; fmcli.training.planning.prepare = None"
    done = run.fails(70, "train", "-q", "t", before=bug)
    assert done.stderr == (
        "fmcli: error: this is a bug in fmcli, please report it: TypeError: 'NoneType' object is not callable "
        "(--verbose shows where it happened)\n"
    )
    done = run.fails(70, "train", "--verbose", "t", before=bug)
    assert "Traceback (most recent call last)" in done.stderr
    assert os.listdir(tmp_path) == ["t"]


def test_memory_that_runs_out_after_all_is_no_bug(run, tmp_path):
    (tmp_path / "t").write_bytes(GOOD)
    hungry = "import numpy; numpy.arange = lambda *a, **k: bytearray(1 << 62)"
    done = run.fails(4, "train", "-q", "t", before=hungry)
    assert done.stderr.startswith("fmcli: error: not enough memory")


def test_a_library_that_hides_why_it_cannot_be_loaded_is_no_bug(run, tmp_path):
    """scipy says that its installation is broken if there is no memory for a part of it."""
    (tmp_path / "t").write_bytes(GOOD)
    broken = (
        "import numpy\n"
        "def arange(*a, **k):\n"
        "    cause = ImportError('x.so: failed to map segment from shared object')\n"
        "    raise ImportError('the install seems to be broken') from cause\n"
        "numpy.arange = arange"
    )
    done = run.fails(4, "train", "-q", "t", before=broken)
    assert done.stderr.startswith("fmcli: error: not enough memory (x.so: failed to map segment")


def test_verbose_shows_where_an_error_happened(run, tmp_path):
    done = run.fails(66, "train", "--verbose", "missing")
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1] == "fmcli: error: cannot read missing: No such file or directory"


@pytest.mark.parametrize(("mib", "kind", "solver"), [(60, "fm", "adagrad"), (90, "fm", "lbfgs"), (130, "llfm", "sgd")])
def test_a_small_address_space_is_status_4(run, sample, mib, kind, solver):
    limits = (mib << 20, mib << 20)
    done = run.fails(
        4, "train", "-m", kind, "-s", solver, "-j", "1", "-o", "m", sample / "diabetes.train.libsvm",
        preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
    )  # fmt: skip
    assert "ulimit -v" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_number_beyond_the_core_is_a_usage_error(run, sample):
    done = run.fails(2, "train", "-s", "ftrl", "--l1-from-epoch", "9" * 20, "-o", "m", sample / "diabetes.train.libsvm")
    assert "--l1-from-epoch" in done.stderr
