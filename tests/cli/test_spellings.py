"""Option spellings of other tools: accepted ones have the meaning they have there; for others, the error names ours."""

import re
from functools import partial
from itertools import permutations

import click
import pytest

from fmcli.cli import group
from fmcli.cli.spellings.other_tools import COMMANDS as OTHER_COMMANDS
from fmcli.cli.spellings.other_tools import FREE_LETTERS, VALUES
from fmcli.cli.spellings.translate import options_of
from fmcli.errors import UsageError
from fmcli.names import close, wrong_letters
from fmcli.registry.choices import long_flag, spelled
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.synonyms import (
    ANSWERS,
    CHOICE,
    DENIALS,
    LOSS_NAMES,
    METRIC_NAMES,
    MODEL_NAMES,
    OF_COMMAND,
    SOLVER_NAMES,
    answers,
    explained,
)
from fmcli.scoring.metrics import METRICS

TOP = click.Context(group, info_name="fmcli")
COMMANDS = {name: group.get_command(TOP, name) for name in group.list_commands(TOP)}
FLAGS = {name: options_of(command, click.Context(command, TOP, info_name=name)) for name, command in COMMANDS.items()}


def parse(command, *arguments):
    """Parse a command line and return the values of the options."""
    return COMMANDS[command].make_context(command, [*arguments], parent=TOP).params


def refused(command, *arguments):
    with pytest.raises((UsageError, click.UsageError)) as caught:
        parse(command, *arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("spelled", "ours"),
    [
        (["--dim", "1,1,4"], ["--rank", "4"]),
        (["--dim=0,1,4"], ["--rank", "4", "--no-bias"]),
        (["--dim", "1,0,16"], ["--rank", "16", "--no-linear"]),
        (["--dim", "0,0,16"], ["--rank", "16", "--no-linear", "--no-bias"]),
        (["--regular", "0,0.1,0.2"], ["--l2-w", "libFM:0.1", "--l2-v", "libFM:0.2"]),
        (["--regular=0.3"], ["--l2-w", "libFM:0.3", "--l2-v", "libFM:0.3"]),
        (["--iter", "7"], ["-e7"]),
        (["--passes=7"], ["--epochs", "7"]),
        (["--lr", "0.5"], ["-r", "0.5"]),
        (["--nthread", "2"], ["-j", "2"]),
        (["--auto-stop"], ["--patience", "1"]),
        (["-q", "--lr", "0.5", "-k4"], ["-q", "-r0.5", "-k", "4"]),
    ],
)
def test_familiar_spellings_mean_ours(spelled, ours):
    assert parse("train", *spelled, "x") == parse("train", *ours, "x") != parse("train", "x")


def test_a_familiar_spelling_trains_the_same_model(run, sample, tmp_path):
    ours = ["-k", "4", "--no-linear", "--l2-w", "0.1", "--l2-v", "0.2", "-e", "3", "-r", "0.2", "-o", "ours"]
    theirs = ["--dim", "1,0,4", "--regular", "0,0.1,0.2", "--iter", "3", "--lr=0.2", "-o", "theirs"]
    for options in (ours, theirs):
        run.ok("train", "-q", *options, sample / "adult.train.libsvm")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize(("solver", "rows"), [("cd", 2500), ("lbfgs", 2500), ("sgd", 1), ("ftrl", 1)])
