"""The modes of a run, which choices turn on: what a mode needs of the model and the solver, and the choices that it
excludes. `check_modes` checks every pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from fmcli.errors import UsageError, called
from fmcli.records import dataclass
from fmcli.registry.choices import spelled
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.options import GROUP_PENALTIES
from fmcli.registry.row_choices import OF_TABLES
from fmcli.registry.solvers import ALL_PAIRS_SOLVER, POOLED, ROUNDS, SOLVERS
from fmcli.registry.specs import FIT_BETA, Spec

# Conditions that modes exclude, besides choices -> their words, in which choices stand as {name}.
RANKING, SKIPPING, NO_HOLDOUT = "ranking", "skipping", "no holdout"
HOLDOUT_GROUP, HOLDOUT_ROWS = "groups", "groups of rows"
RARE_SHARED, BALANCED, KIND_AND_SOLVER = "rare shared", "balanced", "kind and solver"
OTHER_LOSS, CHOOSING, DRAWING = "loss by rows", "options by held-out pairs", "implicit with loss bpr"
UNMEASURED = "implicit without held-out pairs"
CROSS, TUNE, UPDATING = "cv", "tune", "update"
SEED_OF_SPLIT, FOLDS_IN_FILE, FOLDS = "seed of split", "folds in file", "folds of tune"
CONDITIONS = {
    OTHER_LOSS: "a {loss} of single rows",
    CHOOSING: "{implicit} with {quick_search}",
    DRAWING: "{implicit} with {loss} bpr",
    UNMEASURED: "{implicit} without held-out pairs",
    RANKING: "ranking",
    SKIPPING: "{on_bad_line} skip",
    NO_HOLDOUT: "{holdout} 0",
    HOLDOUT_GROUP: "{holdout} group:.., time:.. or last-of:..",
    HOLDOUT_ROWS: "{holdout} group:.. or last-of:..",
    RARE_SHARED: "{rare} share",
    BALANCED: "{class_weight} balanced",
    KIND_AND_SOLVER: "both {model} and {solver}",
    SEED_OF_SPLIT: "{seed}",
    FOLDS_IN_FILE: "{folds} FILE",
    FOLDS: "{folds} K",
    CROSS: CROSS,
    TUNE: TUNE,
    UPDATING: "{init_model} without {only_new}",
}
# A run that keeps the rows of new features in memory, wherever the rows come from.
ONLY_NEW, WHERE_ROWS_ARE = "only_new", ("disk", "cluster", "relations")


def anything(spec: Spec) -> str:
    """Accept any model and solver."""
    return ""


@dataclass(frozen=True)
class Mode:
    """A mode of a command, or of a function in Python.

    name : the choice that turns it on.
    refuses : another choice, or a condition -> why they exclude each other. In reasons, choices stand as {name}.
    suboptions : choices that are useless without it, where both exist.
    needs : returns why a run of a spec cannot have it, or "".
    """

    name: str
    refuses: Mapping[str, str] = field(default_factory=dict)
    suboptions: tuple[str, ...] = ()
    needs: Callable[[Spec], str] = anything


def check_modes(given: Mapping[str, object], spec: Spec | None = None) -> None:
    """Check the choices of a command or a function: every mode with every other choice, and with the spec of the run,
    if it trains.

    given : choice or condition -> whether it was made; it has all choices that exist.

    Raises UsageError for the first contradiction.
    """
    for mode in MODES:
        if not given.get(mode.name):
            for option in mode.suboptions:
                if given.get(option) and mode.name in given:
                    raise UsageError(
                        in_words(f"{shown(option)} needs {shown(mode.name)}; give both, or leave {shown(option)} out")
                    )
            continue
        elsewhere = given.get(ONLY_NEW) and mode.name in WHERE_ROWS_ARE
        if spec and not elsewhere and (reason := mode.needs(spec)):
            raise UsageError(in_words(reason))
        for other, reason in mode.refuses.items():
            if given.get(other):
                both = f"{shown(mode.name)} and {shown(other)} cannot be combined"
                raise UsageError(in_words(f"{both}: {reason}; leave one of them out"))


def shown(choice: str) -> str:
    """Return a choice as {name}, or a condition in words."""
    return CONDITIONS.get(choice, f"{{{choice}}}")


def in_words(text: str) -> str:
    """Return a text for an error: each {name} becomes a choice that the front end spells."""
    return spelled(text, called)


def suits(given: Mapping[str, object], spec: Spec) -> bool:
    """Return whether a run of a spec can have all modes that are turned on."""
    return not any(given.get(mode.name) and mode.needs(spec) for mode in MODES)


def of_solvers(can: Callable[[str], bool]) -> str:
    """Return the solvers for which `can` is true, as alternatives of a choice: "-s cd or -s mcmc"."""
    return " or ".join(f"{{solver}} {name}" for name in SOLVERS if can(name))


def on_cluster(spec: Spec) -> str:
    """Return why a run cannot train by workers' sums; "" if it can."""
    solver = spec.solver_entry
    if MODELS[spec.model].closed_form:
        return f"{spec.model} is solved in closed form, on one machine; leave out {{cluster}}"
    if not solver.cluster:
        reason = solver.alone or "takes a step after each row, which needs the result of the one before"
        able = of_solvers(lambda name: bool(SOLVERS[name].cluster))
        return f"{spec.solver} {reason}, so workers would wait for each other; with {{cluster}}, choose {able}"
    if solver.cluster != ROUNDS:
        return ""
    whole = of_solvers(lambda name: SOLVERS[name].cluster not in ("", ROUNDS))
    if spec.loss is not None and not LOSSES[spec.loss].bounded:
        return f"{spec.solver} needs a loss of bounded curvature on a cluster, unlike {spec.loss}; use {whole}"
    if spec.values.get("llfm_variant", "do") != "do":
        moves = f"{spec.solver} moves the anchors of {spec.model} after each row, which a cluster cannot"
        return f"{moves}; use {whole}, or {{llfm_variant}} do"
    return "on a cluster, use {round_size} instead of {batch_size}" if spec.values.get("batch_size", 1) > 1 else ""


