"""fmcli trains factorization machines and applies them, from the command line and from Python.

How it is built
---------------
Models, losses, penalties and solvers never know each other. The interface between a model and a row solver is one
sample's gradient: the model writes it as a few sparse gradients, one for each block (row ids and a buffer of numbers),
and the solver consumes them. So a model is one class, a solver is one class, and every pair works. All of stochastic
training is one loop (solvers/stochastic/loop.pyx):

    for each sample x in this epoch's order:
        model.rows(x)           which parameter rows does it touch?
        solver.catch_up(rows)   the penalty steps that these rows have missed
        score = model.score(x)
        model.gradient(x, loss.slope(y, score))     fills the sparse gradients
        solver.step(gradients)  rows <- prox(rows - step)
        model.finish_update()   what remains, such as the projection of constrained rows

For linear, second-order and field-aware models with one score, the same functions are compiled into one loop without
calls (solvers/stochastic/sample_run.inl), which takes half the time and gives the same bits.

Rounds (--round-size; solvers/stochastic/round_loop.pyx) let threads share this loop without any effect on the
result: they compute the gradients of a round of samples from the same parameters, and then each row that the round
touches makes one step, by the sum of its gradients and of their squares (round_updates.inl).

An epoch is an order over shards of rows, and over the rows of each (data/shards). Rows in memory are one shard; with
--disk, there are many in a cache file, and the next one is read while one is trained on.

A batch merges the sparse gradients of several samples by row before the step. A pair of rows, for a loss of the
difference of their scores, is such a batch (data/shards/paired_rows.py, solvers/stochastic/pairs.py). Softmax means C
scores and C slopes for each sample, over blocks that hold one class after the other; it is not another code path.

Coordinate descent goes through the same parameters the other way (solvers/coordinate/descent.pyx, update.pyx): it
updates one row of parameters using all samples that the row affects. The state of a sample has its label, its scores,
and a cache that the model defines:

    for each row of parameters, slice by slice:
        model.score_gradient(view)      the derivatives of its samples' scores
        bound the mean loss by a quadratic, minimize that with the penalty, take the step
        model.update_cache(view, step)  caches and scores follow

In an update, the file's summary of the loss of earlier rows (solvers/coordinate/past.py) holds the parameters: it is a
further part of the penalty (prior.py). A run that learns new features alone visits the parameter rows that belong to
these only (solvers/coordinate/new_features.py), on observed pairs beside constant users and items (pairs.py).

Gibbs sampling (solvers/gibbs) is the same loop with another step: not to the minimum of the quadratic, but to a draw
from the normal distribution whose logarithm is the quadratic and the prior. Its random numbers are functions of the
seed, the sweep and the place, and the next sweep depends on the parameters only. Some draws are kept
(training/draws.py); a model file has all of these, and predictions are averages over them (scoring/averages.py,
scoring/draws.py). Rows that are known in training are predicted by all sweeps (training/tested_rows.py). Features share
priors by field, or by the groups in a file (data/fields.py, data/text/prior_groups.py).

Rows with relations (data/related/rows.py) are not joined with the rows of the relations that they refer to. For the
rows that refer to it, a row of a relation is like one feature of value 1, whose factors are its sums. So one pass over
the rows gives the quadratic as a function of these sums, the relation's features are updated by its rows only, and a
second pass applies what has changed (solvers/coordinate/relation_rows.pyx). Steps and draws are the same code.

For a model that is no ColumnModel, the derivatives come from its gradients, which is correct but slow. L-BFGS needs
only gradients. Each of these is a Trainer (solvers/trainer.py) with `prepare`, `bytes_needed` and `run`, and so is the
closed form. Its `state`, with the model's live arrays, determines the rest of a run, so a checkpoint keeps both
(training/checkpoint.py). training/job.py evaluates the epochs of all of them in the same way, and keeps the best one.

The folders
-----------
Compiled sources lie in cython_src/fmcli, Python in fmcli, under the same folder names. A folder imports only folders
above it in this list, so there are no circles. Nor do nested folders import each other in a circle:

    system        memory, cores, threads, signals, locks, remote files, what recognizes an input, files that are written
                  whole or not at all
    base          types.h: Sample, Block, SparseGradient, Scratch, ColumnView, the structs of the whole core; vectors;
                  denormals.h: numbers too small to be normal are 0 in training; state_dict.py: the progress of a run as
                  arrays by name, and their checks; copies.py: of arrays of short rows; label_unit.py: the unit of
                  labels that are numbers; json_files.py and rules.py: files of JSON that users give, and rules for what
                  they say, as for model files
    kernels       the instruction set, chosen at import, for which each folder with hot loops (kernels) has a table: its
                  kernels.h lists the functions of its .inl files, and scripts/declarations.py makes the rest
    registry      the tables of models, solvers, losses and options, a file each; a run's choices, checked (specs.py),
                  and the modes of commands (--disk, --online, ..): what each needs, and which options it excludes
                  (modes.py)
    data          rows in compressed form (dataset.pyx), the numbering of the features that occur, the dictionary of ids
                  and when numbers need one (sparse_ids.py), labels, fields, scales of columns, and the transform of
                  rows that has these; numbers to text; files that are not text (file_formats.py), and tables of other
                  programs as text (arrow.pyx, queries.py). data/text reads the text of rows (formats.py, parser.pyx)
                  whole (reader.py) or in chunks (chunks.py), and has rows made in memory (lines.pyx). data/tables has
                  tables as rows, data/shards the rows to train on, data/stored the cache of rows, data/related rows
                  with relations, data/counts how often features occur, alone and in pairs
    losses        one class each
    prepare       files of rows: splits at random or by a rule, tables as rows of features, negatives for observed pairs
    models        what the kinds share, above all the contract, in layers: blocks (layout.pyx), the memory of their
                  arrays (parameters.pyx), scores and gradients, derivatives by columns (model.pyx). The kinds are in
                  folders, a family in each file with its kernels (.inl) beside it: models/second_order has the linear
                  model and the models of pairs of features, models/polynomial models of any degree, models/local llfm:
                  anchors, coding, k-means. models/related has the sums of relations' rows
    penalties     strengths, and the formulas that all solvers share: values and proxes, of a number and of a row
    solvers       stochastic (the loop, batches, rounds, sgd, adagrad, ftrl, fobos), rounds (the two halves
                  of a round), coordinate, gibbs (priors, draws, cutpoints, convergence, random numbers by counters),
                  full_batch, closed_form.py
    model_file    the container of arrays, and the check of what a file says
    scoring       a saved model that scores rows (scorer.py), predictions, metrics, evaluation, two models compared on
                  the same rows; scoring/explain has scores as sums of parts, by the split that each kind of model
                  states (models/split.py), and scoring/recommend the best items for many users, found by inner products
                  that the same split gives
    export        arrays, text, tables of features, kernel form, quadratic function of binary variables (QUBO)
    exchange      models of libFM, libffm and xLearn: an ExternalModel (external.py) has what their files have, which a
                  module for each program reads and writes; importing.py makes a model file of it, and exporting.py
                  makes it of a model, and refuses what it cannot have
    inspect       what a model has learned, which features interact, which are important on given rows, and on which
                  rows it is wrong
    training      a run: the prepared model, planning, the job itself, validation, divergence, memory account, saving
                  (growth.py: with new features), checkpoints; training/setup, which imports none of these, has what
                  is known before there is a model: settings, the forms of rows and which rows are held out, the
                  previous run and the warm start from its model, the columns, and the fit of the transform;
                  training/several has what takes several runs: one pass over the segments of a stream, an ensemble,
                  the refit, new features that each set of parameters of a model learns alone
    choosing      comparing options by runs that share the rows in memory: folds and cross-validation; the quick
                  search before a run, and the search for kinds, solvers and options (search.py), whose candidates
                  pause and go on (candidates.py) and are kept in a study
    cluster       the same on a Dask cluster: extents of the inputs, tasks of workers, results in order; in training,
                  the partitions of the rows, rounds of row solvers, gradients of L-BFGS
    api           from Python: matrices and files as rows, training, the search, a model; the keyword parameters of
                  training come from the registry, and errors have the names of parameters
    sklearn       the same as estimators of scikit-learn
    drawing       figures: panels of curves as SVG, from the logs of runs; pages of figures as HTML, with a style and a
                  script (page.css, page.js)
    cli           a module for each command, and a folder for `train`: its options, the rows, the run, the log, and for
                  `evaluate`: its request, the measuring, the comparison with another model, the report; for `report`:
                  its options and the sections of the page;
                  cli/rows has the commands that write rows, cli/choosing the commands that compare options, and
                  cli/spellings the words of other tools

errors.py, names.py, text.py and records.py, which every module may import, have the errors with their exit statuses,
the search for the name that a misspelled one stands for, the format of numbers and names in messages, and dataclasses
that take no time to define. guide/ has the pages of `fmcli help`, in Markdown.

What the design rests on, each measured:

- Parameters and state are of one type, `real` (types.h): float, or double with FMCLI_REAL=double at build time.
  Scores, losses and sums are double in either.
- A feature's parameters and their solver state lie together in one row of few cache lines, and the rows of the sample
  two ahead are asked for in advance: without either, the time goes to waiting for memory.
- Inner loops run over a row's width as vectors of 8 and 4 lanes with fixed orders of summation and no fused
  multiply-add, so every instruction set gives the same bits.
- Virtual calls are made per sample or per gradient, never per coordinate.
- Sums never depend on the number of threads: partial sums are added in a fixed order, and the command keeps BLAS,
  which L-BFGS and the closed form use through numpy and scipy, to one thread (system/blas.py).
- The compiled unit of work is a piece of an epoch: it returns numbers. Progress, early stopping and the clock live in
  Python above it (training). Signals need neither: the handler is compiled and ends the process (system/interrupt.pyx).

On a Dask cluster (cluster), a worker scores an extent of a file: the lines that begin in a range of bytes, which the
reader takes in place of a file. It records the lines, counts and errors of the extent's text buffers
(data/text/line_counter.py), and the client takes these records in the order of the extents, so they equal the result
of one machine. Metrics come from statistics of the extents, combined in order (scoring/statistics.py). Dask
is imported only there, and only if it is used.

In training, each worker parses its partitions of the inputs once, into caches (cluster/partitions.py), and the client
makes the dictionary, the counts and the labels from theirs (cluster/cache.py). The rest of a plan is made as for a
cache on this machine (training/setup/stored.py): each partition is a shard. Row solvers take a step for each
round (cluster/rounds.py): workers return sums of gradients by parameter row, and the client, which alone has the
parameters and the state, steps by these sums (solvers/rounds). L-BFGS takes its gradient from the cluster
(cluster/gradients.py). Solvers know the rows by the contract in solvers/remote.py. Tasks are functions of what they are
sent, and sums are added in the order of the partitions, so neither the number of workers nor their end changes a
bit.

Rows may be in memory, in a cache, in the partitions of a cluster, or come in segments of a stream: a form of rows each
(training/setup: rows.py has their protocols, stored.py and streamed.py two of the forms). What is learned from them
before training, their columns, labels, scales, is one Transform (data/transform.py), fitted in one place
(training/setup/fitting.py), kept by the model file (model_file/transform.py), and applied to all rows that the model
sees, in training, validation, prediction and on workers.

The memory that a run needs is computed before it is allocated: each component that allocates has a `bytes_needed`, and
training/account.py adds them up. --dry-run shows the sum, and training checks it (system/memory.py).

The registry has a table each of models, solvers, losses and options (registry/models.py and so on), from which the
command line, its completion, the guide's tables, the model file's header and the tests derive. A default that depends
on the training data (registry/derived.py) stays a rule until training/planning.py knows the data; from then on a run
has numbers only. CONTRIBUTING.md has the steps that a new piece takes.

cli/ has a module or a folder for each command, imported when it is used. Spellings of other tools are translated before
click parses the arguments (spellings/translate.py; other_tools.py beside it knows values that mean something in another
tool, and registry/synonyms.py, which Python shares, has the words of other tools for options). The library raises
subclasses of FmcliError, each with its exit status, and with the options that help, which the command writes as flags
(cli/flags.py); it never prints and never imports click.
"""

TYPE_CHECKING = False  # not imported from typing, which would take longer than the rest of this module
if TYPE_CHECKING:
    from fmcli.api.data import Data, read
    from fmcli.api.model import Model
    from fmcli.api.opening import import_model
    from fmcli.api.opening import load_model as load
    from fmcli.api.training import train
    from fmcli.api.tuning import Tuned, tune
    from fmcli.training.trained import Epoch

__version__ = "0.1.0"
__all__ = ["Data", "Epoch", "Model", "Tuned", "import_model", "load", "read", "train", "tune"]

# The names of the interface for Python, and where they are: imported when they are used, because the command, and
# others who import only a part, would wait for numpy.
_LAZY = {
    "Data": "fmcli.api.data:Data",
    "Epoch": "fmcli.training.trained:Epoch",
    "Model": "fmcli.api.model:Model",
    "Tuned": "fmcli.api.tuning:Tuned",
    "import_model": "fmcli.api.opening:import_model",
    "load": "fmcli.api.opening:load_model",
    "read": "fmcli.api.data:read",
    "train": "fmcli.api.training:train",
    "tune": "fmcli.api.tuning:tune",
}


def __getattr__(name: str) -> object:
    """Return a name of the interface for Python."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _LAZY[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
