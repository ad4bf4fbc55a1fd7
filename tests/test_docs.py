"""README and guide are correct: their shell blocks run and print the output shown, and their tables are complete."""

import doctest
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from forks import Forks
from modelfiles import export_arrays

import fmcli
from fmcli import errors
from fmcli.cli import COMMANDS, group
from fmcli.cli.completion import SHELLS
from fmcli.cli.pages.guide import page, topics
from fmcli.data.text.reader import read
from fmcli.registry.catalog import refusal
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import OPTIONS
from fmcli.registry.solvers import FEW_DENSE_ROWS, FEW_ROWS, SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.metrics import METRICS
from fmcli.training import job, saving
from fmcli.training.setup.hold_out import ENOUGH_HELD_OUT, LEAST_ROWS, MOST_SHARE, USUAL_SHARE

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
# Shell blocks, each with the output shown after it, or "".
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
BLOCKS = BLOCK.findall(README)
GUIDE = {topic: page(topic) for topic in topics()}
EVERY_PAGE = pytest.mark.parametrize("page", GUIDE)
# Commands that install fmcli or run these tests are skipped; the rest of such a line is run.
PATIENCE = 60  # seconds for a block
LINES = 600  # of each file of sample data are enough for pages that show no output
LEFT_OUT = re.compile(r"(?:python3 -m venv \S+|\. \S+/activate|pip install \S+|python -m pytest)(?: && )?")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """A command fmcli that runs the package under test, forked."""
    forks = Forks(dict(os.environ), PATIENCE)
    yield forks.command(tmp_path_factory.mktemp("bin"))
    forks.close()


@pytest.fixture
def run(command, tmp_path):
    """A function that runs a block in a folder with sample data. It must print the output shown, if there is any."""
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")

    def ran(block: str, shown: str = "") -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", LEFT_OUT.sub("", block)],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if shown:
            assert shape(done.stdout + done.stderr) == shape(shown)
        return done.stdout

    return ran


def shape(text: str) -> list[str]:
    """Return the words of an output, with numbers masked, because they differ between machines and builds, and without
    the times at the ends of lines, which only slow steps have."""
    timeless = re.sub(r"(?:, |  )[\d.,]+ s(?:, [\d.,]+ MB/s)?$", "", text, flags=re.M)
    return re.sub(r"[\d.,]*\d", "#", timeless).split()


@pytest.mark.parametrize("page", ["README", *(page for page, text in GUIDE.items() if BLOCK.search(text))])
def test_shell_blocks(run, page, tmp_path):
    blocks = BLOCKS if page == "README" else BLOCK.findall(GUIDE[page])
    if not any(shown for _, shown in blocks):
        for path in (tmp_path / "sample_data").iterdir():
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:LINES]))
    for block, shown in blocks:
        run(block, shown)  # later blocks use the files of earlier ones


def test_there_are_blocks_that_install_run_and_test():
    text = "".join(block for block, _ in BLOCKS)
    for line in ("pip install . && fmcli train sample_data/", "&& python -m pytest", "fmcli predict ", "fmcli report "):
        assert line in text
    assert [bool(shown) for _, shown in BLOCKS].count(True) == 1


