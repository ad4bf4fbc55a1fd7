"""The help of every command and option: complete, in sections, with examples that run."""

import re
import shlex
import warnings

import click
import pytest

from fmcli.cli import COMMANDS, group
from fmcli.cli.options import ALL, SECTIONS, SectionCommand, SectionOption
from fmcli.cli.screen import SCREENS
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.run_choices import METRIC_NAMES
from fmcli.registry.solvers import SAMPLERS, SOLVERS
from fmcli.scoring.metrics import METRICS
from fmcli.scoring.sparsity import SPARSITY

TOP = click.Context(group, info_name="fmcli", max_content_width=10_000, terminal_width=10_000)


def commands():
    return {name: group.get_command(TOP, name) for name in COMMANDS}


EVERY_COMMAND = pytest.mark.parametrize("name", COMMANDS)
OPTIONS_OF_COMMANDS = [
    (name, parameter)
    for name, command in commands().items()
    for parameter in command.params
    if isinstance(parameter, click.Option)
]


def help_of(name, width=10_000, *, everything=False):
    command = commands()[name]
    context = click.Context(command, info_name=name, max_content_width=width, terminal_width=width)
    context.meta[ALL] = everything
    return command.get_help(context)


def examples(command):
    """Return the description and the command line of each example."""
    lines = list(command.examples)
    return list(zip(lines[::2], lines[1::2], strict=True))


def calls(line):
    """Return the arguments of each call of fmcli in a shell command line."""
    for part in re.split(r"\||\$\(|\)", line):
        words = shlex.split(re.split(r" >>? ", part)[0].strip('" '))
        if words[:1] == ["fmcli"]:
            yield words[1:]


@EVERY_COMMAND
def test_commands_have_one_imperative_line_and_a_text(name):
    command = commands()[name]
    assert isinstance(command, SectionCommand)
    assert command.name == name
    line = command.get_short_help_str(200)
    assert re.fullmatch(r"[A-Z][a-z]+ .*\.", line)
    assert not line.split()[0].endswith("s")
    assert f"  {name.ljust(max(map(len, COMMANDS)))}  {line}\n" in group.get_help(TOP) + "\n"
    assert command.help.strip().endswith((".", ")"))


def test_the_group_help_refers_to_further_help():
    assert group.get_help(TOP).endswith("fmcli COMMAND --help describes a command; fmcli help lists the guide's pages.")


@EVERY_COMMAND
def test_examples_say_what_they_do_and_parse(name):
    command = commands()[name]
    assert examples(command)
    for what, line in examples(command):
        assert re.fullmatch(r"# [A-Z].*\.", what)
        assert [call[0] for call in calls(line)].count(name) == 1
        for called, *arguments in calls(line):
            with warnings.catch_warnings(), click.Context(group, info_name="fmcli") as top:
                commands()[called].make_context(called, arguments, parent=top)
    assert help_of(name, everything=True).count("\n  # ") == len(examples(command))


@EVERY_COMMAND
def test_lines_fit_a_terminal(name):
    for everything in (False, True):
        assert max(map(len, help_of(name, 80, everything=everything).splitlines())) <= 80


@pytest.mark.parametrize("width", [34, 44, 80])
@EVERY_COMMAND
def test_the_commands_of_wrapped_examples_are_whole(name, width):
    text = help_of(name, width, everything=True).partition("\nExamples:\n")[2].partition("\n\n")[0]
    lines = [line for line in text.splitlines() if not line.startswith("  #")]
    assert all(line.count("'") % 2 == 0 for line in lines)  # a backslash within quotes continues nothing
    shown = re.sub(r" \\\n +", " ", "\n".join(lines)).splitlines()
    assert list(map(shlex.split, shown)) == [shlex.split(line) for _, line in examples(commands()[name])]


@pytest.mark.parametrize("name", SCREENS)
def test_the_first_screen_has_45_lines_and_options_that_exist(name):
    command = commands()[name]
    listed = [option for lines in SCREENS[name].values() for option in lines]
    assert len(listed) == len(set(listed)) <= 25
    names = {parameter.name for parameter in command.params}
    assert {"quiet", "threads"} & names < set(listed) <= names
    assert len(help_of(name, 80).splitlines()) <= 45
    assert "--help-all" in help_of(name)
    everything = help_of(name, everything=True)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert (parameter.opts or parameter.secondary_opts)[-1] in everything


def test_help_without_a_screen_is_short():
    for name in [name for name in COMMANDS if name not in SCREENS]:
        assert "help_all" not in {parameter.name for parameter in commands()[name].params}
        assert len(help_of(name, 80).splitlines()) <= 60


