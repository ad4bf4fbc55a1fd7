"""fmcli train --ensemble: several models in a file, and what the commands do with it."""

import json
import re

from fmcli.text import figure


def test_the_command(run, sample, tmp_path):
    train, test = (sample / f"adult.{part}.libsvm" for part in ("train", "test"))
    options = ["--ensemble", "3", "-k", "2", "-e", "3", "--log-json", "log"]
    done = run.ok("train", "--verbose", *options, "-o", "m", "-v", test, train)
    assert re.search(r"^member 3  epoch 1  loss .* valid-logloss", done.stderr, re.M)
    assert re.search(r"^members +3$", done.stderr, re.M)
    _, *events, summary = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert {event["member"] for event in events} == {1, 2, 3}
    assert summary["members"]["seed"] == [0, 1, 2]
    measured = json.loads(run("evaluate", "--json", "m", test).stdout)["metrics"]["logloss"]
    assert re.search(rf"^valid-logloss +{figure(measured)}  ", done.stderr, re.M)
    run("train", *options, "-j", "1", "-o", "one", "-v", test, train)
    lines = run("predict", "--std", "m", test).stdout.splitlines()
    assert [line.split()[0] for line in lines] == run("predict", "one", test).stdout.split()
    assert min(float(line.split()[1]) for line in lines) > 0
    assert b"the last member" in run("inspect", "m").stdout
    run.ok("train", "--dry-run", *options, train)
    for refused in (
        run("export", "m", "m.npz"),
        run("train", "-i", "m", train),
        run("train", *options, "-i", "one", train),
        run("train", *options, "--checkpoint", "c", train),
        run("train", *options, "--online", train),
        run("train", *options, "--cluster", "local:2", train),
        run("train", *options, "--keep-state", train),
        run("train", *options, "--max-seconds", "5", train),
        run("train", *options, "--disk", "--cache", "c", train),
    ):
        assert (refused.returncode, "nsemble" in refused.stderr) == (2, True), refused.stderr