def section(page: str, heading: str) -> str:
    """Return the text below a heading of a page, up to the next heading of the same level."""
    return GUIDE[page].split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text: str, number: int = 0) -> list[list[str]]:
    """Return the cells of a table, including the header row."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    lines = tables[number].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def names(table: list[list[str]]) -> list[str]:
    """Return the first cell of each row of a table."""
    return [row[0].strip("`") for row in table[1:]]


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.*)$", GUIDE[page], re.M)


def test_the_readme_is_short_and_begins_with_what_a_visitor_wants():
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 900
    first = README[: README.index("## Guide")]
    for words in ("speed.svg", "pip install .", "fmcli train ", "fmcli predict ", "Compared with other tools"):
        assert words in first
    counted = f"{len(MODELS)} models, {len(SOLVERS)} solvers and {len(LOSSES)} losses"
    assert counted in first


def test_the_guide_is_short():
    words = {topic: len(re.findall(r"\S*\w\S*", text)) for topic, text in GUIDE.items() if topic != "options"}
    assert sum(words.values()) <= 22_000
    assert max(words.values()) <= 2_500


def test_the_readme_has_the_figures_of_the_chart():
    for bars in json.loads((ROOT / "scripts" / "bench" / "figures.json").read_text()):
        for _, value in bars["bars"]:
            assert f"{value:g}" in README


def test_the_readme_lists_every_page():
    linked = set(re.findall(r"^\| \[([\w-]+)\]", README, re.M))
    assert linked | {"options"} == set(GUIDE)


def loaded(path: str):
    """Load a script as a module."""
    spec = importlib.util.spec_from_file_location("script", ROOT / "scripts" / path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_examples_in_python_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    parts = re.findall(r"^```python\n(.*?)^```", GUIDE["python"], re.M | re.S)
    test = doctest.DocTestParser().get_doctest("\n".join(parts), {}, "python.md", "python.md", 0)
    failed = []
    assert doctest.DocTestRunner().run(test, out=failed.append).failed == 0, "".join(failed)
    assert len(test.examples) > 15


def test_the_types_of_keyword_arguments_are_those_of_the_registry():
    script = loaded("reference.py")
    assert script.KEYWORDS.read_text() == script.keywords(), "keywords.py is out of date: run scripts/reference.py"


@EVERY_PAGE
def test_generated_parts_are_those_of_the_registry_and_the_commands(page):
    script = loaded("reference.py")
    assert script.written(GUIDE[page]) == GUIDE[page], f"{page}.md is out of date: run python scripts/reference.py"


def test_the_options_of_every_command_are_on_the_page():
    """A command that has all options of train says so, and lists only others."""
    parts = re.split(r"^## fmcli (\w+)$", GUIDE["options"].split("## Defaults by kind")[0], flags=re.M)[1:]
    pages = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(pages) == list(COMMANDS)

    def missing(name):
        listed = set(re.findall(r"--[\w-]+", " ".join(re.findall(r"^\| `([^`]+)`", pages[name], re.M))))
        options = [one for one in group.get_command(click.Context(group), name).params if isinstance(one, click.Option)]
        flags = [{*one.opts, *one.secondary_opts} for one in options if not one.hidden and one.name != "help"]
        return {max(some, key=len) for some in flags if not some & listed}

    assert missing("train") == set()
    of_train = set(re.findall(r"--[\w-]+", pages["train"]))
    for name, text in pages.items():
        assert missing(name) <= (of_train if "ptions are as in train" in text else set())


def test_the_chart_has_the_measured_figures():
    chart = loaded("bench/chart.py")
    assert chart.CHART.read_text() == chart.drawn(), "the chart is out of date: run python scripts/bench/chart.py"
    for bars in json.loads(chart.FIGURES.read_text()):
        for _, value in bars["bars"]:
            assert f"{value:g}" in GUIDE["performance"]


@EVERY_PAGE
def test_every_page_is_ascii_with_one_title(page):
    text = re.sub(r"^```.*?^```$", "", GUIDE[page], flags=re.M | re.S)
    assert GUIDE[page].isascii()
    assert re.match(r"# [A-Z].*\n\n", text)
    assert len(re.findall(r"^# ", text, re.M)) == 1


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "fmcli" / "guide").glob("*.md")]


@pytest.mark.parametrize("file", PAGES, ids=lambda path: path.stem)
def test_links_resolve(file):
    for target in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            linked = file.parent / path if path else file
            assert linked.is_file(), target
            anchors = [re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in
                       re.findall(r"^#+ (.*)$", linked.read_text(), re.M)] if anchor else [""]  # fmt: skip
            assert anchor in anchors, target


def test_the_table_of_models_and_solvers_is_complete():
    listed = [[re.findall(r"[\w-]+", cell) for cell in row] for row in rows(section("models", "Kinds and solvers"))[1:]]
    assert sorted(name for names, *_ in listed for name in names) == sorted(MODELS)
    for names, usual, refused in listed:
        for name in names:
            assert usual == [MODELS[name].solver]
            assert refused == [solver for solver in SOLVERS if refusal(name, solver)]


def test_every_model_has_its_section_with_formula_options_and_paper():
    assert sorted(heading for heading in headings("models") if heading.islower()) == sorted(MODELS)
    for name, model in MODELS.items():
        text = section("models", name)
        assert "```math" in text
        assert re.search(r"^    y +=", text, re.M) or "formula is that of `fm`" in text.replace("\n", " ")
        assert "Use it when" in text
        assert name == "linear" or "Paper: " in text
        for option in set(model.options) - {"bias", "linear"}:
            assert f"`{OPTIONS[option].flag}" in text.replace("--no-", "--"), option


def owners(cell: str) -> set[str]:
    """Return the models that a row of the table of arrays is about; arrays added by --augment belong to no model."""
    named = set(re.findall(r"`([\w-]+)`", cell.partition("augmented ")[0]))
    if cell.startswith("all kinds except"):
        return set(MODELS) - named
    if cell == "kinds with linear weights":
        return {"linear", *(name for name, model in MODELS.items() if "linear" in model.options)}
    return named


def described_arrays(model: str, order: int) -> dict[str, int]:
    """Return the names of a model's arrays and their numbers of axes, as described on the page of the model file."""
    found = {}
    for cell, arrays in rows(section("model-file", "Arrays"))[1:]:
        if model not in owners(cell):
            continue
        for names, axes in re.findall(r"(\w+(?:(?:, | \.\.\. )\w+)*) \(([^)]*)\)", arrays):
            first, dots, _ = names.partition(" ... ")
            numbered = [f"{first[0]}{t}" for t in range(int(first[1:]), order + 1)] if dots else names.split(", ")
            found.update(dict.fromkeys(numbered, len(axes.split(", "))))
    return found


