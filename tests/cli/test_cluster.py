"""The options of a cluster, on the command line."""

import subprocess

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "--cluster", "host", "M", "x"], "--cluster host: it must be tcp://HOST:PORT"),
        (["predict", "--cluster", "local:0", "M", "x"], "local:N for N processes"),
        (["predict", "--cluster", "local:2", "M"], "cannot read standard input"),
        (["predict", "--cluster", "local:2", "-j", "2", "M", "x"], "dask worker --nthreads"),
        (["predict", "--cluster", "local:2", "--unbuffered", "M", "x"], "--cluster and --unbuffered cannot be"),
        (["predict", "--cluster", "local:2", "-o", "a", "--output-dir", "b", "M", "x"], "--output-dir and -o cannot"),
        (["predict", "--cluster", "local:2", "--output-dir", ".", "M", "x"], "is not an empty folder"),
        (["predict", "--output-dir", "b", "M", "x"], "--output-dir needs --cluster"),
        (["predict", "--tls-cert", "c", "M", "x"], "--tls-cert needs --cluster"),
        (["evaluate", "--cluster", "tcp://a:1", "--tls-key", "c", "M", "x"], "apply only to tls:// addresses"),
        (["evaluate", "--cluster", "local:1", "--predictions", "p", "x"], "--predictions and --cluster cannot be"),
    ],
)
def test_choices_that_do_not_fit(run, tmp_path, arguments, message):
    (tmp_path / "M").touch()
    (tmp_path / "p").touch()
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_certificate_that_is_missing(run, tmp_path):
    (tmp_path / "M").touch()
    for command in ("predict", "evaluate"):
        done = run(command, "--cluster", "tls://127.0.0.1:9", "--tls-key", "none.pem", "M", "x")
        assert (done.returncode, done.stdout) == (66, b"")
        assert "cannot read none.pem" in done.stderr


def test_without_dask(run, adult_model, sample, tmp_path):
    hidden = "import sys; sys.modules['dask'] = None"
    done = run("predict", "--cluster", "local:1", adult_model, sample / "adult.test.libsvm", before=hidden)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "pip install dask distributed" in done.stderr


def test_without_certificates(run, adult_model, sample):
    pytest.importorskip("distributed")
    hidden = "import sys; sys.modules['cryptography'] = None"
    done = run("predict", "--cluster", "local:1", adult_model, sample / "adult.test.libsvm", before=hidden)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "pip install cryptography" in done.stderr


def test_the_output_is_that_of_one_machine(run, adult_model, sample):
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    rows = sample / "adult.test.libsvm"
    done = run("predict", "--cluster", "local:1", adult_model, rows, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("predict", adult_model, rows).stdout
    assert done.stderr.startswith("cluster local:1: workers 1, threads 1")
