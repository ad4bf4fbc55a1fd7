"""A study is appended to by one run at a time, and a file that is none is left alone."""

import os

import pytest

from fmcli.choosing.candidates import TrialRecord, TrialResult
from fmcli.choosing.study import Study, line_of, trial_event
from fmcli.errors import BadInputError, BusyError

IDENTITY = {"seed": 1}


def trial(number, value=0.5):
    return TrialRecord(number, "fm", "sgd", {"l2": 0.1}, 5, 100, "rmse", TrialResult(5, value, (3,), False))


@pytest.fixture
def whole(tmp_path):
    """The bytes of a study of two trials."""
    with Study(str(tmp_path / "whole"), IDENTITY) as study:
        study.add(trial(0))
        study.add(trial(1))
    return (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        b'{"my": "only copy"}',
        b"one,two\n1,2",
        b"one,two\n1,2\n",
        b"\n",
        b"\0" * 9,
        b'{"event": "epoch", "epoch": 1}\n',
        b'{"event": "trial", ',
        b"my notes",
    ],
)
@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_a_file_that_is_no_study_is_refused_and_left_alone(tmp_path, text, link):
    path = tmp_path / "precious"
    path.write_bytes(text)
    if link:
        link(path, tmp_path / "other")
    with pytest.raises(BadInputError, match=r"precious:?\d*: is not a|other:?\d*: is not a"):
        Study(str(tmp_path / "other" if link else path), IDENTITY)
    assert path.read_bytes() == text


def test_no_regular_file_is_a_study(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/null"):
        with pytest.raises(BadInputError, match="is not a study, but no regular file"):
            Study(str(path), IDENTITY)


def test_lines_that_somebody_added_are_refused_and_left_alone(tmp_path, whole):
    for more in (b"note to self", b"note\n", b'{"event": "note"}', b'{"event": "trial", "n": NaN}\n'):
        (tmp_path / "s").write_bytes(whole + more)
        with pytest.raises(BadInputError, match="s:4: is not a line of a study"):
            Study(str(tmp_path / "s"), IDENTITY)
        assert (tmp_path / "s").read_bytes() == whole + more


def test_a_study_that_is_cut_anywhere_goes_on_to_the_same_bytes(tmp_path, whole):
    for cut in range(len(whole)):
        (tmp_path / "s").write_bytes(whole[:cut])
        with Study(str(tmp_path / "s"), IDENTITY) as study:
            for number in range(2):
                if study.known(number, 5, 100) is None:
                    study.add(trial(number))
        assert (tmp_path / "s").read_bytes() == whole, cut


def test_the_rest_of_another_trial_than_the_one_that_follows_is_removed(tmp_path, whole):
    header, first, _ = whole.splitlines(keepends=True)
    (tmp_path / "s").write_bytes(header + line_of(trial_event(trial(7)))[:60])
    with Study(str(tmp_path / "s"), IDENTITY) as study:
        study.add(trial(0))
    assert (tmp_path / "s").read_bytes() == header + first


def test_one_run_at_a_time_uses_a_study(tmp_path, whole):
    path = tmp_path / "s"
    path.write_bytes(whole)
    os.link(path, tmp_path / "other")
    with Study(str(path), IDENTITY) as study:
        for other in (path, tmp_path / "other"):
            with pytest.raises(BusyError, match="another run is using it"):
                Study(str(other), IDENTITY)
        study.add(trial(2))
    with Study(str(tmp_path / "other"), IDENTITY) as study:
        assert study.trials == 3