def test_libfms_regularization_is_of_a_sum_or_of_an_update(run, sample, tmp_path, solver, rows):
    """In libFM, the regularization of ALS is relative to the sum of the losses; SGD adds it in every update."""
    ours = ["--l2-w", repr(3 / rows), "--l2-v", repr(5 / rows), "-o", "ours"]
    for options in (ours, ["--regular", "0,3,5", "-o", "theirs"]):
        run.ok("train", "-q", "-s", solver, "-e", "2", "--holdout", "0", *options, sample / "adult.train.libsvm")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_threads_are_spelled_so_in_every_command_that_has_them():
    assert parse("predict", "--nthread", "3", "m")["threads"] == 3
    assert "there is no option '--iter'" in refused("predict", "--iter", "3", "m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iter", "3", "-e", "4"], "--iter and -e set the same option; give one of them"),
        (["--epochs=4", "--passes", "3"], "--epochs and --passes set the same option"),
        (["--iter", "3", "--iter", "4"], "--iter 3 and --iter 4 set the same option"),
        (["--iter", "3", "--passes", "3"], "--iter and --passes set the same option"),
        (["--dim", "1,1,4", "-k", "4"], "--dim and -k set the same option"),
        (["--dim", "1,1,4", "--no-bias"], "--dim and --no-bias set the same option"),
        (["--regular", "1", "--l2", "1"], "--regular and --l2 set the same option"),
        (["--auto-stop", "--patience", "2"], "--auto-stop and --patience set the same option"),
        (["--auto-stop=2"], "--auto-stop takes no value"),
        (["--regular", "1,2,3"], "the bias is never penalized, so the first number must be 0: --regular 0,2,3"),
        (["--regular", "0,1"], "it must be one strength >= 0, or 0,R1,R2"),
        (["--regular", "a"], "it must be one strength >= 0, or 0,R1,R2"),
        (["--regular", "0,1,-1"], "it must be one strength >= 0, or 0,R1,R2"),
        (["--dim", "8"], "it must be three numbers K0,K1,K2"),
        (["--dim", "1,2,8"], "it must be three numbers"),
        (["--dim", "1,1,-8"], "it must be three numbers"),
        (["--dim", "1,1,0"], "without factors this is the linear model: -m linear"),
        (["--iter", "many"], "'many' is not a valid integer"),
    ],
)
def test_contradictory_options_are_refused(run, tmp_path, arguments, message):
    (tmp_path / "x").write_text("1 1:1\n0 2:1\n")
    done = run.fails(2, "train", *arguments, "x")
    assert message in done.stderr


def test_a_line_of_another_tool_is_answered_as_a_whole():
    said = refused("train", "-l", "0.00002", "-k", "4", "-t", "-15", "-r", "0.2", "-s", "4", "--nosuch", "t", "out")
    assert [line[:28] for line in said.splitlines()] == [
        "there is no option '-l'; did",
        "there is no option '-t'; did",
        "-s is the solver; threads ar",
        "there is no option '--nosuch",
    ]


def test_a_spelling_at_the_end_without_value_is_refused():
    assert "requires an argument" in refused("train", "x", "--iter")


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_one_value_is_refused_with_two(name):
    for one in COMMANDS[name].params:
        if not isinstance(one, click.Option) or one.multiple or one.count:
            continue
        switches = [one.opts[:1], one.secondary_opts[:1]]
        if not one.is_flag:
            calls = [((one.opts[0], "1"), (one.opts[-1], "2"))]
        else:
            calls = permutations(switches) if all(switches) else []
        for first, second in calls:
            both = " ".join([*first, "and", *second])
            assert f"{both} set the same option; give one of them" in refused(name, *first, *second)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["-e", "3", "--epochs=3"], "epochs", 3),
        (["--iter", "3", "--iter=3"], "epochs", 3),
        (["--no-norm", "--no-norm"], "norm", False),
        (["--verbose", "--verbose"], "verbose", True),
        (["--ignore", "a", "--ignore", "b"], "ignore", ("a", "b")),
        (["-q", "-q"], "quiet", 2),
    ],
)
def test_the_same_value_may_be_repeated_and_lists_are_united(words, name, value):
    assert parse("train", *words, "x")[name] == value


@pytest.mark.parametrize("words", [["-k4", "-k8"], ["-k4", "--rank=8"], ["-qk4", "-k", "8"]])
def test_two_values_of_an_option_are_named(run, words):
    assert run.fails(2, "train", *words, "x").stderr.endswith(" 8 set the same option; give one of them\n")


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--l2", "-1"], "l2", -1.0),
        (["--l2=-1"], "l2", -1.0),
        (["-r-1"], "learning_rate", -1.0),
        (["-o", "-t"], "output", "-t"),
        (["-o", "--iter"], "output", "--iter"),
        (["-qk", "4"], "rank", 4),
        (["-qk4"], "rank", 4),
        (["-i-iter"], "init_model", "-iter"),
        (["-m", "fm", "--", "-iter"], "inputs", ("-iter", "x")),
        (["-"], "inputs", ("-", "x")),
    ],
)
def test_a_value_may_begin_with_a_dash(arguments, name, value):
    assert parse("train", *arguments, "x")[name] == value


@pytest.mark.parametrize("word", ["-iter", "-dim", "-regular", "-nthread", "-alpha", "-rank", "-init_std"])
def test_words_have_two_dashes(word):
    double = "--" + word[1:].replace("_", "-")
    assert refused("train", word, "1", "x") == (f"there is no option {word!r}: long options have two dashes: {double}")