@pytest.mark.parametrize("model", MODELS)
def test_the_page_of_the_model_file_has_every_array(model, tmp_path):
    data = read([str(ROOT / "sample_data" / "adult.train.ffm")], keep_fields=True).dataset
    options = {"rank": 4} if MODELS[model].closed_form else {"epochs": 0}
    trained = job.train(job.plan(data, make_spec(model, options=options)))
    saving.save_model(str(tmp_path / "model"), trained, job.summary(trained), "ffm")
    arrays = export_arrays(str(tmp_path / "model"))
    order = trained.plan.spec.values.get("order", 2)
    assert described_arrays(model, order) == {name: array.ndim for name, array in arrays.items() if name != "scale"}


def test_every_solver_has_its_rule_and_its_objective():
    for number in (1, 2):
        assert names(rows(GUIDE["solvers"], number)) == list(SOLVERS)
    table = rows(section("losses", "The objective of each solver"))
    objectives = re.findall(r"`([\w-]+)`", " ".join(row[0] for row in table))
    assert sorted(objectives) == sorted(SOLVERS)


def test_the_tables_of_losses_and_metrics_are_complete():
    for number in (0, 1):
        assert names(rows(section("losses", "Losses"), number)) == list(LOSSES)
    assert names(rows(section("losses", "Metrics"))) == list(METRICS)


def test_every_penalty_is_described():
    text = section("losses", "Penalties")
    for option in OPTIONS.values():
        if option.group == "penalty" and option.name not in ("l1_v", "l2_v", "huber_delta"):
            assert f"`{option.flag}" in text, option.name


def test_command_lines_beside_other_tools_are_understood():
    tables = rows(GUIDE["coming-from"]), rows(section("coming-from", "LightFM and implicit"))
    for row in [*tables[0][1:], *tables[1][1:]]:
        for line in re.findall(r"`(fmcli [^`]*)`", row[-1]):
            name, *arguments = shlex.split(line.partition(" <")[0])[1:]
            top = click.Context(group, info_name="fmcli")
            command = group.get_command(top, name)
            context = command.make_context(name, arguments, parent=top)
            if name == "train":
                given = dict(context.params)
                options = {name: given[name] for name in OPTIONS if given.get(name) is not None}
                make_spec(given["model"] or DEFAULT_MODEL, given["solver"], given["loss"], options)


def test_every_shell_has_its_line():
    text = section("operators", "Completion")
    assert names(rows(text)) == list(SHELLS)
    assert all(f"fmcli completion {shell}" in text for shell in SHELLS)


def test_the_events_of_the_json_log_are_those_that_are_written(run):
    options = "-q -e 2 --holdout 0.1 --log-every 1000 --log-json - -o log.fm"
    lines = map(json.loads, run(f"fmcli train {options} sample_data/adult.train.libsvm").splitlines())
    written = {line["event"]: [name for name in line if name != "event"] for line in lines}
    listed = {}
    for kind, figures in rows(section("training", "What the log shows"))[1:]:
        listed[kind.strip("`")] = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", figures))
    assert listed == written


def test_the_description_of_validation_is_correct():
    text = " ".join(section("training", "Validation data").split())
    shares = f"{100 * USUAL_SHARE:g} % of the rows", f"{ENOUGH_HELD_OUT} rows", f"{100 * MOST_SHARE:g} %"
    assert all(words in text for words in (*shares, f"{LEAST_ROWS} rows"))
    patience = {SOLVERS[name].patience for name in ("adagrad", "cd", "lbfgs")}
    few = f"with at most {FEW_ROWS:,} rows, and with at most {FEW_DENSE_ROWS:,} rows that have most features"
    assert f"`--patience` is {min(patience)} by default; it is {max(patience)} with `cd` and `lbfgs`, {few}" in text


def test_the_changelog_names_all_pieces():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    for name in (*MODELS, *SOLVERS, *LOSSES):
        assert f"`{name}`" in changelog, f"CHANGELOG.md does not name {name}"


def test_the_table_of_exit_statuses_is_that_of_the_errors():
    listed = {int(status) for row in rows(section("operators", "Exit status"))[1:] for status in row[0].split(", ")}
    raised = {
        kind.exit_status
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.FmcliError)
    }
    assert listed == raised | {0, 130, 141, 143}


def test_the_changelog_names_the_version():
    assert fmcli.__version__ in (ROOT / "CHANGELOG.md").read_text()
