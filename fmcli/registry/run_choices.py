"""The choices of a run besides its rows: the model, where and for how long it is trained, how the best epoch is chosen,
and the outputs."""

from __future__ import annotations

from fmcli.registry.kinds import (
    COUNT,
    FLAG,
    HELD,
    INPUT,
    INPUTS,
    MODEL_FILE,
    NEW_CACHE,
    NEW_CHECKPOINT,
    NEW_DATA,
    NEW_LOG,
    NEW_MODEL,
    TEXTS,
)
from fmcli.registry.options import LARGEST, MOST_MEMBERS, USUAL_MEMORY, Option

# Seconds between two checkpoints: a killed run loses at most this much work, and writing a gigabyte takes a few
# percent.
CHECKPOINT_SECONDS = 600
CALIBRATIONS = ("isotonic", "platt")
# The names of METRICS in fmcli.scoring.metrics, and sparsity. They are repeated here because that module imports numpy,
# which takes long.
METRIC_NAMES = (
    *("logloss", "auc", "pr-auc", "brier", "accuracy", "rmse", "mae", "r2", "micro-f1", "macro-f1", "macro-f1-pr"),
    *("gauc", "ndcg", "map", "mrr", "recall@10", "precision@10", "hit@10", "sparsity"),
)
# Why functions of Python lack some of these choices.
RETURNED = "functions return the model, which has a method to save it"
LOGGED = "Model.history has the figures"
ON_WORKERS = "a cluster reads files, for the command"
CONTINUED = "a run continues a model with init_model"
AVERAGED = "Model.predict averages the draws of the model"

