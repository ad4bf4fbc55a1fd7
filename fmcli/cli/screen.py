"""The first screen of a command's help: the options that most people use, a line each. --help-all has all of them."""

from __future__ import annotations

# The most lines of 80 columns on the first screen; it has examples if they fit.
MOST_LINES = 45

# command -> title -> option, by its name as an argument -> its line. Commands with short help have no screen.
# The lines of registered options end with the default of the model kind, which is added.
SCREENS: dict[str, dict[str, dict[str, str]]] = {
    "train": {
        "Model and solver": {
            "model": "Kind of model",
            "rank": "Number of factors",
            "loss": "Loss [by the labels]",
            "l1": "Strength of the L1 penalty",
            "l2": "Strength of the L2 penalty",
            "solver": "Solver",
            "learning_rate": "Step size",
            "epochs": "Passes over the rows",
            "init_model": "Update this model",
            "auto": "Choose the kind and the solver on held-out rows",
            "seed": "Seed of the random numbers",
            "threads": "Threads [all cores]",
        },
        "Data": {
            "label": "Of a table: the column of the label",
            "scale": "Scale columns of numbers",
            "hash_bits": "Hash features to 2^N columns [no hashing]",
            "disk": "Read the rows from --cache FILE in each epoch",
        },
        "Validation": {
            "valid": "Choose the best epoch on this file",
            "holdout": "Choose it on a share of the rows [by their number]",
            "metrics": "Choose it by this metric [by the loss]",
            "patience": "Stop after N epochs without a better one",
        },
        "Output": {
            "output": "Model file [TRAIN.fm in the current folder]",
            "checkpoint": "Keep the progress in FILE, to --resume a killed run",
            "dry_run": "Show the memory needed, and exit",
            "log_json": "Write the figures of each epoch as JSON",
            "quiet": "Print only warnings and errors",
        },
    },
    "tune": {
        "Search": {
            "trials": "Number of trials [50]",
            "max_seconds": "Stop after this many seconds",
            "folds": "Compare on folds [5 of few rows, else 1]",
            "holdout": "Compare on a share of the rows",
            "valid": "Compare on other rows",
            "metrics": "Metric; the first one is compared [by the loss]",
            "study": "Keep the trials in a file, and go on from there",
        },
        "Options, as NAME or A,B,C or A..B": {
            "model": "Kinds of models [as in train --auto]",
            "solver": "Solvers [as in train --auto]",
            "rank": "Number of factors [2,4,8,16,32 for most kinds]",
            "l2": "Strength of the L2 penalty [around the usual one]",
            "loss": "Loss [by the labels]",
            "label": "Of a table: the column of the label",
            "seed": "Seed of the random numbers",
            "threads": "Threads [all cores]",
        },
        "Output": {
            "refit": "Train the best one on all rows",
            "output": "The model file of --refit [TRAIN.fm]",
            "log_json": "Write the figures of each trial as JSON",
            "quiet": "Print only warnings and errors",
        },
    },
    "cv": {
        "Folds": {
            "folds": "Folds, or a file with the fold of each row [5]",
            "repeats": "Divide the rows several times [1]",
            "by_group": "Whole groups are in one fold",
            "by_time": "Folds follow their training rows in time",
            "shuffle_folds": "Random folds, or consecutive rows [random]",
            "write_folds": "Write the fold of each row",
        },
        "Models": {
            "model": "Kind of model",
            "rank": "Number of factors",
            "loss": "Loss [by the labels]",
            "l2": "Strength of the L2 penalty",
            "solver": "Solver",
            "epochs": "Passes over the rows",
            "holdout": "Choose the epoch on a share of the training rows",
            "metrics": "Metric; the first one chooses the epoch [by the loss]",
            "label": "Of a table: the column of the label",
            "seed": "Seed of the random numbers",
            "threads": "Threads [all cores]",
        },
        "Output": {
            "against": "Compare with other options on the same folds",
            "output": "Write the prediction of each row",
            "json": "Print one JSON object",
            "log_json": "Write the figures of each epoch as JSON",
            "quiet": "Print only warnings and errors",
        },
    },
    "predict": {
        "Input": {
            "format": "Format of the rows [auto]",
            "id_column": "The N-th token of a line is an id",
            "unseen": "Features that were not in training [zero]",
            "on_bad_line": "Lines with errors [error]",
        },
        "Run": {
            "threads": "Threads [all cores]",
            "cluster": "Run on a Dask cluster",
        },
        "Output": {
            "output_type": "Type of predictions [by the loss]",
            "std": "Add the standard deviation",
            "interval": "Add the ends of an interval with probability P",
            "explain": "Write the parts of each score, with N interactions",
            "passthrough": "Write each line, a tab, and its prediction",
            "unbuffered": "Answer each line as soon as it is read",
            "output": "Write to FILE [standard output]",
            "quiet": "Print only warnings and errors",
        },
    },
    "recommend": {
        "Input": {
            "contexts": "Rows to recommend items for, such as users",
            "items": "Rows of the items",
            "seen": "Leave out pairs of these rows",
            "id_column": "Column of the ids [the first one]",
            "join": "Join a table on this column",
            "format": "Format of the rows [auto]",
            "threads": "Threads [all cores]",
        },
        "Output": {
            "top": "Number of items for each row [10]",
            "show": "Write these columns, too",
            "explain": "Write the N largest reasons",
            "json": "Write a JSON object for each row",
            "output": "Write to FILE [standard output]",
            "quiet": "Print only warnings and errors",
        },
    },
    "convert": {
        "Columns": {
            "label": "Column of the label",
            "categorical": "Columns of names [columns of text and ids]",
            "numeric": "Columns of numbers [columns with fractions, or of 0 and 1]",
            "several": "Multi-valued columns",
            "vector": "Columns of vectors of numbers",
            "ignore": "Columns that are not used",
            "weight_column": "Column of the weights of rows",
            "group": "Column of the group of a row",
            "join": "Join a table on this column",
        },
        "Table": {
            "columns": "Names of the columns [from the header]",
            "delimiter": "Separator of cells [found in the first line]",
            "decimal": "Decimal mark of numbers such as 1.067,5 or 1,067.5",
            "sql": "The result of a query in place of a file",
            "schema": "What the columns are, from this file",
            "print_schema": "Write the columns as JSON, and exit",
        },
        "Output": {
            "to": "Format, libsvm or ffm [libsvm]",
            "numbers": "Numbers instead of names",
            "output": "Write to FILE [standard output]",
            "quiet": "Print only warnings and errors",
        },
    },
    "evaluate": {
        "Metrics": {
            "metrics": "Metric; may be repeated [all that fit the loss]",
            "predictions": "Evaluate these predictions instead of a model",
            "limits": "Exit with 1 if METRIC is worse than X",
            "calibration": "Also compare probabilities with observed shares",
            "current": "Exit with 1 if MODEL is worse than CURRENT",
        },
        "Run": {
            "format": "Format of the rows [auto]",
            "on_bad_line": "Lines with errors [error]",
            "threads": "Threads [all cores]",
            "cluster": "Run on a Dask cluster",
        },
        "Output": {
            "json": "Print one JSON object",
            "quiet": "Print only warnings and errors",
        },
    },
}
