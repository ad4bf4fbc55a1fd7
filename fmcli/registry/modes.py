"""The modes of a command, which options turn on: what each needs of the model and the solver of a run, and which other
options it excludes. `check_modes` tries every pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import ROUNDS, SOLVERS
from fmcli.registry.specs import Spec

# Given if metrics or the loss need groups of rows.
RANKING = "ranking"
# Given if lines with errors are skipped.
SKIPPING = "--on-bad-line skip"
# A run that keeps the rows of new features in memory, wherever they come from.
ONLY_NEW, WHERE_ROWS_ARE = "--only-new", ("--disk", "--cluster", "--relation")
# Given if the rows to hold out are not random ones.
HOLDOUT_GROUP = "--holdout group:.., time:.. or last-of:.."
# Given if both are.
KIND_AND_SOLVER = "both -m and -s"
# Given if split, which has no other random choices, has a seed.
SEED_OF_SPLIT = "--seed of split"
# What tells the folds of cv: a file, not a number; and given if tune compares on folds.
FOLDS_IN_FILE, FOLDS = "--folds FILE", "--folds K"


def anything(spec: Spec) -> str:
    """Take any model and solver."""
    return ""


@dataclass(frozen=True)
class Mode:
    """A mode of a command.

    flag : the option that turns it on.
    refuses : another option -> the reason why they exclude each other.
    suboptions : options that have no use without it, in the commands that have it.
    needs : why a run of a spec cannot have it, or "".
    """

    flag: str
    refuses: Mapping[str, str] = field(default_factory=dict)
    suboptions: tuple[str, ...] = ()
    needs: Callable[[Spec], str] = anything


def check_modes(given: Mapping[str, object], spec: Spec | None = None) -> None:
    """Check the options of a command: every mode with every other option, and with the spec of its run, if it trains.

    given : option -> whether it is given; all options that the command has.

    Raises UsageError for the first contradiction.
    """
    for mode in MODES:
        if not given.get(mode.flag):
            for option in mode.suboptions:
                if given.get(option) and mode.flag in given:
                    raise UsageError(f"{option} needs {mode.flag}; give both, or leave {option} out")
            continue
        elsewhere = given.get(ONLY_NEW) and mode.flag in WHERE_ROWS_ARE
        if spec and not elsewhere and (reason := mode.needs(spec)):
            raise UsageError(reason)
        for other, reason in mode.refuses.items():
            if given.get(other):
                raise UsageError(f"{mode.flag} and {other} cannot be combined: {reason}; leave one of them out")


def suits(given: Mapping[str, object], spec: Spec) -> bool:
    """Return whether a run of a spec can have all modes that options of a command turn on."""
    return not any(given.get(mode.flag) and mode.needs(spec) for mode in MODES)


def of_solvers(can: Callable[[str], bool]) -> str:
    """Return the solvers that can do something, as a choice: "-s cd or -s mcmc"."""
    return " or ".join(f"-s {name}" for name in SOLVERS if can(name))


def on_cluster(spec: Spec) -> str:
    """Return why a run cannot be trained by the sums of workers."""
    solver = spec.solver_entry
    if MODELS[spec.model].closed_form:
        return f"{spec.model} is solved in closed form, on one machine; leave out --cluster"
    if not solver.cluster:
        reason = solver.alone or "takes a step after each row, which needs the result of the one before"
        able = of_solvers(lambda name: bool(SOLVERS[name].cluster))
        return f"{spec.solver} {reason}, so that workers would wait for each other; with --cluster, choose {able}"
    if solver.cluster != ROUNDS:
        return ""
    whole = of_solvers(lambda name: SOLVERS[name].cluster not in ("", ROUNDS))
    if spec.loss is not None and not LOSSES[spec.loss].bounded:
        return f"{spec.solver} needs a loss of bounded curvature on a cluster, unlike {spec.loss}; use {whole}"
    if spec.values.get("llfm_variant", "do") != "do":
        moves = f"{spec.solver} moves the anchors of {spec.model} after each row, which a cluster cannot"
        return f"{moves}; use {whole}, or --llfm-variant do"
    return "on a cluster, use --round-size instead of --batch-size" if spec.values.get("batch_size", 1) > 1 else ""


def in_one_pass(spec: Spec) -> str:
    """Return why a run needs its rows more than once."""
    if not spec.by_rows:
        return f"{spec.solver} needs all rows in every step; stochastic solvers do not; leave out --online"
    if spec.values["epochs"] != 1:
        return "--online makes a single pass; use --epochs 1"
    if spec.values["round_size"] > 1:
        return "--round-size needs rows in memory or --disk; leave out --online, or use --round-size 1"
    return ""


def from_disk(spec: Spec) -> str:
    """Return why a run needs all its rows in memory."""
    return f"{spec.solver} needs all rows in memory; leave out --disk" if spec.solver_entry.in_memory else ""


def with_relations(spec: Spec) -> str:
    """Return why a run cannot train on rows with relations."""
    if not MODELS[spec.model].joins:
        kinds = ", ".join(kind.name for kind in MODELS.values() if kind.joins)
        return f"--relation trains the models {kinds}, not {spec.model}; choose one of them, or join the files"
    if not spec.solver_entry.joins:
        able = of_solvers(lambda name: SOLVERS[name].joins)
        step = f"{spec.solver} takes a step for each row, so that relations would not save it any work"
        return f"{step}; use {able}, or join the files"
    return ""


def sampling(flag: str, use: str) -> Callable[[Spec], str]:
    """Return a function that says why a run without draws has no `use` for an option."""

    def needs(spec: Spec) -> str:
        if spec.solver_entry.is_sampler:
            return ""
        able = of_solvers(lambda name: SOLVERS[name].is_sampler)
        return f"{flag} {use}, and {spec.solver} has none; use {able}, or leave it out"

    return needs


def in_steps(spec: Spec) -> str:
    """Return why a run has no state to keep."""
    solved = f"{spec.model} is solved in one step, which cannot be continued; leave out --checkpoint"
    return solved if MODELS[spec.model].closed_form else ""


def with_rivals(spec: Spec) -> str:
    """Return why a run has no other solvers to compare."""
    solved = f"{spec.model} is solved in closed form, so that there are no solvers to compare; leave out --auto or -m"
    return solved if MODELS[spec.model].closed_form else ""


def by_rows(spec: Spec) -> str:
    """Return why a run has no running loss."""
    return "" if spec.by_rows else f"--log-every applies only to stochastic solvers, not to {spec.solver}; leave it out"


# The options that name columns of tables, or say how tables are read.
OF_TABLES = (
    *("--label", "--categorical", "--numeric", "--several", "--separator", "--ignore", "--weight-column"),
    *("--missing-values", "--missing", "--bins", "--columns", "--delimiter", "--encoding", "--schema", "--sql"),
    *("--join", "--print-schema", "--vector", "--decimal"),
)
CROSS, TUNE = "cv", "tune"
SEEN = "the earlier model may have seen the rows that are held out"
ONCE = "a stream is read once, by one model"
BY_THE_CLOCK = "runs that the clock ends have other numbers of epochs every time, and are not those of their options"
# What commands that compare options refuse.
COMPARING = {
    **dict.fromkeys(
        ("--checkpoint", "--keep-state", "--test", "--dry-run", "--fail-worse-than-constant"), "no model is written"
    ),
    "-i": SEEN,
    "--online": ONCE,
    "--log-every": "runs that are compared train at the same time",
    "--print-schema": "use fmcli train",
}
NOT_KEPT = "rows are read once, and not kept"
DIVIDING = "each decides where a row goes"
ONE_FORM = "a file has one form"
RANDOM = "only random folds differ between repeats"
MODES = (
    Mode("-v", {"--holdout": "both give validation data"}),
    Mode(
        "--refit",
        {
            "-v": "no rows are held out",
            "--holdout 0": "no rows are held out",
            "--max-seconds": "the time of a refit, which repeats the best epochs, cannot be limited",
        },
    ),
    Mode(
        CROSS,
        {
            **COMPARING,
            "--cluster": "workers have counted the features and labels of all rows, and not those of each fold",
            "--max-seconds": BY_THE_CLOCK,
        },
    ),
    Mode(
        TUNE,
        {
            **COMPARING,
            "--auto": "it is a part of the search",
            "--ensemble": "single models are compared",
            "--holdout 0": "options are compared on held-out rows",
            "-e": "the search chooses the number of epochs by itself",
            "--only-new": "no trial resumes from a model",
        },
    ),
    Mode(
        "--calibrate",
        {
            "-i": "that model may have seen the rows that calibrate",
            "--online": ONCE,
            "--cluster": "workers have counted the features and labels of all rows, and not those of each fold",
            "--max-seconds": BY_THE_CLOCK,
            "--test": "use fmcli predict",
        },
    ),
    Mode(
        "--auto",
        {
            "--online": ONCE,
            "-i": SEEN,
            "--max-seconds": BY_THE_CLOCK,
            "--holdout 0": "kinds are compared on held-out rows",
            KIND_AND_SOLVER: "no other kind or solver is left to compare",
        },
        needs=with_rivals,
    ),
    Mode("--log-every", needs=by_rows),
    Mode("--init-strength", {"--only-new": "it keeps all parameters that the earlier model has"}),
    Mode(
        ONLY_NEW,
        {
            **dict.fromkeys(("-m", "-s", "--loss"), "all but the new features is as in the earlier model"),
            **dict.fromkeys(("-v", "--holdout", "--refit"), "new features get a minimum, whose epochs nothing chooses"),
            **dict.fromkeys(("--keep-state", "--no-keep-state"), "the state is that of the earlier model"),
            "--ensemble": "an ensemble learns new features as it is",
            "--test": "only a run that draws all parameters knows the mean over its sweeps",
            "--online": "a minimum needs all rows of a new feature at once",
        },
    ),
    Mode("--hash-bits", {"--rare share": "a shared column needs a dictionary of ids"}),
    Mode(
        "--min-count",
        {
            "--online": "it trains on rows before all of them are counted",
            "-i": "the rows of that model are not counted",
        },
        suboptions=("--rare",),
    ),
    Mode("--sample-weights", {SKIPPING: "a line of weights belongs to each row"}),
    Mode("--class-weight", {"--pos-weight": "both give weights to labels"}),
    Mode(
        "--prior-groups",
        {"--hash-bits": "a column of hashed ids may have features of several groups"},
        needs=sampling("--prior-groups", "tells which features share a prior"),
    ),
    Mode(
        "--test",
        {"--ensemble": "use fmcli predict", "--relation": "use fmcli predict"},
        suboptions=("--test-output",),
        needs=sampling("--test", "is predicted by the mean over draws"),
    ),
    Mode("--checkpoint", suboptions=("--resume", "--checkpoint-every"), needs=in_steps),
    Mode(
        "--ensemble",
        {
            "-i": "the models would begin with the same parameters",
            "--checkpoint": "a checkpoint keeps the progress of a single run",
            "--keep-state": "no run can resume from several models",
            "--max-seconds": "the models that train last would have no time",
            "--online": "every model needs a pass over the rows",
            "--cluster": "the workers have the rows and the state of a single run",
            "--disk": "models that train at the same time share their rows in memory",
        },
    ),
    Mode(
        "--explain",
        {
            **dict.fromkeys(
                ("--output-type", "--raw", "--sigmoid", "--sign"), "an explanation has the parts of the raw score"
            ),
            **dict.fromkeys(("--std", "--interval"), "parts are averages over draws"),
            "--passthrough": "a row has a line for each part (use --id-column)",
            "--cluster": "workers only predict",
        },
        suboptions=("--explain-format",),
    ),
    Mode(
        "--fold-in",
        {
            "--cluster": "workers read the model's file; train it with --only-new",
            "--relation": "new features are known by the rows that they are in",
        },
    ),
    Mode(
        "--importance",
        {"--verify": "the model is not shown"},
        suboptions=("--permute", "--join", "--missing-values", "-j"),
    ),
    Mode("--permute", suboptions=("--seed",)),
    Mode("--similar", dict.fromkeys(("--importance", "--verify"), "similar features are listed instead")),
    Mode("--interval", {"--cluster": "workers write predictions, and --std"}),
    Mode("--calibration", {"--cluster": "workers return metrics only"}),
    Mode("--id-column", {"--label-weights": "both change the beginning of a line"}),
    Mode(
        "--over",
        {
            "--predictions": "items are ranked by a model",
            "--no-worse-than": "its difference is one of rows, not of users",
            "--label-weights": "users all count the same",
            "--calibration": "scores of rankings are no probabilities of labels",
            "--relation": "an item is found by its features",
            "--cluster": "a user may have rows in several parts",
            SKIPPING: "every row counts",
        },
        suboptions=("--seen",),
    ),
    Mode("--relevant", {"--cluster": "workers do not know it"}),
    Mode(
        "--no-worse-than",
        {"--predictions": "it compares two models", "--cluster": "it compares two models on this machine"},
        suboptions=("--by",),
    ),
    Mode(
        "--predictions",
        {
            "--label-weights": "only a model has rows to weigh",
            "--relation": "only a model joins rows",
            "--missing-values": "only labels are read",
            "--join": "only labels are read",
            "--cluster": "only a model is evaluated there",
            SKIPPING: "each line needs a prediction",
        },
        suboptions=("--loss", "--raw", "--label"),
    ),
    Mode(
        "--relation",
        {
            "--cluster": "a part of a file does not know the numbers of its rows",
            SKIPPING: "a line of MAP belongs to each row",
            "--disk": "a cache has joined rows",
            "--online": "the rows of relations are kept",
            "-v": "validation data have no relations (use --holdout)",
            "--hash-bits": "relations have columns of their own",
            "--rare share": "relations have columns of their own",
            "--norm": "the length of a row is that of the joined one",
            "--scale": "a column is scaled over the joined rows",
        },
        needs=with_relations,
    ),
    Mode(
        "--disk",
        {
            "--online": "a cache keeps the rows for several epochs",
            HOLDOUT_GROUP: "a cache does not keep the groups of rows",
            RANKING: "a cache does not keep the groups of rows",
        },
        suboptions=("--cache", "--memory"),
        needs=from_disk,
    ),
    Mode("--cache", suboptions=("--disk",)),
    Mode(
        "--online",
        {
            "--checkpoint": f"a run that continues needs the rows before it again, but {NOT_KEPT}",
            "--holdout": NOT_KEPT,
            "--refit": NOT_KEPT,
            RANKING: f"it needs whole groups of rows, but {NOT_KEPT}",
            "--dry-run": f"it reads all rows, but {NOT_KEPT}",
            "--sample-weights": "a stream has no lines that are known before",
            "--class-weight balanced": f"it needs the labels of all rows, but {NOT_KEPT}",
        },
        needs=in_one_pass,
    ),
    Mode(
        "--cluster",
        {
            "--disk": "workers keep the rows",
            "--online": "workers keep the rows",
            HOLDOUT_GROUP: "partitions do not keep the groups of rows",
            RANKING: "partitions do not keep the groups of rows",
            "--sample-weights": "workers do not know the numbers of lines; use --label-weights",
            "--unbuffered": "workers predict whole parts of the inputs",
            "-j": "each worker has its own threads (dask worker --nthreads N)",
        },
        suboptions=("--tls-ca-file", "--tls-cert", "--tls-key", "--cluster-dir", "--output-dir"),
        needs=on_cluster,
    ),
    Mode("--output-dir", {"-o": "each says where the predictions are written"}),
    Mode("-i", suboptions=("--only-new", "--init-strength")),
    Mode(FOLDS, {"-v": "both give validation data", "--holdout": "both say what is held out"}),
    Mode("--by-time", {SEED_OF_SPLIT: "times decide where a row goes"}),
    Mode("--by-order", {"--by-time": DIVIDING, SEED_OF_SPLIT: "the order decides where a row goes"}),
    Mode("--by-group", {**dict.fromkeys(("--by-time", "--by-order"), DIVIDING), FOLDS_IN_FILE: DIVIDING}),
    Mode("--repeats", dict.fromkeys((FOLDS_IN_FILE, "--by-time", "--by-order", "--no-shuffle-folds"), RANDOM)),
    Mode(
        "--last",
        {
            **dict.fromkeys(("--by-group", "--by-order"), DIVIDING),
            "--shares": "the second output gets the last rows of each group",
            SEED_OF_SPLIT: "the order decides where a row goes",
        },
        suboptions=("--of",),
    ),
    Mode("--of", suboptions=("--last",)),
    Mode("--kernel-form", dict.fromkeys(("--qubo", "--to"), ONE_FORM)),
    Mode("--qubo", {"--to": ONE_FORM}),
    Mode("-f", dict.fromkeys(OF_TABLES, "text of features has no columns to name")),
    Mode("--header", {"--columns": "--columns names the columns of a table without a header"}),
)
