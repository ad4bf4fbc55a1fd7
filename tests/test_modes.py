"""The modes of a run: every pair of options that exclude each other is refused, with a reason."""

import click
import pytest

from fmcli.cli import COMMANDS, group
from fmcli.errors import UsageError
from fmcli.registry.modes import MODES, RANKING, check_modes
from fmcli.registry.specs import make_spec

TOP = click.Context(group, info_name="fmcli")
FLAGS = {
    flag
    for name in COMMANDS
    for parameter in group.get_command(TOP, name).params
    for flag in (*parameter.opts, *parameter.secondary_opts)
}
PAIRS = [(mode.flag, other) for mode in MODES for other in mode.refuses]


def test_every_mode_and_what_it_refuses_is_an_option():
    flags = [flag for mode in MODES for flag in (mode.flag, *mode.refuses, *mode.suboptions)]
    for words in {*flags} - {RANKING}:
        assert {word for word in words.split() if word.startswith("-")} <= FLAGS, words


def test_no_pair_stands_twice():
    assert len({frozenset(pair) for pair in PAIRS}) == len(PAIRS)
    assert len({mode.flag for mode in MODES}) == len(MODES)


def test_a_pair_is_refused_with_its_reason():
    for flag, other in PAIRS:
        with pytest.raises(UsageError, match=f"{flag} and {other} cannot be combined: .*; leave one of them out"):
            check_modes({flag: "x", other: True})
        check_modes({flag: True, other: None, **parent_of(flag)})
        check_modes({flag: 0.0, other: True, **parent_of(other)})


def parent_of(flag):
    return {mode.flag: True for mode in MODES if flag in mode.suboptions}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.suboptions], ids=lambda mode: mode.flag)
def test_a_suboption_needs_its_mode(mode):
    for option in mode.suboptions:
        with pytest.raises(UsageError, match=f"{option} needs {mode.flag}; give both"):
            check_modes({option: True, mode.flag: False})
        check_modes({option: True, mode.flag: True})
        check_modes({option: True})  # of a command without the mode


@pytest.mark.parametrize(
    ("flag", "model", "solver", "message"),
    [
        ("--disk", "fm", "cd", "cd needs all rows in memory"),
        ("--online", "fm", "lbfgs", "lbfgs needs all rows in every step"),
        ("--cluster", "fm", "mcmc", "mcmc draws the parameters one by one.*choose -s adagrad or -s ftrl or -s lbfgs"),
        (
            "--cluster",
            "llfm",
            "adagrad",
            "moves the anchors of llfm after each row.*use -s lbfgs, or --llfm",
        ),
        ("--cluster", "kernel-basis", None, "solved in closed form"),
        ("--relation", "ffm", "cd", "trains the models linear, fm, shfm, not ffm"),
        ("--relation", "fm", "ftrl", "use -s cd or -s mcmc, or join"),
        ("--prior-groups", "fm", "cd", "tells which features share a prior, and cd has none; use -s mcmc"),
        ("--checkpoint", "kernel-basis", None, "solved in one step"),
        ("--log-every", "fm", "lbfgs", "only to stochastic solvers"),
    ],
)
def test_what_a_mode_needs(flag, model, solver, message):
    spec = make_spec(model, solver)
    with pytest.raises(UsageError, match=message):
        check_modes({flag: True}, spec)
    check_modes({}, spec)
    check_modes({flag: True})  # of a command that does not train