def in_one_pass(spec: Spec) -> str:
    """Return why a run needs its rows more than once; "" if it does not."""
    if not spec.by_rows:
        return f"{spec.solver} needs all rows in every step; stochastic solvers do not; leave out {{online}}"
    if spec.values["epochs"] != 1:
        return "{online} makes a single pass; use {epochs} 1"
    if spec.values["round_size"] > 1:
        return "{round_size} needs rows in memory or {disk}; leave out {online}, or use {round_size} 1"
    return ""


def from_disk(spec: Spec) -> str:
    """Return why a run needs all rows in memory; "" if it does not."""
    return f"{spec.solver} needs all rows in memory; leave out {{disk}}" if spec.solver_entry.in_memory else ""


def with_relations(spec: Spec) -> str:
    """Return why a run cannot train on rows with relations; "" if it can."""
    if not MODELS[spec.model].joins:
        kinds = ", ".join(kind.name for kind in MODELS.values() if kind.joins)
        return f"{{relations}} trains the models {kinds}, not {spec.model}; choose one of them, or join the files"
    if not spec.solver_entry.joins:
        able = of_solvers(lambda name: SOLVERS[name].joins)
        step = f"{spec.solver} takes a step for each row, so relations would not save it any work"
        return f"{step}; use {able}, or join the files"
    return ""


def with_all_pairs(spec: Spec) -> str:
    """Return why a run cannot learn from observed pairs; "" if it can."""
    if not MODELS[spec.model].pairs:
        kinds = ", ".join(kind.name for kind in MODELS.values() if kind.pairs)
        return (
            f"{{implicit}} trains the models {kinds}, whose scores are products of users and items; choose one of them"
        )
    if spec.loss is not None and LOSSES[spec.loss].pairwise:
        return ""
    if spec.solver != ALL_PAIRS_SOLVER:
        return f"{{implicit}} needs {{solver}} {ALL_PAIRS_SOLVER}, which never visits the pairs one by one"
    if spec.values.get(FIT_BETA):
        return f"{{implicit}} trains {spec.model} only if beta keeps its initial values; leave out {{{FIT_BETA}}}"
    return ""


def sampling(name: str, use: str) -> Callable[[Spec], str]:
    """Return a function that returns why a run without draws has no use for an option."""

    def needs(spec: Spec) -> str:
        if spec.solver_entry.is_sampler:
            return ""
        able = of_solvers(lambda name: SOLVERS[name].is_sampler)
        return f"{{{name}}} {use}, and {spec.solver} has none; use {able}, or leave it out"

    return needs


