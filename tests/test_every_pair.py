"""Properties that must hold for every registered model with every registered solver."""

from functools import cache

import numpy as np
import pytest
from problems import ROW_SOLVERS, TRAINED, build, by_feature, grouped, is_linear, on_the_simplex, score_all, taken

from fmcli.data.dataset import Dataset
from fmcli.data.numbering import moved
from fmcli.losses.links import expit
from fmcli.registry.build import build_loss
from fmcli.registry.catalog import refusal
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import MODELS
from fmcli.registry.solvers import SOLVERS
from fmcli.registry.specs import make_spec
from fmcli.scoring.averages import mean_score
from fmcli.scoring.metrics import Outcome, measure
from fmcli.scoring.scorer import load_model
from fmcli.scoring.scores import mean_loss
from fmcli.scoring.sparsity import model_sparsity
from fmcli.training import job, saving
from reference.kinds import KINDS, per_feature
from reference.slow_solvers import LEARNING

FEATURES, ENTRIES, ROWS, RANK, CLASSES, FIELDS, EPOCHS = 60, 6, 2000, 4, 3, 3, 16
FEW = 200  # rows, in tests that do not need the model to learn
MANY = 4000  # rows, from which also kinds with parameters for each field learn, and all if labels have few values
# Some models need a penalty that not every solver supports.
PAIRS = [(model, solver) for model in TRAINED for solver in SOLVERS if not refusal(model, solver)]


def with_losses():
    """Yield fm with every loss, by a row solver, a different one for the next loss, and by every other solver."""
    for turn, loss in enumerate(LOSSES):
        able = [solver for solver in SOLVERS if not refusal("fm", solver, loss)]
        by_rows = [solver for solver in able if solver in ROW_SOLVERS]
        others = {*by_rows} - {*by_rows[turn % max(1, len(by_rows)) :][:1]}
        yield from (("fm", solver, loss) for solver in able if solver not in others)


def few_pairs():
    """Yield fm with every solver, and every other model with its default solver and another one in turn."""
    for turn, (model, kind) in enumerate(TRAINED.items()):
        able = [solver for solver in SOLVERS if not refusal(model, solver) and solver != kind.solver]
        yield from [(model, solver) for solver in (kind.solver, *(able if model == "fm" else [able[turn % len(able)]]))]


FEW_PAIRS = list(few_pairs())
# fm with every loss; with softmax, fm with all solvers and the others with their default solver.
OTHER_LOSSES = [case for case in with_losses() if case[2] not in ("squared", "softmax")]
OTHER_LOSSES += [
    (model, solver, "softmax")
    for model, solver in PAIRS
    if (model == "fm" or solver == MODELS[model].solver) and not refusal(model, solver, "softmax")
]
SAVED = [*((model, solver, "squared") for model, solver in FEW_PAIRS), *OTHER_LOSSES]
# Every pair with the squared loss; with logistic, every other model with its default solver.
TRIPLES = [*((model, solver, "squared") for model, solver in PAIRS), *OTHER_LOSSES]
TRIPLES += [(model, MODELS[model].solver, "bpr") for model in ("sha2", "ffm", "llfm")]
TRIPLES += [(model, MODELS[model].solver, "logistic") for model in TRAINED if model != "fm"]
# LEARNABLE: options with which few rows suffice. STEADY: options with which only the start values are random.
LEARNABLE = {"anchors": 2, "neighbours": 2, "lc": 0.02}
STEADY = {"anchors": 1}
# Options of models that take a long time for each row.
COSTLY = {"pair_bits", "anchors"}


@cache
def drawn(fields, rows):
    """Return random rows of ENTRIES entries with the value 1. fields : of the features; empty: entries have none."""
    chosen = np.random.default_rng(1).permuted(np.tile(np.arange(FEATURES, dtype=np.int32), (rows, 1)), axis=1)
    index = np.sort(chosen[:, :ENTRIES], axis=1).ravel()
    ends = ENTRIES * np.arange(rows + 1, dtype=np.int64)
    return Dataset(ends, index, None, np.zeros(rows), FEATURES, np.array(fields, np.int32)[index] if fields else None)