def has(command, choice):
    """Whether a command has a choice."""
    return long_flag(choice) in FLAGS[command]


def flags_in(text):
    """The flags of the choices in an answer or a sentence."""
    return {long_flag(choice) for choice in CHOICE.findall(text)}


def shown(command, word):
    """The error for an option of another tool."""
    return refused(command, f"-{word}" if len(word) == 1 else f"--{word}", "1", "x")


def test_every_answer_is_given_by_a_command():
    for command, table in {"": ANSWERS, **OF_COMMAND}.items():
        for answer, words in table.items():
            for word in words.split():
                names = [name for name in ([command] if command else COMMANDS) if f"--{word}" not in FLAGS[name]]
                said = [explained(name, word, partial(has, name)) for name in names]
                assert f"; did you mean {answer}?" in said, word


def test_answers_have_options_and_values_that_exist():
    """Options behind the name of a command are of that command, the others of each command that gives the answer."""
    for answer in {*ANSWERS, *(one for table in OF_COMMAND.values() for one in table)}:
        for name, rest in re.findall(r"fmcli (\w+)([^,]*?)(?=,| or |$)", answer):
            assert flags_in(rest) <= FLAGS[name].keys(), answer
        own = re.sub(r"fmcli .*", "", answer)
        assert any(flags_in(own) <= flags.keys() for flags in FLAGS.values()), answer
        assert set(re.findall(r"{solver} (?!or)(\w+)", answer)) <= SOLVERS.keys()
        assert set(re.findall(r"{loss} (\w+)", answer)) <= LOSSES.keys()


def test_words_of_another_tool_are_no_options_of_the_command():
    for command, flags in FLAGS.items():
        for word in [*OF_COMMAND.get(command, {}).values(), *DENIALS.get(command, {}).values()]:
            assert not {f"-{one}" if len(one) == 1 else f"--{one}" for one in word.split()} & flags.keys()


@pytest.mark.parametrize("command", DENIALS)
def test_what_is_denied_exists_in_no_command(command):
    """Neither an option of any command nor a command has the name of what no command does."""
    for sentence, words in DENIALS[command].items():
        for word in words.split():
            flag = f"-{word}" if len(word) == 1 else f"--{word}"
            assert not [name for name, flags in FLAGS.items() if flag in flags], (sentence, word)
            assert word not in COMMANDS
            assert shown(command, word) == f"there is no option {flag!r}: {spelled(sentence, long_flag)}"
        named = re.findall(r"fmcli (\w+)", sentence)
        assert set(named) <= COMMANDS.keys()
        assert flags_in(sentence) <= FLAGS[command].keys()


def test_unused_short_options_stay_unused():
    for flags in FLAGS.values():
        assert not {f"-{letter}" for letter in FREE_LETTERS} & flags.keys()
    assert set(FREE_LETTERS) <= answers("train").keys()


def test_value_spellings_belong_to_existing_options():
    for command, option in VALUES:
        assert option in {parameter.name for parameter in COMMANDS[command].params}


def test_closeness():
    names = ["learning-rate", "rank", "logistic", "fm", "l1fm", "micro-f1"]
    assert close("fn", names)[0] == "fm"
    assert close("learning_rate", names) == ["learning-rate"]
    assert close("LOGISTIC", names) == ["logistic"]
    assert close("learn", names) == ["learning-rate"]
    assert close("zzzzzz", names) == []
    assert close("rate", names) == ["learning-rate"]
    assert close("", ["a", "fm"]) == close("x", ["a", "fm"]) == []


def edits(text, letters, exchanges=True):
    """The texts that one insertion, omission, replacement or exchange of neighbors makes of a text."""
    for at in range(len(text) + 1):
        yield from (text[:at] + letter + text[at:] for letter in letters)
        if at < len(text):
            yield text[:at] + text[at + 1 :]
            yield from (text[:at] + letter + text[at + 1 :] for letter in letters)
        if exchanges and at + 1 < len(text):
            yield text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def test_wrong_letters_are_the_fewest_edits():
    for start in ("rank", "abba", "a", ""):
        letters = sorted({*start, "x"})
        one = set(edits(start, letters)) - {start}
        assert {wrong_letters(start, text) for text in one} == {1}
        two = {text for once in edits(start, letters, False) for text in edits(once, letters, False)} - one - {start}
        assert {wrong_letters(start, text) for text in two} == {2}


