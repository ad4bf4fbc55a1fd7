"""fmcli help: topics, pages as text, and the pager; train --help restricted to a model."""

import os
import pty
import re
import subprocess
import sys

import click
import pytest

from fmcli.cli import COMMANDS, group
from fmcli.cli.pages.guide import about, as_text, page, sections, topics
from fmcli.registry.catalog import refusal
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec

EVERY_TOPIC = pytest.mark.parametrize("topic", topics())


@pytest.fixture
def fmcli(run):
    """A function that runs a command with some variables in its environment; the output is text."""

    def ran(*arguments, **variables):
        done = run(*arguments, variables=variables)
        done.stdout = done.stdout.decode()
        return done

    return ran


def test_help_lists_the_topics(fmcli):
    done = fmcli("help")
    assert (done.returncode, done.stderr) == (0, "")
    for name, title in topics().items():
        assert re.search(rf"^  {name} +{re.escape(title)}$", done.stdout, re.M)


def test_a_page_is_plain_text_of_the_terminals_width(fmcli):
    done = fmcli("help", "losses", COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == as_text(page("losses"), 60)
    assert "\x1b" not in done.stdout


def test_an_unknown_topic_is_answered_with_the_closest(fmcli):
    done = fmcli("help", "solver")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no topic 'solver'; did you mean solvers" in done.stderr


def test_help_of_a_kind_is_its_section(fmcli):
    for kind in MODELS:
        done = fmcli("help", kind)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{kind.upper()}\n\n")
        assert done.stdout.endswith("\nFrom: fmcli help models\n")
        assert sum(line.isupper() and not line.startswith(" ") for line in done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("adagrad", "solvers "),
        ("cd", "solvers "),
        ("bpr", "losses "),
        ("patience", "training "),
    ],
)
def test_help_of_another_word_lists_the_sections_that_mention_it(fmcli, word, first):
    done = fmcli("help", word)
    assert (done.returncode, done.stderr) == (0, "")
    head, blank, *found = done.stdout.splitlines()
    assert (head, blank) == (f"Sections that mention {word} (fmcli help TOPIC):", "")
    assert re.match(f"  {first}", found[0])
    for line in found:
        topic, heading = line.split(None, 1)
        text = page(topic)
        assert re.search(rf"^#+ {re.escape(heading)}$", text, re.M)
        assert word.lower() in text.lower()


def test_help_of_sampling_is_its_page(fmcli):
    done = fmcli("help", "mcmc")
    assert done.stdout.startswith(as_text(page("sampling"), 80))


@pytest.mark.parametrize("word", ["nosuchword", "", " ", "(", "--"])
def test_help_of_a_word_that_no_page_has_is_refused(fmcli, word):
    done = fmcli("help", "--", word)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no topic {word.strip()!r}; there are: choosing, coming-from, data" in done.stderr


@pytest.mark.parametrize(
    ("word", "first", "topic"),
    [
        ("imbalance", "WEIGHTS", "training"),
        ("dates", "DATES AND TIMES", "tables"),
        ("missing values", "MISSING VALUES", "tables"),
        ("csv", "TABLES", "tables"),
        ("CSV", "TABLES", "tables"),
        ("regression", "LOSSES, PENALTIES AND METRICS", "losses"),
        ("quick start", "TRAINING", "training"),
        ("cron", "A NIGHTLY JOB", "operators"),
        ("gpu", "GPU", "performance"),
        ("latency", "MAKE A RUN FASTER", "performance"),
        ("one-hot", "COLUMNS", "tables"),
        ("normalize", "SCALING", "data"),
        ("early stopping", "VALIDATION DATA", "training"),
        ("pickle", "FROM PYTHON", "python"),
        ("windows", "INSTALLATION", "operators"),
    ],
)
def test_help_of_a_word_of_users_is_the_section_that_has_this_word_beside_its_heading(fmcli, word, first, topic):
    done = fmcli("help", *word.split())
    assert (done.returncode, done.stderr, done.stdout) == (0, "", fmcli("help", word).stdout)
    assert done.stdout.startswith(f"{first}\n\n")
    assert done.stdout.endswith(f"\n\nFrom: fmcli help {topic}\n")
    assert "<!--" not in done.stdout


@EVERY_TOPIC
def test_every_comment_with_words_of_users_is_below_a_heading(topic):
    assert len(re.findall("<!-- also:", page(topic))) == len(re.findall(r"^#.*\n\n<!-- also: \S", page(topic), re.M))


def test_words_of_users_are_those_of_one_section():
    words = [name for section in sections() if section.topic != "options" for name in section.names[1:]]
    assert len(set(words)) == len(words)
    assert not set(words) & set(topics())


def test_help_of_a_command_is_its_help_and_names_its_page(fmcli):
    pages = {"recommend": "recommending", "train": "training", "evaluate": "evaluation", "export": "model-file"}
    for name, topic in pages.items():
        assert fmcli("help", name).stdout == f"{fmcli(name, '--help').stdout}\nGuide: fmcli help {topic}\n"
    for name in COMMANDS.keys() - {"help"}:
        assert about(name), f"no section is about fmcli {name}; a comment below a heading says so"


