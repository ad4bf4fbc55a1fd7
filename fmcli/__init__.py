"""fmcli trains factorization machines and applies them, from the command line and from Python.

How it is built
---------------
Models, losses, penalties and solvers never know each other. The cut between a model and a row solver is one sample's
gradient: the model writes it as a few slabs (row ids and a buffer of numbers), the solver consumes slabs. So a model is
one class, a solver is one class, and every pair works. All of stochastic training is one loop (solvers/stochastic/loop.pyx):

    for each sample x in this epoch's order:
        model.rows(x)           which parameter rows does it touch?
        solver.refresh(rows)    the penalty steps that those rows have missed
        score = model.score(x)
        model.gradient(x, loss.slope(y, score))     fills the slabs
        solver.step(slabs)      rows <- prox(rows - step)
        model.settle()          what remains, such as the projection of constrained rows

A batch merges the slabs of several samples by row before the step. Softmax is C scores and C slopes a sample over
blocks that hold class after class, not another code path.

Coordinate descent looks at the same parameters the other way (solvers/coordinate/descent.pyx, visitor.pyx): it visits one row of
parameters and all samples that the row enters, whose records keep labels, scores, and a cache of the model's own:

    for each row of parameters, slice by slice:
        model.partials(visit)       the derivatives of its samples' scores
        bound the mean loss by a quadratic, minimise that with the penalty, take the step
        model.moved(visit, step)    caches and scores follow

A model without such functions is visited through its gradients: right, and slow. L-BFGS (lbfgs.py) needs gradients
alone. Each of the three ways through epochs is a course (training.py), for which epochs are judged and kept alike.

The compiled core, cython_src/fmcli/_core, in the order of its dependencies:

    types.h             Sample, Block, Slab, Scratch, Visit: what models, solvers and the loop hand to each other
    vector.h rules.h    vectors; each solver's update and the one prox, written once for all widths
    kernels.*           the hot loops, compiled for each instruction set; simd.pyx picks the table at import
    data parser         rows in compressed form, and the reader of text
    model solver loss penalty                the contracts
    columns quadratic descent visitor        rows of parameters and their samples; objective: the whole as one vector
    linear poly2 fm anova polynet lifted bilinear ffm llfm stub  sgd adagrad ftrl fobos   what keeps them
    coding kmeans   how llfm shares a sample among anchors, and where those start
    kernel_basis    a model that no solver trains
    batch loop          the loop; writer    numbers to text

What the design rests on, each measured:

- Parameters and state are of one type, `real` (types.h): float, or double with FMCLI_REAL=double at build time.
  Scores, losses and sums are double in either.
- A feature's parameters and their solver state lie together in one row of few cache lines, and the rows of the sample
  two ahead are asked for in advance: without either, the time goes to waiting for memory.
- Inner loops run over a row's width as vectors of 8 and 4 lanes with fixed orders of summation and no fused
  multiply-add, so every instruction set gives the same bits.
- Virtual calls are made per sample or per slab, never per coordinate.
- Sums never depend on the number of threads: parts are summed apart and added in order, and the command keeps BLAS,
  which L-BFGS and the closed form use through scipy and numpy, to one thread (machine.py).
- The compiled unit of work is a piece of an epoch: it returns numbers. Progress, early stopping and the clock live in
  Python above it (training.py). Signals need neither: the handler is compiled and ends the process (interrupt.pyx).

Above the core, dependencies run one way:

    cli -> refit, advice -> training, prediction, evaluation, inspection, catalogue
        -> account, stochastic, descent, lbfgs, closedform, divergence, baseline, clipping, validation, warmstart,
           scaling, labels, metrics, modelfile, data
        -> registry, specs, streams, names, files, leftovers, text -> _core

What a run takes of memory is asked before it is taken: each piece that allocates has its `bytes_needed` beside it, and
account.py is their sum, which --dry-run shows and training checks (memory.py).

registry.py is the one table of pieces and options; the command line, its completion, the README's tables, the model
file's header and the tests derive from it. A default that depends on the training data (derived.py) stays a rule until
training.plan knows the data; from then on a run has numbers only. CONTRIBUTING.md has the steps that a new piece takes.

cli/ has a module for each command, imported when it is used. Arguments are put into our own words before click parses
them (spellings.py; other_tools.py has the words of libFM, libffm, xLearn, alphaFM, liblinear and VW). The library
raises children of FmcliError, each with its exit status, never prints and never imports click.
"""

__version__ = "0.1.0"
