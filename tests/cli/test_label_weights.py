"""Labels with weights, as in the text format of XGBoost: label:weight index:value ..."""

import json

import numpy as np
import pytest
from texts import write

from fmcli.data.text import formats, reader
from fmcli.data.text.faults import BadLines
from fmcli.errors import BadInputError


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("ffm", [False, True])
def test_rows(path, monkeypatch, threads, ffm):
    monkeypatch.setattr(formats, "BUFFER_BYTES", 50)
    lines = [(i, i / 7, f"{i % 5 + 1}:{i}" if i % 4 else "") for i in range(1, 200)]
    text = "".join(
        f"{label}{f':{weight!r}' if label % 3 else ''} {'0:' if ffm and entry else ''}{entry}\n"
        for label, weight, entry in lines
    )
    table = reader.read([write(path, text.encode())], threads=threads, label_weights=True)
    data = table.dataset
    assert table.format == ("ffm" if ffm else "libsvm")
    assert data.label.tolist() == [label for label, _, _ in lines]
    assert data.weight.tolist() == [weight if label % 3 else 1 for label, weight, _ in lines]
    assert np.diff(data.indptr).tolist() == [int(entry != "") for _, _, entry in lines]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"1:-1", "found '1:-1', expected label:weight; weight '-1' is negative"),
        (b"1:", "found '1:', expected label:weight; the weight is missing"),
        (b"1:2:3", "found '1:2:3', expected label:weight; weight '2:3' is not a number"),
        (b":2", "found ':2', expected label:weight; the label is missing"),
        (b"x", "found 'x', expected label:weight; label 'x' is not a number"),
        (b"1:inf", "weight 'inf' is not a finite number"),
    ],
)
def test_wrong_weights(path, token, message):
    text = b"1:2 3:1\n" + token + b" 3:1\n0:1 3:1\n"
    with pytest.raises(BadInputError, match=message):
        reader.read([write(path, text)], label_weights=True)
    assert reader.read([path], label_weights=True, bad=BadLines(True)).dataset.weight.tolist() == [2, 1]


def test_commands(run, sample, tmp_path):
    rows = (sample / "adult.train.libsvm").read_text().splitlines()
    weights = [str(1 + i % 3) for i in range(len(rows))]
    both = "".join(f"{row.replace(' ', f':{weight} ', 1)}\n" for row, weight in zip(rows, weights, strict=True))
    (tmp_path / "both").write_text(both)
    (tmp_path / "w").write_text("\n".join(weights))
    for options in (
        ["-o", "m", "--label-weights", "both"],
        ["-o", "n", "--sample-weights", "w", sample / "adult.train.libsvm"],
    ):
        log = ["--log-json", "log", "--holdout", "0"]
        run.ok("train", "-q", "-e", "2", *log, *options)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    plain = run("predict", "m", sample / "adult.train.libsvm").stdout
    assert run("predict", "--label-weights", "m", "both").stdout == plain
    figures = json.loads((tmp_path / "log").read_text().splitlines()[-1])["train"]
    found = json.loads(run("evaluate", "--json", "--label-weights", "m", "both").stdout)["metrics"]
    assert {name: found[name] for name in figures} == pytest.approx(figures)
    run.fails(2, "predict", "--label-weights", "--id-column", "1", "m", "both")
    run.fails(2, "evaluate", "--label-weights", "--predictions", "w", "both")