@pytest.mark.parametrize(
    ("pager", "terminal", "shown"),
    [("sed s/^/+/", "xterm", "+MODEL FILE"), ("no-such-pager", "xterm", "MODEL FILE"), ("false", "dumb", "MODEL FILE")],
)
def test_on_a_terminal_a_page_goes_through_the_pager(pager, terminal, shown):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fmcli", "help", "model-file"]
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "PAGER": pager, "TERM": terminal}) as process:
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # Linux reports a closed terminal as an error
            pass
        assert process.wait(60) == 0
    os.close(ours)
    assert text.decode().startswith(shown)


@EVERY_TOPIC
@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_terminal_except_code_and_words(topic, width):
    for line in as_text(page(topic), width).splitlines():
        assert len(line) <= width or line.startswith("    ") or " " not in line.strip()


@EVERY_TOPIC
def test_formulas_fit_a_terminal_and_are_no_html(topic):
    """Indented formulas are not wrapped, and a browser would take <a, b> outside code for a tag."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", page(topic), flags=re.M | re.S)
    for line in text.splitlines():
        assert len(line) <= 80 or not line.startswith("    ")
        if not line.startswith(("    ", "|")):
            assert not re.search(r"<[^ =]", re.sub("`[^`]*`", "", line)), line


@EVERY_TOPIC
def test_text_has_all_words_of_the_page_and_no_markup(topic):
    text = as_text(page(topic), 80)
    assert not re.search(r"```|<!--|\]\(|\*\*|^#|^\||\\(?!N\b)", re.sub(r"^    .*$", "", text, flags=re.M), re.M)
    left_out = r"^```math.*?^```$|<!--.*?-->|(?<=\])\([^)\s]*\)|^\|[^\n]*\n\| ---[^\n]*$|^```\w+$"
    words = re.findall(r"\w+", re.sub(left_out, " ", page(topic), flags=re.M | re.S).lower())
    assert not set(words) - set(re.findall(r"\w+", text.lower()))


def test_blocks_of_markdown():
    markdown = (
        "# A\n\ntext `x`\n[b](c.md)\n\n- one\n  two\n- three\n\n```sh\n a\n```\n\n    y = x\n\n"
        "| a | |\n| --- | --- |\n| c | d \\| e |\n"
    )
    assert as_text(markdown, 40) == (
        "A\n\ntext x b (fmcli help c)\n\n- one two\n- three\n\n     a\n\n    y = x\n\nc  d | e\n"
    )


@pytest.fixture
def narrowed(capsys):
    """A function that returns the text of train --help-all with the given options, and the flags that it lists."""

    def run(*arguments):
        top = click.Context(group, info_name="fmcli")
        command = group.get_command(top, "train")
        width = {"max_content_width": 10_000, "terminal_width": 10_000}
        with pytest.raises(click.exceptions.Exit):
            command.make_context("train", ["--help-all", *arguments], top, **width)
        text = capsys.readouterr().out
        return text, set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M))

    return run


@pytest.mark.parametrize("model", MODELS)
def test_help_of_a_kind_has_exactly_the_options_that_a_run_takes(narrowed, model):
    _, flags = narrowed("-m", model)
    for option in OPTIONS.values():
        if option.name == "huber_delta":  # an option of a loss
            assert (option.flag in flags) != MODELS[model].closed_form
        elif option.name == "nuclear":
            assert (option.flag in flags) == (MODELS[model].solver == "cd" and "fit_beta" in MODELS[model].options)
        else:
            assert (option.flag in flags) == (option.name in values(model)), option.name


def values(model):
    """The options of a run of a model, without options that the model or its solver refuses, and without the group
    penalties of other models."""
    spec = make_spec(model)
    required = set(GROUP_PENALTIES) & set(MODELS[model].positive)
    others = set(GROUP_PENALTIES) - required if required else set()
    solver = SOLVERS.get(spec.solver)
    return set(spec.values) - set(MODELS[model].refuses) - set(solver.refuses if solver else ()) - others


@pytest.mark.parametrize("solver", SOLVERS)
def test_help_of_a_kind_follows_the_solver(narrowed, solver):
    text, flags = narrowed("-m", "anova", "-s", solver)
    spec = make_spec("anova", solver)
    assert ("--log-every" in flags) == spec.by_rows
    assert ("--nuclear" in flags) == (solver == "cd")
    assert {f"--{name.replace('_', '-')}" for name in SOLVERS[solver].options} <= flags
    assert "--pair-bits" not in flags
    for name in LOSSES:
        assert (f"\n  {name}  " in text) == (not refusal("anova", solver, name))


def test_help_of_a_kind_has_its_defaults(narrowed):
    text, _ = narrowed("-m", "shfm", "-s", "ftrl")
    assert re.search(r"--l1 X .*\[default: min\(1, rows/1000\) \* min\(1, size of values\); >= 0\]", text)
    assert re.search(r"--solver NAME .*\[default: cd\]", text)
    assert re.search(r"--alpha-w X .*\[default: --alpha; > 0\]", text)


def test_help_of_a_closed_form_has_no_solver_and_no_loss(narrowed):
    text, flags = narrowed("-m", "kernel-basis")
    assert not {"--solver", "--loss", "--huber-delta", "--epochs", "--l1"} & flags
    assert {"--basis", "--kernel", "--l2"} <= flags
    assert "Solvers:" not in text


def test_help_names_what_does_not_exist(fmcli):
    done = fmcli("train", "--help", "-m", "shfn")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert "shfm" in done.stderr


def test_commands_and_topics_have_one_meaning():
    assert set(topics()) & set(COMMANDS) == {"models"}