OF_THE_RUN = (
    Option(
        "model", str, None, "Kind of model. [default: fm, or the kind of {init_model}]", "model", ("-m",), compared=True
    ),
    Option(
        "loss",
        str,
        None,
        "Loss. [default: for two label values, logistic or, by a sampling solver, probit; else squared]",
        "penalty",
        compared=True,
    ),
    Option(
        "solver",
        str,
        None,
        "Solver. [default: the solver of the model, adagrad for most]",
        "solver",
        ("-s",),
        compared=True,
    ),
    Option(
        "test",
        INPUTS,
        (),
        "With mcmc: predict these rows during training, averaging all sweeps after the burn-in (the model file keeps "
        "only {draws} of them). If they have labels, the metrics of these predictions are shown. May be repeated.",
        "validation",
        absent=AVERAGED,
    ),
    Option(
        "test_output",
        NEW_DATA,
        None,
        "Where to write the predictions for {test}, in the form of predict; - is standard output. [default: none]",
        "output",
        absent=AVERAGED,
    ),
    Option(
        "init_model",
        MODEL_FILE,
        None,
        "Resume training from this model, which may have fewer features: its parameters, and the options that were "
        "given for it, except for the number of epochs, which is 1 by default for stochastic solvers; options given "
        "here take precedence. It may be the output file.",
        "run",
        ("-i",),
    ),
    Option(
        "only_new",
        FLAG,
        False,
        "With {init_model}: learn the features that this model has not seen, and leave all else as it is, bit by bit. "
        "Each gets the minimum of the losses of its rows plus the penalty, relative to their sum, or for {implicit} of "
        "the model's objective. [{l2_w}: 1, {l2_v}: 10; for {implicit} as in the model]",
        "run",
    ),
    Option(
        "threads",
        int,
        None,
        "Threads; the result is the same for any number. [default: all cores; >= 1]",
        "machine",
        ("-j",),
        low=1,
        high=LARGEST,
    ),
    Option(
        "disk",
        FLAG,
        False,
        "Read the rows from a cache in every epoch ({cache} FILE), for data larger than memory. The rows get a random "
        "order once, and then their shards and the rows of each shard in every epoch.",
        "machine",
        absent="functions that have a cache use it",
    ),
    Option(
        "cache",
        NEW_CACHE,
        None,
        "File that keeps the rows in binary form, from which every epoch reads them: for more rows than memory has "
        "room for. An earlier cache of the same inputs is used again; another one is replaced. It remains after "
        "training.",
        "machine",
        of_rows=True,
    ),
    Option(
        "memory",
        float,
        None,
        "Megabytes that rows may take in memory with {cache}, beside the parameters of the model and the state of the "
        f"solver. [default: {USUAL_MEMORY}; > 0]",
        "machine",
        low=0,
        open_low=True,
        metavar="MB",
        of_rows=True,
    ),
    Option(
        "cluster",
        str,
        None,
        "Run on a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT of its scheduler, or local:N for N processes on "
        "this machine. Workers read the inputs, so these are paths or patterns of files that they can see.",
        "machine",
        metavar="ADDRESS",
        absent=ON_WORKERS,
    ),
    Option(
        "tls_ca_file",
        INPUT,
        None,
        "With {cluster} tls://: the certificate of the authority.",
        "machine",
        absent=ON_WORKERS,
    ),
    Option(
        "tls_cert", INPUT, None, "With {cluster} tls://: the certificate of this client.", "machine", absent=ON_WORKERS
    ),
    Option("tls_key", INPUT, None, "With {cluster} tls://: the key of this client.", "machine", absent=ON_WORKERS),
    Option(
        "cluster_dir",
        str,
        None,
        "With {cluster}: where workers keep their rows, in binary form, until the run ends. [default: their folder for "
        "temporary files]",
        "machine",
        metavar="FOLDER",
        absent=ON_WORKERS,
    ),
    Option(
        "online",
        FLAG,
        False,
        "Train in one pass ({epochs} 1) on rows as they are read, without keeping them: the memory does not depend on "
        "their number.",
        "machine",
        absent="partial_fit of estimators takes steps on further rows",
    ),
    Option(
        "max_seconds",
        float,
        None,
        "End training N seconds after its start, with the best model so far; solvers that are not stochastic end after "
        "an epoch. The model is not trained again on held-out rows. [default: no limit; > 0]",
        "run",
        low=0,
        open_low=True,
        metavar="N",
    ),
    Option(
        "checkpoint",
        NEW_CHECKPOINT,
        None,
        "Keep the progress of training in this file, for {resume}: from time to time (if the solver is not stochastic: "
        "after an epoch), and before SIGTERM or Ctrl-C end the run; a second signal ends it at once. The file is "
        "removed when the model has been written, unless {max_seconds} ended the run.",
        "run",
        absent=CONTINUED,
    ),
    Option(
        "checkpoint_every",
        float,
        None,
        f"Time between two checkpoints. [default: {CHECKPOINT_SECONDS}; > 0]",
        "run",
        low=0,
        open_low=True,
        metavar="SECONDS",
        absent=CONTINUED,
    ),
    Option(
        "resume",
        FLAG,
        False,
        "Continue the run of {checkpoint}; the model file will be the same as without an interruption. Data and "
        "options must be the same. If there is no checkpoint, train from the beginning.",
        "run",
        absent=CONTINUED,
    ),
    Option(
        "ensemble",
        int,
        1,
        "Train N models, with the seeds from {seed} on, into one model. Predictions are the means of theirs: of "
        "probabilities, or of predicted numbers. The models train at the same time, as many as there are threads, "
        f"which does not change the result. [default: 1; 1 to {MOST_MEMBERS}]",
        "run",
        low=1,
        high=MOST_MEMBERS,
        compared=True,
    ),
    Option(
        "dry_run",
        FLAG,
        False,
        "Read the data, print the size of the model and the memory needed, and exit.",
        "run",
        absent="functions train",
    ),
    Option(
        "valid",
        INPUTS,
        (),
        "Validation data for early stopping, in the format of TRAIN; several files ({valid} A {valid} B) are "
        "concatenated.",
        "validation",
        ("-v",),
        absent="an argument of its own",
    ),
    Option(
        "holdout",
        HELD,
        None,
        "Share of the rows to hold out as validation data; 0 trains on all rows. last:0.1 holds out the last rows, "
        "time:COL:0.1 rows with the last times in a column of a table, group:COL:0.1 whole groups, last-of:COL:2 the "
        "last 2 rows of each group: rows with the same cell of a table, or of text with the same qid (COL is qid) or "
        "feature in a field of ffm text (COL is the field). [default: 0.05, or 500 rows if that is more, but at most "
        "0.2; 0 with less than 100 rows, validation data, {init_model}, {epochs} 1, a sampling solver, or standard "
        "input]",
        "validation",
        metavar="FRACTION",
        compared=True,
    ),
    Option(
        "refit",
        bool,
        None,
        "After early stopping on held-out rows, train again on all rows, for the best number of epochs. [default: "
        "refit, if non-zeros * rank is at most 7e6]",
        "validation",
        compared=True,
    ),
    Option(
        "quick_search",
        bool,
        True,
        "Before the run, try other values of options that are not given on held-out rows, such as a stronger penalty "
        "of factors, and keep better values, if non-zeros * rank is at most 7e6; with solvers that are not "
        "stochastic, also on a part of more rows. [default: quick-search]",
        "validation",
        alias="look",
        compared=True,
    ),
    Option(
        "auto",
        FLAG,
        False,
        "Before the run, compare other kinds of models and solvers on held-out rows, with at most 10 times the work of "
        "the usual training, or a few seconds, and train the best one on all rows. With a kind ({model}), only solvers "
        "are compared, and with a solver ({solver}) only kinds.",
        "validation",
        compared=True,
    ),
    Option(
        "metrics",
        TEXTS,
        (),
        f"Metric; may be repeated, and the first one chooses the epoch: {', '.join(METRIC_NAMES)}. [default: two that "
        "fit the loss]",
        "validation",
        ("-x", "--metric"),
        metavar="NAME",
    ),
    Option(
        "patience",
        int,
        None,
        "Early stopping: stop after N epochs without a better one. [default: 3, or 10 if the solver is not stochastic, "
        "or of at most 5,000 rows, or 50,000 with most features; >= 1]",
        "validation",
        low=1,
        high=LARGEST,
        compared=True,
    ),
    Option(
        "calibrate",
        str,
        None,
        "Calibrate the probabilities of two labels: by a function that never falls, or by a sigmoid, which needs fewer "
        "rows. Five more models, each of four fifths of the rows, score the others. [default: they are not calibrated]",
        "validation",
        choices=CALIBRATIONS,
    ),
    Option(
        "fail_worse_than_constant",
        FLAG,
        False,
        "Exit with status 3, without writing the model, if it is worse than the best constant prediction: on the "
        "validation data by the metric that chooses the epoch, or without any clearly on the training rows.",
        "validation",
        absent="functions warn",
    ),
    Option(
        "output",
        NEW_MODEL,
        None,
        "Model file; an existing file is replaced. [default: the first input's name with .fm, in the current folder]",
        "output",
        ("-o",),
        metavar="MODEL",
        absent=RETURNED,
    ),
    Option(
        "keep_state",
        bool,
        None,
        "Save what {init_model} needs in the model: the state of a stochastic solver, so it continues with steps "
        "of the same size; of one with {init_strength}, the summary of the rows. [default: yes, if it takes at most "
        "256 MiB]",
        "output",
    ),
    Option(
        "log_json",
        NEW_LOG,
        None,
        "Write the figures of each epoch and of the model as lines of JSON. A file is in place when the command ends, "
        'also with an error; "-", standard output, and a pipe get each line at once.',
        "output",
        absent=LOGGED,
    ),
    Option(
        "log_every",
        int,
        None,
        "Print the running mean loss every N rows (whole batches). [default: never; >= 1]",
        "output",
        low=1,
        high=LARGEST,
        absent=LOGGED,
    ),
    Option(
        "quiet", COUNT, 0, "Print only warnings and errors; given twice, only errors.", "output", ("-q",), absent=LOGGED
    ),
    Option("verbose", FLAG, False, "Print more; show tracebacks of errors.", "output", absent=LOGGED),
)