def fields_of(model):
    """Return the fields of the features: two halves for models with two groups, else three fields."""
    if not MODELS[model].by_fields:
        return ()
    halves = "split_index" in MODELS[model].options
    return tuple(2 * j // FEATURES if halves else j % FIELDS for j in range(FEATURES))


@cache
def planted(model, loss, rows=ROWS):
    """Return training and test data of ``rows`` samples each, labeled by a random model of the same kind.

    Its factors are large enough to matter.
    """
    rng = np.random.default_rng(0)
    outputs = CLASSES if LOSSES[loss].task == "classes" else 1
    model_options = taken(model, LEARNABLE)
    truth = build(model, FEATURES, outputs, rank=RANK, split_index=FEATURES // 2, fields=FIELDS, **model_options)
    truth.allocate(0)
    for name, array in truth.parameters.items():
        array[...] = rng.normal(size=array.shape) * KINDS[model].planted.get(name, 0.5)
        start = KINDS[model].starts.get(name, 0)
        if name in on_the_simplex(truth):
            array[...] = 1 / array.shape[-1]
        elif start:
            sizes = rng.uniform(0.5, 1.5, size=array.shape) if isinstance(start, tuple) else 1
            array[...] = np.resize(start, array.shape[-1]) * sizes
    samples = drawn(fields_of(model), 2 * rows)
    score = score_all(truth, samples)
    score = 2 * (score - np.median(score, axis=0))
    draw = {
        "binary": lambda: np.where(rng.random(samples.rows) < expit(score[:, 0]), 1.0, 0.0),
        "soft": lambda: rng.beta(*(5 * p for p in soft(score[:, 0]))),
        "real": lambda: score[:, 0] / 2 + 0.1 * rng.normal(size=samples.rows),
        "counts": lambda: rng.poisson(np.exp(np.clip(score[:, 0] / 2, -3, 1.5))).astype(float),
        "classes": lambda: (score + rng.gumbel(size=score.shape)).argmax(axis=1) * 10.0,
        "levels": lambda: np.searchsorted([-1.5, 0.0, 1.0], score[:, 0] + rng.normal(size=samples.rows)) + 2.0,
        "order": lambda: np.round(score[:, 0] + 0.1 * rng.normal(size=samples.rows)),
    }
    label = draw[LOSSES[loss].task]()
    assert np.ptp(label) > 0
    halves = np.split(np.arange(2 * rows, dtype=np.int32), 2)
    both = tuple(samples.changed(label=np.asarray(label, np.float64)).take(half) for half in halves)
    return tuple(map(grouped, both)) if LOSSES[loss].pairwise else both


def learnable(model, loss):
    """Return planted data from which a model learns its interactions."""
    return planted(model, loss, rows=MANY if MODELS[model].by_fields or LOSSES[loss].task != "real" else ROWS)


def soft(score):
    """Return the probabilities of both labels, which are not 0."""
    p = np.clip(expit(score), 0.01, 0.99)
    return p, 1 - p


def run(model, solver, loss, data, **options):
    """Train a model, without normalizing rows unless `norm` is given."""
    spec = make_spec(model, solver, loss, {"norm": False, **taken(model, LEARNABLE), **options})
    return job.train(job.plan(data, spec))


def steps(solver, loss):
    """Return the step size options with which the pair learns, if the solver has any. Counts have steep gradients."""
    if solver not in ROW_SOLVERS:
        return {}
    if solver in LEARNING:
        return LEARNING[solver]
    return {"learning_rate": 0.003 if LOSSES[loss].task == "counts" else 0.006}


def weak_penalties(model, solver="sgd", loss="squared"):
    """Return penalties of the model that are too weak to matter.

    Deterministic solvers reach the minimum itself. They need a stronger l2 if labels have few different values, because
    the factors would overfit.
    """
    piece = MODELS[model]
    if SOLVERS[solver].is_sampler:
        return {}
    by_heart = solver not in ROW_SOLVERS and LOSSES[loss].task != "real"
    return {**dict.fromkeys(("l2", *piece.positive), 1e-06), **({"l2": 3e-3} if by_heart else {})}


def loss_on(trained, data):
    """Return the mean loss on data, which need not be the training data; of pairs, the share in the wrong order."""
    if LOSSES[trained.plan.spec.loss].pairwise:
        outcome = Outcome("bpr", data.label, score_all(trained.plan.model, data), group=data.group)
        return 1 - measure(["gauc"], outcome)["gauc"]
    labels = trained.plan.transform.labels
    label = labels.encode(data.label).astype(np.float64)
    loss = build_loss(trained.plan.spec, labels.loss, trained.plan.model.columns)
    trained.plan.model.remeasure()
    return mean_loss(loss, label, mean_score(labels.loss, trained.all_draws, data))


@pytest.mark.parametrize("model", [model for model in MODELS if model != "linear"])
def test_by_default_every_kind_predicts_better_than_linear(model):
    """With the default solver and options, on validation data. A kernel machine with few landmarks captures little of
    the interactions of all pairs of features, but is no worse than a linear model."""
    train, test = learnable("fm" if MODELS[model].closed_form else model, "squared")
    found, linear = (
        job.summary(job.train(job.plan(train, make_spec(kind), valid=test, metrics=("rmse",))))["valid"]["rmse"]
        for kind in (model, "linear")
    )
    assert found < (1 if MODELS[model].closed_form else 0.6) * linear


@cache
def linear_loss(model, loss):
    """Return the loss of a linear model on the test data that are planted for a model."""
    train, test = learnable(model, loss)
    usual = MODELS["linear"].solver
    solver = next(name for name in (usual, *SOLVERS) if not refusal("linear", name, loss))
    weak = weak_penalties("linear", solver)
    return loss_on(run("linear", solver, loss, train, epochs=EPOCHS, **weak, **steps(solver, loss)), test)


@pytest.mark.parametrize(("model", "solver", "loss"), TRIPLES)
def test_planted_data(model, solver, loss):
    """The objective falls, and a model with interactions predicts better than a linear model."""
    train, test = learnable(model, loss)
    # cd fits kernel weights before the factors of the kernels. If the factors were small, the penalty would shrink the
    # kernel weights first.
    spread = 0.3 if solver == "cd" and "fit_beta" in MODELS[model].options else 0.1
    model_options = {"rank": RANK, "init_std": spread} if "rank" in MODELS[model].options else {}
    if model == "lifted-pn":  # as what is planted, also at order 2
        model_options["augment"] = True
    epochs = EPOCHS // 2 if COSTLY & set(MODELS[model].options) and solver not in ("sgd", "mcmc") else EPOCHS
    epochs *= 2 if solver == "lbfgs" else 1
    trained = run(
        model,
        solver,
        loss,
        train,
        epochs=epochs,
        **weak_penalties(model, solver, loss),
        **steps(solver, loss),
        **model_options,
    )
    # Stochastic solvers report the progressive loss of the first epoch, the others the loss at its end.
    if solver in ROW_SOLVERS:
        begin = trained.epochs[0].objective
    else:
        begin = loss_on(run(model, solver, loss, train, epochs=0, **model_options), train)
    assert trained.epochs[-1].objective < (0.98 if is_linear(trained.plan.model) else 0.9) * begin
    if not is_linear(trained.plan.model):
        better = loss_on(trained, test) < 0.8 * linear_loss(model, loss)
        assert better, "the model learns too little, or what is planted is noise: see `planted` in reference/kinds.py"


@pytest.mark.parametrize(("model", "solver", "loss"), SAVED)
def test_save_load_predict(model, solver, loss, tmp_path):
    """The same seed gives the same bytes, another seed gives others, and a loaded model has the scores of the trained
    one."""
    train, test = planted(model, loss, rows=FEW)
    files = {}
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        trained = run(model, solver, loss, train, epochs=2, seed=seed, **steps(solver, loss))
        files[name] = tmp_path / name
        saving.save_model(str(files[name]), trained, job.summary(trained), "libsvm")
        if name == "one":
            saw = mean_score(loss, trained.all_draws, test)
    content = {name: path.read_bytes() for name, path in files.items()}
    assert content["one"] == content["again"] != content["other"]
    loaded = load_model(str(files["one"]))
    assert loaded.scores(test).tobytes() == saw.tobytes()


@pytest.mark.parametrize(("model", "solver"), FEW_PAIRS)
def test_cold_features_are_zero_and_no_epochs_give_start_values(model, solver):
    """But a sampler draws cold features that have parameters from their prior, unless rows have a norm without them, or
    a feature and its neighbors have different fields."""
    train, _ = planted(model, "squared", rows=FEW)
    wide = Dataset(train.indptr, train.index * 2, train.value, train.label, 2 * FEATURES, train.field)
    for epochs in (0, 2):
        trained = run(model, solver, "squared", wide, epochs=epochs)
        assert len(trained.epochs) == epochs
        params = trained.plan.model.parameters
        for name in filter(per_feature, params):
            rows = by_feature(trained.plan.model, name)
            if trained.plan.data.numbering is not None:  # there are parameters only for features that occur
                rows = moved(rows, 0, slice(None), trained.plan.data.numbering.ids, 2 * FEATURES)
            plan = trained.plan
            drawn = plan.spec.solver_entry.is_sampler and epochs > 0 and plan.data.numbering is None
            assert rows[1::2].any() == (drawn and not plan.transform.norm and wide.field is None)
            assert (rows[::2] != 0).any() == (epochs > 0 or name != "w")
        if epochs == 0 and trained.plan.model.has_bias:
            assert job.empty_score(trained.plan.model) == pytest.approx(train.label.mean(), rel=1e-5)


@pytest.mark.parametrize(("model", "solver"), [pair for pair in FEW_PAIRS if pair[1] in ROW_SOLVERS])
def test_file_order_and_seeds(model, solver):
    """Without shuffling, rows are used in file order, and the seed changes only the start values."""
    train, _ = planted(model, "squared", rows=FEW)
    model_options = {"init_std": 0.0, **taken(model, STEADY)}
    runs = [
        run(model, solver, "squared", train, epochs=1, shuffle=False, seed=seed, **model_options) for seed in (1, 2)
    ]
    assert runs[0].epochs[0].loss == runs[1].epochs[0].loss
    shuffled = run(model, solver, "squared", train, epochs=1, seed=1, **model_options)
    assert shuffled.epochs[0].loss != runs[0].epochs[0].loss


@pytest.mark.parametrize("model", [model for model in TRAINED if not MODELS[model].positive])
def test_l1_makes_ftrl_sparse(model):
    train, _ = planted(model, "logistic")
    shares = [
        model_sparsity(run(model, "ftrl", "logistic", train, epochs=3, l1=l1).plan.model)
        for l1 in (0.0, 1.0, 10.0, 1e4)
    ]
    assert shares == sorted(shares)
    assert shares[0] < 0.05
    assert shares[-1] == 1