def test_the_first_screen_has_all_names_and_the_defaults_of_the_kind(run):
    text = run("train", "--help").stdout.decode()
    words = text.split()
    for name in (*MODELS, *SOLVERS, *LOSSES):
        assert name in words
    assert "Number of factors [8]" in text
    assert "--anchors" not in text
    of_kind = run("train", "-m", "ffm", "-s", "ftrl", "--help").stdout.decode()
    assert "Number of factors [4]" in of_kind
    assert "Step size of FTRL [0.1]" in of_kind
    assert not {"--learning-rate", "poly2"} & set(of_kind.split())
    every = run("train", "-m", "ffm", "-s", "ftrl", "--help-all").stdout.decode()
    assert "--ftrl-power" in every
    assert "--anchors" not in every
    assert every.count("\n") > 2 * of_kind.count("\n")


def test_no_option_names_kinds_or_solvers():
    """Which components take an option, and their defaults, stands in the guide and in `fmcli models`. The only solver
    that samples may be named: "with a solver that samples" would not say what to write."""
    for name, option in OPTIONS_OF_COMMANDS:
        if name not in ("export", "import") and option.name not in ("model", "solver", "against", "to"):
            text = re.sub(r"linear weights|is linear|ffm text|\.fm\b", "", option.help or "")
            named = set(re.findall(r"[a-z][a-z0-9-]*", text)) & {*MODELS, *SOLVERS} - {*SAMPLERS}
            assert named <= {*option.names}, option  # a kernel has the name of a kind


def test_no_option_is_described_by_another_one():
    """Pages of a solver or a kind have some of them only."""
    for name, option in OPTIONS_OF_COMMANDS:
        assert not re.search(r"^The same|of the same prior", option.help or ""), name


@pytest.mark.parametrize("name", ["cv", "tune"])
def test_options_that_a_command_refuses_are_not_in_its_help(name):
    shown = set(re.findall(r"--[\w-]+", re.sub(r"\[.*?\]", "", help_of(name, everything=True))))
    assert not {"--checkpoint", "--resume", "--test", "--test-output", "--init-strength", "--only-new"} & shown
    assert ("--tls-key" in shown) == (name == "tune")


def test_options_have_help_and_a_section():
    for name, option in OPTIONS_OF_COMMANDS:
        assert isinstance(option, SectionOption)
        assert option.section in SECTIONS
        assert re.match(r"[A-Z].*[.\]]$", option.help, re.S)
        if not option.is_flag and not option.count and not option.hidden:
            said = option.get_help_record(click.Context(commands()[name], TOP))[1]
            assert re.search(r"default: |\[required\]", said)
            assert option.metavar or isinstance(option.type, click.Choice)


def test_defaults_that_are_said_are_those_that_are_taken():
    for _, option in OPTIONS_OF_COMMANDS:
        if not option.is_flag and not option.count and isinstance(option.default, (int, float, str)):
            assert f"[default: {option.default}" in option.help


def test_ranges_are_said():
    for _, option in OPTIONS_OF_COMMANDS:
        choice = OPTIONS.get(option.name)
        ranged = isinstance(option.type, (click.IntRange, click.FloatRange)) and not option.count
        if ranged and option.type.max is None:
            assert f">= {option.type.min}" in option.help
        elif choice and choice.range():
            assert choice.range(exact=False) in option.help


@EVERY_COMMAND
def test_every_section_that_is_listed_has_something_in_it(name):
    titles = re.findall(r"^([A-Z][\w ,]+):$", help_of(name, everything=True), re.M)
    assert len(titles) == len(set(titles))
    order = [title for title in titles if title in SECTIONS.values()]
    assert order == [title for title in SECTIONS.values() if title in titles]
    assert titles[-1] == "Examples"


def test_the_names_of_metrics_are_theirs():
    assert (*METRICS, SPARSITY) == METRIC_NAMES


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(run, columns):
    """Except for command lines, which are not broken; very long lines would be hard to read."""
    most = min(columns, 100)
    for arguments in (["--help"], ["help"], ["help", "bpr"], ["models"], *([name, "--help"] for name in commands())):
        done = run.ok(*arguments, variables={"COLUMNS": str(columns)})
        text, _, _ = done.stdout.decode().partition("\nExamples:")
        lines = [line for line in text.splitlines() if "    fmcli " not in line]
        assert len(lines) > 4
        assert max(map(len, lines)) <= most, arguments
        if columns == 200 and arguments[-1] == "--help" and len(lines) > 40:
            assert max(map(len, lines)) > 80


@pytest.mark.parametrize("columns", [40, 200])
def test_tables_of_figures_fit_the_terminal(run, sample, columns):
    run.ok("train", "-q", "-e", "1", "-o", "m", sample / "adult.train.libsvm")
    for arguments in (["inspect", "--top", "3", "m"], ["evaluate", "m", sample / "adult.test.libsvm"]):
        narrow, usual = (run(*arguments, variables=given) for given in ({"COLUMNS": str(columns)}, {}))
        assert (narrow.returncode, usual.returncode) == (0, 0)
        lines = narrow.stdout.decode().splitlines()
        assert max(map(len, lines)) <= columns
        cells = [set(done.stdout.decode().split()) for done in (narrow, usual)]
        assert cells[1] - cells[0] <= {"array", "label"}
        assert (narrow.stdout == usual.stdout) == (columns == 200)