def by_solver(solved: str) -> Callable[[Spec], str]:
    """Return a function that returns why a model without a solver cannot have a mode."""
    return lambda spec: f"{spec.model} is solved in {solved}" if MODELS[spec.model].closed_form else ""


def by_rows(spec: Spec) -> str:
    """Return why a run has no running loss; "" if it has."""
    return (
        "" if spec.by_rows else f"{{log_every}} applies only to stochastic solvers, not to {spec.solver}; leave it out"
    )


OF_PAIRS = "observed pairs have no labels"
SEEN = "the earlier model may have seen the rows that are held out"
ONCE = "a stream is read once, by one model"
BY_THE_CLOCK = "the clock ends runs after another number of epochs each time, so their options do not determine them"
# The choices that comparing commands refuse.
COMPARING = {
    **dict.fromkeys(("checkpoint", "keep_state", "test", "dry_run", "fail_worse_than_constant"), "no model is written"),
    "init_model": SEEN,
    "online": ONCE,
    "log_every": "runs that are compared train at the same time",
    "print_schema": "use fmcli train",
}
NOT_KEPT = "rows are read once, and not kept"
DIVIDING = "each decides where a row goes"
ONE_FORM = "a file has one form"
RANDOM = "only random folds differ between repeats"
MODES = (
    Mode(
        "implicit",
        {
            **dict.fromkeys((OTHER_LOSS, "label", "class_weight", "pos_weight", "positive", "calibrate"), OF_PAIRS),
            **dict.fromkeys(("sample_weights", "label_weights"), "{count}, or {weight_column}, gives pairs a weight"),
            **dict.fromkeys(("valid", "test"), "the last pair of each user is held out"),
            **dict.fromkeys(("disk", "online", "cluster", "relations"), "all pairs need users and items in memory"),
            **dict.fromkeys(("auto", "ensemble", CROSS, TUNE), "held-out pairs choose its options"),
            **dict.fromkeys(("hash_bits", "min_count", "scale", "norm", "bins"), "users and items keep their features"),
            **dict.fromkeys(GROUP_PENALTIES, "all pairs have no such step"),
            UPDATING: "an update knows the new pairs, and not all of them",
            "group_field": "groups are users",
            "split_index": "the two groups are users and items",
            HOLDOUT_ROWS: "pairs are held out by user (use {holdout} FRACTION, last:FRACTION or time:COL:FRACTION)",
            SKIPPING: "every row counts",
        },
        suboptions=("user", "item", "count", "unseen_weight", "l2_power"),
        needs=with_all_pairs,
    ),
    Mode(
        UNMEASURED,
        dict.fromkeys(("metrics", "patience", "fail_worse_than_constant"), "figures come from held-out pairs"),
    ),
    Mode(
        CHOOSING,
        {"checkpoint": "a checkpoint does not keep the options that held-out pairs choose (use {no_quick_search})"},
    ),
    Mode(
        DRAWING,
        dict.fromkeys(("unseen_weight", "l2_power"), "drawn pairs stand for all others"),
        suboptions=("negatives", "negatives_by"),
    ),
    Mode("valid", {"holdout": "both give validation data"}),
    Mode(
        "refit",
        {
            "valid": "no rows are held out",
            NO_HOLDOUT: "no rows are held out",
            "max_seconds": "the time of a refit, which repeats the best epochs, cannot be limited",
        },
    ),
    Mode(
        CROSS,
        {
            **COMPARING,
            "cluster": "workers have counted the features and labels of all rows, not of each fold",
            "max_seconds": BY_THE_CLOCK,
        },
    ),
    Mode(
        TUNE,
        {
            **COMPARING,
            "auto": "it is a part of the search",
            "ensemble": "single models are compared",
            NO_HOLDOUT: "options are compared on held-out rows",
            "epochs": "the search chooses the number of epochs by itself",
            "only_new": "no trial resumes from a model",
        },
    ),
    Mode(
        "calibrate",
        {
            "init_model": "that model may have seen the rows that calibrate",
            "online": ONCE,
            "cluster": "workers have counted the features and labels of all rows, not of each fold",
            "max_seconds": BY_THE_CLOCK,
            "test": "use fmcli predict",
        },
    ),
    Mode(
        "auto",
        {
            "online": ONCE,
            "init_model": SEEN,
            "max_seconds": BY_THE_CLOCK,
            NO_HOLDOUT: "kinds are compared on held-out rows",
            KIND_AND_SOLVER: "no other kind or solver is left to compare",
        },
        needs=by_solver("closed form, so there are no solvers to compare; leave out {auto} or {model}"),
    ),
    Mode("count", {"weight_column": "both give pairs a weight"}),
    Mode("log_every", needs=by_rows),
    Mode("init_strength", {"only_new": "it keeps all parameters that the earlier model has"}),
    Mode(
        ONLY_NEW,
        {
            **dict.fromkeys(("model", "solver", "loss"), "all but the new features is as in the earlier model"),
            **dict.fromkeys(
                ("valid", "holdout", "refit", "metrics", "patience", "fail_worse_than_constant"),
                "new features get a minimum, whose epochs nothing chooses",
            ),
            **dict.fromkeys(("keep_state", "no_keep_state"), "the state comes from the earlier model"),
            **dict.fromkeys(
                ("user", "item", "count", "unseen_weight", "l2_power"), "pairs are as in the earlier model"
            ),
            "ensemble": "an ensemble learns new features as it is",
            "test": "only a run that draws all parameters knows the mean over its sweeps",
            "online": "a minimum needs all rows of a new feature at once",
        },
    ),
    Mode("hash_bits", {RARE_SHARED: "a shared column needs a dictionary of ids"}),
    Mode(
        "min_count",
        {
            "online": "it trains on rows before all of them are counted",
            "init_model": "the rows of that model are not counted",
        },
        suboptions=("rare",),
    ),
    Mode("sample_weights", {SKIPPING: "a line of weights belongs to each row"}),
    Mode(
        "decay",
        {
            SKIPPING: "a time belongs to each row",
            **dict.fromkeys(("disk", "online", "cluster"), "the newest time is needed before the rows are weighed"),
            "relations": "rows with relations have no column of times",
            "format": "text of features has no column of times",
        },
    ),
    Mode("class_weight", {"pos_weight": "both give weights to labels"}),
    Mode(
        "prior_groups",
        {
            "hash_bits": "a column of hashed ids may have features of several groups",
            POOLED: "both tell which features share a prior",
        },
        needs=sampling("prior_groups", "tells which features share a prior"),
    ),
    Mode(
        "test",
        {"ensemble": "use fmcli predict", "relations": "use fmcli predict"},
        suboptions=("test_output",),
        needs=sampling("test", "is predicted by the mean over draws"),
    ),
    Mode(
        "checkpoint",
        suboptions=("resume", "checkpoint_every"),
        needs=by_solver("one step, which cannot be continued; leave out {checkpoint}"),
    ),
    Mode(
        "ensemble",
        {
            "init_model": "the models would begin with the same parameters",
            "checkpoint": "a checkpoint keeps the progress of a single run",
            "keep_state": "no run can resume from several models",
            "max_seconds": "the models that train last would have no time",
            "online": "every model needs a pass over the rows",
            "cluster": "the workers have the rows and the state of a single run",
            "disk": "models that train at the same time share their rows in memory",
        },
    ),
    Mode(
        "explain",
        {
            **dict.fromkeys(("output_type", "raw", "sigmoid", "sign"), "an explanation has the parts of the raw score"),
            **dict.fromkeys(("std", "interval"), "parts are averages over draws"),
            "passthrough": "a row has a line for each part (use {id_column})",
            "cluster": "workers only predict",
        },
        suboptions=("explain_format",),
    ),
    Mode(
        "fold_in",
        {
            "cluster": "workers read the model's file; train it with {only_new}",
            "relations": "new features are known by the rows that they are in",
        },
    ),
    Mode(
        "importance",
        {"verify": "the model is not shown"},
        suboptions=("permute", "join", "missing_values", "threads"),
    ),
    Mode("permute", suboptions=("seed",)),
    Mode("similar", dict.fromkeys(("importance", "verify"), "similar features are listed instead")),
    Mode("interval", {"cluster": "workers write predictions, and {std}"}),
    Mode("calibration", {"cluster": "workers return metrics only"}),
    Mode("id_column", {"label_weights": "both change the beginning of a line"}),
    Mode(
        "over",
        {
            "predictions": "items are ranked by a model",
            "no_worse_than": "its difference is one of rows, not of users",
            "label_weights": "users all count the same",
            "calibration": "scores of rankings are not probabilities of labels",
            "relations": "an item is found by its features",
            "cluster": "a user may have rows in several parts",
            SKIPPING: "every row counts",
        },
        suboptions=("seen",),
    ),
    Mode("log", suboptions=("svg", "show", "metrics")),
    Mode("relevant", {"cluster": "workers do not know it"}),
    Mode(
        "no_worse_than",
        {"predictions": "it compares two models", "cluster": "it compares two models on this machine"},
        suboptions=("by",),
    ),
    Mode(
        "predictions",
        {
            "label_weights": "only a model has rows to weigh",
            "relations": "only a model joins rows",
            "missing_values": "only labels are read",
            "join": "only labels are read",
            "cluster": "only a model is evaluated there",
            SKIPPING: "each line needs a prediction",
        },
        suboptions=("loss", "raw", "label"),
    ),
    Mode(
        "relations",
        {
            "cluster": "a part of a file does not know the numbers of its rows",
            SKIPPING: "a line of MAP belongs to each row",
            "disk": "a cache has joined rows",
            "online": "the rows of relations are kept",
            "valid": "validation data have no relations (use {holdout})",
            "hash_bits": "relations have columns of their own",
            RARE_SHARED: "relations have columns of their own",
            "norm": "the length of a row is the joined row's",
            "scale": "a column is scaled over the joined rows",
        },
        needs=with_relations,
    ),
    Mode(
        "disk",
        {
            "online": "a cache keeps the rows for several epochs",
            HOLDOUT_GROUP: "a cache does not keep the groups of rows",
            RANKING: "a cache does not keep the groups of rows",
        },
        suboptions=("cache", "memory"),
        needs=from_disk,
    ),
    Mode("cache", suboptions=("disk",)),
    Mode(
        "online",
        {
            "checkpoint": f"a run that continues needs the rows before it again, but {NOT_KEPT}",
            "holdout": NOT_KEPT,
            "refit": NOT_KEPT,
            RANKING: f"it needs whole groups of rows, but {NOT_KEPT}",
            "dry_run": f"it reads all rows, but {NOT_KEPT}",
            "sample_weights": "a stream has no lines that are known before",
            BALANCED: f"it needs the labels of all rows, but {NOT_KEPT}",
        },
        needs=in_one_pass,
    ),
    Mode(
        "cluster",
        {
            "disk": "workers keep the rows",
            "online": "workers keep the rows",
            HOLDOUT_GROUP: "partitions do not keep the groups of rows",
            RANKING: "partitions do not keep the groups of rows",
            "sample_weights": "workers do not know the numbers of lines; use {label_weights}",
            "unbuffered": "workers predict whole parts of the inputs",
            "threads": "each worker has its own threads (dask worker --nthreads N)",
        },
        suboptions=("tls_ca_file", "tls_cert", "tls_key", "cluster_dir", "output_dir"),
        needs=on_cluster,
    ),
    Mode("output_dir", {"output": "each says where the predictions are written"}),
    Mode("init_model", suboptions=("only_new", "init_strength")),
    Mode(FOLDS, {"valid": "both give validation data", "holdout": "both hold out rows"}),
    Mode("by_time", {SEED_OF_SPLIT: "times decide where a row goes"}),
    Mode("by_order", {"by_time": DIVIDING, SEED_OF_SPLIT: "the order decides where a row goes"}),
    Mode("by_group", {**dict.fromkeys(("by_time", "by_order"), DIVIDING), FOLDS_IN_FILE: DIVIDING}),
    Mode("repeats", dict.fromkeys((FOLDS_IN_FILE, "by_time", "by_order", "no_shuffle_folds"), RANDOM)),
    Mode(
        "last",
        {
            **dict.fromkeys(("by_group", "by_order"), DIVIDING),
            "shares": "the second output gets the last rows of each group",
            SEED_OF_SPLIT: "the order decides where a row goes",
        },
        suboptions=("of",),
    ),
    Mode("of", suboptions=("last",)),
    Mode("kernel_form", dict.fromkeys(("qubo", "to"), ONE_FORM)),
    Mode("qubo", {"to": ONE_FORM}),
    Mode("vectors", dict.fromkeys(("kernel_form", "qubo", "to"), ONE_FORM)),
    Mode("format", dict.fromkeys(OF_TABLES, "text of features has no columns to name")),
    Mode("header", {"columns": "{columns} names the columns of a table without a header"}),
)