@pytest.mark.parametrize("flag", ["rank", "epochs", "holdout"])
def test_one_wrong_letter_is_understood(flag):
    for word in set(edits(flag, "ex")) - {flag} - answers("train").keys():
        if f"--{word}" not in FLAGS["train"]:
            assert f"--{flag}" in refused("train", f"--{word}", "3", "x"), word


# Options and values of other tools, and the counterpart that the message names.
FIELD = {
    "--no_components 8": "did you mean --rank?",
    "--k 8": "did you mean -k?",
    "-K 8": "did you mean -k?",
    "--e 8": "did you mean -e?",
    "--l2v 1": "did you mean --l2-v?",
    "--lr_v 1": "--learning-rate-v",
    "--cv 5": "did you mean fmcli cv --folds K?",
    "--folds 5": "did you mean fmcli cv --folds K?",
    "--kfold 5": "did you mean fmcli cv --folds K?",
    "-f 5": "folds are fmcli cv --folds 5",
    "-C": "did you mean fmcli tune --l2",
    "--factors 8": "did you mean --rank?",
    "--n-jobs 4": "did you mean --threads?",
    "--num_threads 4": "did you mean --threads?",
    "--reg 0.1": "--l2",
    "--regularization 0.1": "--l2",
    "--reg_alpha 0.1": "--l1",
    "--iterations 8": "did you mean --epochs?",
    "--n_iter 8": "did you mean --epochs?",
    "--random_state 1": "--seed",
    "--eta 0.1": "did you mean --learning-rate?",
    "--early_stopping_rounds 3": "--patience",
    "--objective binary": "--loss",
    "--threshold 0.4": "fmcli predict",
    "--scale_pos_weight 3": "--pos-weight",
    "--max_sampled 10": "fmcli negatives",
    "--validation_fraction 0.1": "--holdout",
    "-s als": "did you mean cd?",
    "-s ALS": "did you mean cd?",
    "-s gibbs": "did you mean mcmc?",
    "-s l-bfgs": "did you mean lbfgs?",
    "-s adam": "did you mean adagrad?",
    "--loss warp": "did you mean bpr?",
    "-m mf": "did you mean fm?",
    "-x f1": "did you mean micro-f1, macro-f1 or macro-f1-pr?",
    "-x roc_auc": "did you mean auc?",
}


def test_the_words_of_the_field_lead_to_ours():
    for theirs, ours in FIELD.items():
        assert ours in refused("train", *theirs.split(), "x")


@pytest.mark.parametrize("word", ["no_components", "factors", "n-jobs", "reg", "threshold", "dropout", "vocabulary"])
def test_suggestions_by_letters_are_close(word):
    assert close(word, [flag for flag in FLAGS["train"] if flag.startswith("--")]) == []


def test_each_word_has_one_counterpart():
    """But for a command, which stands behind an option of the same name."""
    for table in (ANSWERS, *OF_COMMAND.values(), *DENIALS.values()):
        words = [word for answer, each in table.items() if "fmcli cv" not in answer for word in each.split()]
        assert len(set(words)) == len(words)


def test_other_names_of_commands_losses_and_models_lead_to_ours():
    assert set(OTHER_COMMANDS.values()) <= {*COMMANDS, "--help"}
    tables = (LOSS_NAMES, LOSSES), (MODEL_NAMES, MODELS), (SOLVER_NAMES, SOLVERS), (METRIC_NAMES, METRICS)
    for theirs, ours in tables:
        assert {name for names in theirs.values() for name in names} <= ours.keys()
    assert not SOLVER_NAMES.keys() & SOLVERS.keys()
    assert not METRIC_NAMES.keys() & METRICS.keys()
    assert not MODEL_NAMES.keys() & MODELS.keys()
    assert not OTHER_COMMANDS.keys() & COMMANDS.keys()
    assert not LOSS_NAMES.keys() & LOSSES.keys()
    for name, (meant,) in LOSS_NAMES.items():
        assert refused("train", "--loss", name, "x") == f"there is no loss {name!r}; did you mean {meant}?"
    for name, (meant,) in MODEL_NAMES.items():
        assert refused("train", "-m", name, "x") == f"there is no model {name!r}; did you mean {meant}?"


def test_similar_names_are_few_and_the_closest_come_first():
    assert close("--lear", ["--learning-rate-w", "--tear", "--learning-rate", "--learn", "--learns"]) == [
        "--learn",
        "--learns",
        "--learning-rate",
    ]
    for command in COMMANDS:
        said = refused(command, "--bys", "1")
        assert "there are:" not in said
        assert said.count("--") <= 4
