"""The modes of a run: every pair of options that exclude each other is refused, with a reason."""

import re

import click
import pytest

from fmcli.cli import COMMANDS, group
from fmcli.cli.flags import flag_of, with_flags
from fmcli.errors import UsageError
from fmcli.registry.choices import spelled
from fmcli.registry.modes import CROSS, MODES, RANKING, TUNE, check_modes, shown
from fmcli.registry.specs import make_spec

TOP = click.Context(group, info_name="fmcli")
FLAGS = {
    flag
    for name in COMMANDS
    for parameter in group.get_command(TOP, name).params
    for flag in (*parameter.opts, *parameter.secondary_opts)
}
PAIRS = [(mode.name, other) for mode in MODES for other in mode.refuses]


def in_flags(choice):
    """Return a choice, or a condition, as the command calls it."""
    return spelled(shown(choice), flag_of)


def test_every_mode_and_what_it_refuses_is_an_option():
    names = {name for mode in MODES for name in (mode.name, *mode.refuses, *mode.suboptions)}
    for name in names - {RANKING, CROSS, TUNE}:
        assert {word for word in in_flags(name).split() if word.startswith("-")} <= FLAGS, name
    for text in (reason for mode in MODES for reason in mode.refuses.values()):
        assert {word.strip(",;()") for word in spelled(text, flag_of).split() if word.startswith("--")} <= {
            *FLAGS,
            "--nthreads",
        }, text


def test_no_pair_stands_twice():
    assert len({frozenset(pair) for pair in PAIRS}) == len(PAIRS)
    assert len({mode.name for mode in MODES}) == len(MODES)


def test_a_pair_is_refused_with_its_reason():
    for flag, other in PAIRS:
        with pytest.raises(UsageError) as caught:
            check_modes({flag: "x", other: True})
        both = f"{in_flags(flag)} and {in_flags(other)} cannot be combined: "
        assert caught.value.text(flag_of).startswith(both)
        assert caught.value.text(flag_of).endswith("; leave one of them out")
        check_modes({flag: True, other: None, **parent_of(flag)})
        check_modes({flag: 0.0, other: True, **parent_of(other)})


def parent_of(flag):
    return {mode.name: True for mode in MODES if flag in mode.suboptions}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.suboptions], ids=lambda mode: mode.name)
def test_a_suboption_needs_its_mode(mode):
    for option in mode.suboptions:
        with pytest.raises(UsageError, match=f"{option} needs {mode.name}; give both"):
            check_modes({option: True, mode.name: False})
        check_modes({option: True, mode.name: True})
        check_modes({option: True})  # of a command without the mode


@pytest.mark.parametrize(
    ("flag", "model", "solver", "message"),
    [
        ("disk", "fm", "cd", "cd needs all rows in memory"),
        ("online", "fm", "lbfgs", "lbfgs needs all rows in every step"),
        ("cluster", "fm", "mcmc", "mcmc draws the parameters one by one.*choose -s adagrad or -s ftrl or -s lbfgs"),
        ("cluster", "llfm", "adagrad", "moves the anchors of llfm after each row.*use -s lbfgs, or --llfm"),
        ("cluster", "kernel-basis", None, "solved in closed form"),
        ("relations", "ffm", "cd", "trains the models linear, fm, shfm, not ffm"),
        ("relations", "fm", "ftrl", "use -s cd or -s mcmc, or join"),
        ("prior_groups", "fm", "cd", "tells which features share a prior, and cd has none; use -s mcmc"),
        ("checkpoint", "kernel-basis", None, "solved in one step"),
        ("log_every", "fm", "lbfgs", "only to stochastic solvers"),
    ],
)
def test_what_a_mode_needs(flag, model, solver, message):
    spec = make_spec(model, solver)
    with pytest.raises(UsageError) as caught:
        check_modes({flag: True}, spec)
    assert re.search(message, with_flags(caught.value))
    check_modes({}, spec)
    check_modes({flag: True})  # of a command that does not train
