"""Every stochastic solver against its slow definition, update by update, for every model."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import cycle, product

import numpy as np
import pytest
from problems import (
    FOLLOWED,
    ROW_SOLVERS,
    TRAINED,
    assert_close,
    build,
    choices,
    dataset,
    fields_of,
    fill,
    in_turn,
    pairwise,
    parameters,
    random_rows,
    taken,
)

from fmcli.cluster.sums import ShareSums
from fmcli.penalties.penalty import Penalty
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import GROUP_PENALTIES
from fmcli.registry.specs import make_spec
from fmcli.solvers.rounds.row_sums import added_sums, row_sums, step_by_sums
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.round_loop import RoundLoop
from fmcli.solvers.stochastic.sample_rounds import SampleRounds
from fmcli.training.job import empty_score, plan, train
from reference import slow_losses, slow_solvers
from reference.kinds import KINDS
from reference.slow_penalties import GROUPS
from reference.slow_solvers import Options

FEATURES, RANK, ROWS, EPOCHS = 7, 5, 9, 2
PENALTIES = {
    "none": {},
    "both": {"l1_w": 0.02, "l1_v": 0.02, "l2_w": 0.1, "l2_v": 0.1},
    "by-part": {"l1_w": 0.05, "l1_v": 0.01, "l2_w": 0.2, "l2_v": 0.03},
    "group": {"l1_w": 0.01, "l1_v": 0.02, "l2_w": 0.2, "l2_v": 0.1, "group_l1": 0.1},
    "group-only": {"group_l1": 0.2},
}
for _option in GROUP_PENALTIES[1:]:
    PENALTIES |= {_option: PENALTIES["by-part"] | {_option: 0.1}, f"{_option}-only": {_option: 0.2}}
# FOBOS's closed form of deferred steps is not exact for a group penalty together with l1, or for rows whose parameters
# have different step sizes. With these penalties the steps are applied one by one (prox=exact).
EXACT_ONLY = tuple(name for name, strengths in PENALTIES.items() if strengths.keys() & set(GROUP_PENALTIES))
NUMBERS = {"learning_rate": 0.02, "alpha": 0.1, "beta": 0.7, "l1_from_epoch": 2}
POOL = ThreadPoolExecutor(2)
pytestmark = pytest.mark.exact


def follow(kind, model, solver, loss, slow_loss, labels, *, penalty, batch_size=1, weights=None, chosen=None,
    lazy_groups=False, round_ends=(), by_parts=False, threads=1, pairs=False, **numbers,
):  # fmt: skip
    """Run the solver and its slow definition side by side, and compare all parameters after every update and epoch.

    `chosen` holds the options of the model that its slow definition needs. With `lazy_groups`, all parameters of a row
    have the same step size, and deferred steps are applied in closed form with every penalty. With `round_ends`, each
    epoch is trained by rounds, with `by_parts` by sums over parts of each round. With `pairs`, it is trained on
    pairs of samples.
    """
    rng = np.random.default_rng(3)
    rows = random_rows(rng, ROWS, FEATURES, fields=fields_of(kind))
    numbers = NUMBERS | numbers
    of_w, of_v = (1, 1) if lazy_groups else (2, 0.7)
    steps = [step for step in ("learning_rate", "alpha") if f"{step}_w" in ROW_SOLVERS[solver].options]
    for step in steps:
        numbers |= {f"{step}_w": of_w * numbers[step], f"{step}_v": of_v * numbers[step]}
    chosen = choices(model, **(chosen or {}))
    options = Options(**PENALTIES[penalty], **numbers, batch_size=batch_size, round_ends=round_ends, model=chosen)
    orders = [rng.permutation(ROWS) for _ in range(EPOCHS)]
    partners = [(np.arange(ROWS) + rng.integers(1, ROWS, size=ROWS)) % ROWS for _ in orders] if pairs else None
    trained = ROW_SOLVERS[solver].load()(
        **{name: getattr(options, name) for name in ROW_SOLVERS[solver].options if name in asdict(options)},
        **({"prox": "exact" if penalty in EXACT_ONLY and not lazy_groups else "lazy"} if solver == "fobos" else {}),
    )
    # FOBOS defers steps, so its parameters are comparable only after the end of an epoch, when all rows are up to date.
    look_often = solver != "fobos"
    model.allocate(trained.slots)
    options = replace(options, model=chosen | model.constants)  # some constants exist only after allocate()
    fill(model, np.random.default_rng(4), scale=0.15)
    if model.has_bias:  # the bias cancels the part of the score that does not depend on the sample
        bias = model.parameters["bias"]
        bias[...] = 2 * bias - empty_score(model)
    start = parameters(model)
    trained.bind(model, Penalty(**PENALTIES[penalty], l1_from_epoch=options.l1_from_epoch))
    trained.start()
    data = dataset(rows, FEATURES, labels, weights)
    mean = 1 if weights is None else np.mean(weights)
    trainer = RowLoop(model, trained, loss, data, batch_size, mean, pairs=pairs)
    ends_of = [*round_ends] or [*range(batch_size, ROWS, batch_size), ROWS]

    steps, ends = [], []

    def keep(where):
        return lambda _, params: where.append({name: array.copy() for name, array in params.items()})

    end, losses = slow_solvers.run(
        kind, slow_loss, solver, start, rows, labels, orders, options, weights,
        after_update=keep(steps), after_epoch=keep(ends), partners_per_epoch=partners,
    )  # fmt: skip
    assert any(np.abs(end[name] - start[name]).max() > 0.005 for name in start)
    step = iter(steps)
    for epoch, order in enumerate(orders, start=1):
        total = 0.0
        if round_ends:
            rounds, loop = in_shards(model, trained, loss, data.take(order), round_ends, mean, threads)
            loop = PartsOfRounds(model, trained, loss) if by_parts else loop
        for number, (first, last) in enumerate(zip([0, *ends_of], ends_of, strict=False)):
            if round_ends:
                total += loop.train_on(POOL, rounds, np.arange(len(ends_of), dtype=np.int32), number, number + 1)
            else:
                of_pairs = (0.0, partners[epoch - 1].astype(np.int32)) if pairs else ()
                total += trainer.train_on(order.astype(np.int32), first, last, *of_pairs)
            now = next(step)
            if look_often:
                assert_close(parameters(model), now, FOLLOWED)
        trained.end_epoch()
        assert_close(parameters(model), ends[epoch - 1], FOLLOWED)
        np.testing.assert_allclose(total / (ROWS if weights is None else sum(weights)), losses[epoch - 1], rtol=1e-4)
    assert next(step, None) is None


def in_shards(model, solver, loss, data, ends, mean_weight, threads):
    """These data in rounds, and the loop of rounds."""
    divisor = mean_weight if solver.averages_weights else 1
    rounds = SampleRounds(data, np.array([0, *ends]), mean_weight=divisor, by_sample=model.pair_block >= 0)
    return rounds, RoundLoop(model, solver, loss, threads)


class PartsOfRounds:
    """Rounds by the sums of the gradients of two parts of each round."""

    def __init__(self, model, solver, loss):
        self.model, self.solver, self.loss = model, solver, loss

    def train_on(self, pool, rounds, order, number, _):
        first, last = rounds.ends[number : number + 2]
        data = rounds.data.take(np.arange(first, last))
        losses, blocks = row_sums(self.model, self.loss, data, rounds.mean_weight, [data.rows - 1, data.rows])
        sums = ShareSums(losses, np.zeros(2), blocks)
        for block in range(len(blocks)):
            total = added_sums([sums.of_share(part, block) for part in range(2)])
            step_by_sums(self.model, self.solver, self.loss, block, total)
        self.model.project()
        return losses.sum()


def labels_of(loss, rng):
    draw = {
        "binary": lambda: rng.choice([-1.0, 1.0], size=ROWS),
        "real": lambda: rng.normal(size=ROWS),
        "soft": lambda: rng.random(ROWS),
        "counts": lambda: rng.poisson(2, size=ROWS).astype(float),
        "classes": lambda: rng.integers(3, size=ROWS).astype(float),
        "order": lambda: np.ones(ROWS),
    }
    return draw[LOSSES[loss].task]()


def outputs_of(loss):
    return 3 if LOSSES[loss].task == "classes" else 1


def make_loss(loss):
    return LOSSES[loss].load()(**({"outputs": 3} if outputs_of(loss) == 3 else {}))


# Losses interact with models and penalties only through the gradient, so they take turns.
STEPS = zip(pairwise(TRAINED, ROW_SOLVERS, PENALTIES), cycle(name for name, loss in LOSSES.items() if not loss.drawn))


@pytest.mark.parametrize(
    ("name", "solver", "loss", "penalty"), [(name, solver, loss, penalty) for (name, solver, penalty), loss in STEPS]
)
def test_steps(name, solver, loss, penalty):
    chosen = {"rank": RANK, "by_row": penalty in EXACT_ONLY}
    model = build(name, FEATURES, outputs_of(loss), **chosen)
    labels = labels_of(loss, np.random.default_rng(5))
    follow(
        name, model, solver, make_loss(loss), slow_losses.LOSSES[loss], labels, penalty=penalty, chosen=chosen,
        pairs=LOSSES[loss].pairwise,
    )  # fmt: skip


# Every kind once, and every solver with and without weights of samples.
@pytest.mark.parametrize(("name", "solver", "weighted"), in_turn(TRAINED, product(ROW_SOLVERS, (False, True))))
def test_batches_of_pairs(name, solver, weighted):
    """The last batch of an epoch is smaller. A pair has the weight of its first sample."""
    rng = np.random.default_rng(2)
    model = build(name, FEATURES, rank=RANK)
    weights = rng.uniform(0.5, 2, size=ROWS) if weighted else None
    follow(
        name, model, solver, make_loss("bpr"), "bpr", np.ones(ROWS), penalty="by-part", batch_size=2, weights=weights,
        chosen={"rank": RANK}, pairs=True, learning_rate=0.1,
    )  # fmt: skip


# Kinds, solvers, penalties, whether samples have weights, ranks, losses, step sizes, and whether rounds are in parts,
# for rounds. Under a group penalty, the closed form of the deferred steps of fobos is not exact, and it has no sums.
ROUNDS = [case for case in pairwise(
    [name for name, kind in TRAINED.items() if kind.rounds],
    [name for name, solver in ROW_SOLVERS.items() if solver.rounds],
    ["none", "by-part", "group"],
    [False, True],
    [2, 4, 9],
    ["logistic", "softmax"],
    [0.02, 2.0],
    [False, True],
) if case[1:3] != ("fobos", "group") and (case[1] != "fobos" or not case[-1])]  # fmt: skip


@pytest.mark.parametrize(("name", "solver", "penalty", "weighted", "rank", "loss", "size", "by_parts"), ROUNDS)
def test_rounds(name, solver, penalty, weighted, rank, loss, size, by_parts):
    """The bound on the curvature is active if the step size is large."""
    rng = np.random.default_rng(1)
    model = build(name, FEATURES, outputs_of(loss), rank=rank)
    weights = rng.uniform(0.5, 2, size=ROWS) if weighted else None
    follow(
        name, model, solver, make_loss(loss), loss, labels_of(loss, rng), penalty=penalty, weights=weights,
        round_ends=(2, 9), by_parts=by_parts, threads=2, chosen={"rank": rank}, learning_rate=size, alpha=size,
        adaptive=True, curvature=slow_losses.SMOOTHNESS[loss],
    )  # fmt: skip


@pytest.mark.parametrize(("name", "solver", "rank"), pairwise(TRAINED, ROW_SOLVERS, [4, 9]))
def test_gradients_as_formulas_and_as_numbers_give_the_same_bits(name, solver, rank):
    """With rank 4, two parameter rows fill a SIMD vector; with rank 9, a row has several vectors. If the model has
    fields, each entry of a sample has a different field, except in one sample."""
    rng = np.random.default_rng(6)
    rows = random_rows(rng, 5 * ROWS, FEATURES)
    if fields_of(name):
        fielded = [{(j, (j + shift) % FEATURES): x for j, x in row.items()} for shift, row in enumerate(rows)]
        rows = [*fielded[:-1], {(j, 0): x for j, x in rows[1].items()}]
    data = dataset(rows, FEATURES, rng.integers(3, size=len(rows)))
    ends = []
    for formulas in (True, False):
        model = build(name, FEATURES, 3, rank=rank, fields=FEATURES)
        options = {key: value for key, value in NUMBERS.items() if key in ROW_SOLVERS[solver].options}
        trained = ROW_SOLVERS[solver].load()(**make_spec("fm", solver, None, options).keywords(ROW_SOLVERS[solver]))
        assert trained.takes_formulas == (solver != "fobos")
        trained.takes_formulas &= formulas
        model.allocate(trained.slots)
        fill(model, np.random.default_rng(7), scale=0.15)
        start = parameters(model)
        trained.bind(model, Penalty(**PENALTIES["by-part"]))
        trained.start()
        RowLoop(model, trained, make_loss("softmax"), data).train_on(np.arange(len(rows), dtype=np.int32), 0, len(rows))
        trained.end_epoch()
        ends.append(parameters(model))
    assert any((ends[0][key] != start[key]).any() for key in start)
    for key in start:
        np.testing.assert_array_equal(*[end[key] for end in ends], err_msg=key)


WITH_RUNS = {
    "linear": ("linear", {}), "fm": ("fm", {}), "fm without bias": ("fm", {"bias": False}),
    "anova": ("anova", {"order": 2}), "shfm": ("shfm", {}), "sha2": ("sha2", {}),
    "sha2 with fixed beta": ("sha2", {"fit_beta": False}), "ffm": ("ffm", {}),
    "ffm without weights": ("ffm", {"linear": False}),
}  # fmt: skip
RUN_SOLVERS = {
    **{name: (name, {}) for name in ("sgd", "adagrad", "ftrl", "fobos")}, "adaptive": ("fobos", {"adaptive": True})
}  # fmt: skip


def with_distinct(x):
    """Return entries of a sample with different indices and different fields."""
    by_field = {f: j for j, f in dict([*x]).items()}
    return {(j, f): x[j, f] for j, f in sorted((j, f) for f, j in by_field.items())}


def with_runs():
    """Yield pairs of kind, solver, rank, penalty, and whether all values are 1, that have runs. Rows that FOBOS brings
    up to date, and rows with a group penalty, belong to features."""
    penalties = ["none", "both", "by-part", "group"]
    for name, solver, rank, penalty, ones in pairwise(
        WITH_RUNS, [*RUN_SOLVERS], [3, 4, 8, 9, 20], penalties, [False, True]
    ):
        if not name.startswith("ffm") or (penalty != "group" and RUN_SOLVERS[solver][0] != "fobos"):
            yield name, solver, rank, penalty, ones
    yield "ffm", "adagrad", 4, "none", False
    for solver, rank in product(["sgd", "adagrad", "ftrl"], [3, 8, 20]):
        yield "fm", solver, rank, "none", True


@pytest.mark.parametrize(("name", "solver", "rank", "penalty", "ones"), sorted(set(with_runs())))
def test_runs_of_samples_and_single_samples_give_the_same_bits(name, solver, rank, penalty, ones):
    """Ranks 8 and, of ffm, 4 have loops of their own, and so do values that are all 1 without an L1 or group penalty.
    One sample is empty."""
    rng = np.random.default_rng(8)
    kind, chosen = WITH_RUNS[name]
    rows = [*random_rows(rng, 3 * ROWS, FEATURES, ones=ones, fields=fields_of(kind)), {}]
    if fields_of(kind):
        rows = [with_distinct(x) for x in rows]
    data = dataset(rows, FEATURES, rng.choice([-1.0, 1.0], len(rows)), rng.uniform(0.5, 2, len(rows)))
    order = rng.permutation(len(rows)).astype(np.int32)
    solver, options = RUN_SOLVERS[solver]
    options = {key: value for key, value in NUMBERS.items() if key in ROW_SOLVERS[solver].options} | options
    ends = []
    for runs, formulas in ((True, True), (False, True), (False, False)):
        model = build(kind, FEATURES, 1, **taken(kind, {"rank": rank} | chosen))
        trained = ROW_SOLVERS[solver].load()(**make_spec("fm", solver, None, options).keywords(ROW_SOLVERS[solver]))
        trained.takes_runs &= runs
        trained.takes_formulas &= formulas
        model.allocate(trained.slots)
        fill(model, np.random.default_rng(7), scale=0.15)
        trained.bind(model, Penalty(**PENALTIES[penalty]))
        trained.start()
        trainer = RowLoop(model, trained, make_loss("logistic"), data, mean_weight=1.2)
        assert trainer.by_runs == runs
        total = 0.0
        for start, stop in ((0, 1), (1, 10), (10, len(rows))):
            total = trainer.train_on(order, start, stop, total)
        ends.append((total, parameters(model), {key: np.array(state) for key, state in model.states.items()}))
    for total, values, states in ends[1:]:
        assert total == ends[0][0]
        for key in values:
            np.testing.assert_array_equal(values[key], ends[0][1][key], err_msg=key)
            np.testing.assert_array_equal(states[key], ends[0][2][key], err_msg=key)


@pytest.mark.parametrize(
    ("kind", "outputs", "solver", "options", "penalty", "batch_size"),
    [
        ("fm", 3, "sgd", {}, "both", 1), ("hofm", 1, "sgd", {}, "both", 1),
        ("fm", 1, "fobos", {"prox": "exact"}, "both", 1),
        ("fm", 1, "sgd", {"schedule": "inverse"}, "both", 1), ("fm", 1, "sgd", {}, "both", 2),
    ],
)  # fmt: skip
def test_what_is_not_trained_in_runs_of_samples(kind, outputs, solver, options, penalty, batch_size):
    model = build(kind, FEATURES, outputs, rank=RANK)
    options = {key: value for key, value in NUMBERS.items() if key in ROW_SOLVERS[solver].options} | options
    trained = ROW_SOLVERS[solver].load()(**make_spec("fm", solver, None, options).keywords(ROW_SOLVERS[solver]))
    model.allocate(trained.slots)
    trained.bind(model, Penalty(**PENALTIES[penalty]))
    data = dataset(random_rows(np.random.default_rng(8), ROWS, FEATURES), FEATURES, np.zeros(ROWS))
    loss = make_loss("squared" if outputs == 1 else "softmax")
    assert not RowLoop(model, trained, loss, data, batch_size).by_runs


@pytest.mark.parametrize("row", [{(0, 1): 1.0, (2, 1): 1.0}, {(0, 0): 1.0, (0, 1): 1.0}, {(0, 3): 1.0, (1, 0): 1.0}])
def test_samples_of_ffm_whose_fields_are_not_all_different_or_known_have_no_runs(row):
    model = build("ffm", FEATURES, 1, **taken("ffm", {"rank": RANK}))
    trained = ROW_SOLVERS["sgd"].load()(learning_rate=0.1)
    model.allocate(trained.slots)
    trained.bind(model, Penalty())
    single = {(0, 1): 1.0, (2, 2): 1.0}
    assert RowLoop(model, trained, make_loss("squared"), dataset([single], FEATURES, [1.0])).by_runs
    assert not RowLoop(model, trained, make_loss("squared"), dataset([single, row], FEATURES, [1.0, 1.0])).by_runs


# The models in which a sample touches rows beyond the rows of its features.
NAME_THEIR_ROWS = [name for name, piece in TRAINED.items() if piece.by_fields or KINDS[name].touched is not None]


@pytest.mark.parametrize("solver", ROW_SOLVERS)
@pytest.mark.parametrize("name", NAME_THEIR_ROWS)
def test_models_that_touch_other_rows_than_their_features(name, solver):
    """With batches, example weights, and a hash table in which several pairs share an entry."""
    chosen = taken(name, {"pair_bits": 3, "rank": 6})
    model = build(name, FEATURES, 3, **chosen)
    labels = labels_of("softmax", np.random.default_rng(5))
    follow(
        name, model, solver, make_loss("softmax"), slow_losses.LOSSES["softmax"], labels, penalty="by-part",
        batch_size=4, chosen=chosen, weights=np.linspace(0.5, 2, ROWS),
    )  # fmt: skip


@pytest.mark.parametrize("solver", ["adagrad", "ftrl"])
def test_a_strong_group_penalty_on_partly_touched_rows(solver):
    """The touched parameters of a row do not become 0 if its other parameters are non-zero."""
    chosen = {"rank": 6, "by_row": True}
    model = build("ffm", FEATURES, **chosen)
    labels = labels_of("squared", np.random.default_rng(5))
    follow(
        "ffm", model, solver, make_loss("squared"), slow_losses.squared, labels, penalty="group-only", chosen=chosen,
        learning_rate=0.3, alpha=0.3, l1_from_epoch=1,
    )  # fmt: skip


# Options that give rows other shapes than the defaults: several constants, one matrix for each, and several factors.
OTHER_SHAPES = {"order": 3, "fit_beta": True, "augment": True}


@pytest.mark.parametrize(
    ("name", "solver", "penalty", "batch_size"),
    [(name, solver, *case) for name, solver, case in pairwise(
        [name for name in TRAINED if "order" in taken(name, OTHER_SHAPES)], ROW_SOLVERS,
        [("by-part", 4), ("group-only", 1)],
    )],
)  # fmt: skip
def test_steps_of_other_shapes(name, solver, penalty, batch_size):
    chosen = taken(name, OTHER_SHAPES)
    model = build(name, FEATURES, rank=3, **chosen)
    labels = labels_of("squared", np.random.default_rng(5))
    follow(
        name, model, solver, make_loss("squared"), slow_losses.squared, labels, penalty=penalty, chosen=chosen,
        batch_size=batch_size,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("solver", "schedule", "penalty"), pairwise(["sgd", "fobos"], ["invscaling", "inverse"], PENALTIES)
)
def test_schedules(solver, schedule, penalty):
    model = build("fm", FEATURES, rank=RANK)
    labels = labels_of("squared", np.random.default_rng(5))
    follow(
        "fm", model, solver, make_loss("squared"), slow_losses.squared, labels, penalty=penalty,
        schedule=schedule, power=0.3, t0=2.0, learning_rate=0.1 if schedule == "inverse" else 0.03,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "penalty", "batch_size"), pairwise(["fm", "shfm", "linear"], PENALTIES, [1, 4]))
def test_adaptive_fobos(name, penalty, batch_size):
    model = build(name, FEATURES, rank=RANK)
    labels = labels_of("logistic", np.random.default_rng(5))
    follow(
        name, model, "fobos", make_loss("logistic"), slow_losses.logistic, labels, penalty=penalty,
        adaptive=True, learning_rate=0.1, batch_size=batch_size,
    )  # fmt: skip


@pytest.mark.parametrize("adaptive", [False, True])
def test_fobos_closed_form_is_accurate_to_first_order(adaptive):
    """With l1 and a group penalty together, and on groups with different step sizes, the closed form is accurate to
    first order in the number of deferred steps."""
    ends = {}
    for prox in ("lazy", "exact"):
        model = build("fm", FEATURES, rank=RANK)
        solver = ROW_SOLVERS["fobos"].load()(learning_rate=1e-3, learning_rate_w=2e-3, prox=prox, adaptive=adaptive)
        model.allocate(solver.slots)
        start = fill(model, np.random.default_rng(4))
        solver.bind(model, Penalty(l1_w=0.5, l1_v=0.5, group_l1=0.5, l2_w=0.1, l2_v=0.2))
        rows = [{0: 1.0}] * 50 + [dict.fromkeys(range(FEATURES), 1.0)]
        RowLoop(model, solver, make_loss("squared"), dataset(rows, FEATURES, np.ones(51))).train_on(
            np.arange(51, dtype=np.int32), 0, 51
        )
        solver.end_epoch()
        ends[prox] = parameters(model)
    moved = np.abs(ends["exact"]["V"] - start["V"]).max()
    assert np.abs(ends["lazy"]["V"] - ends["exact"]["V"]).max() < 0.03 * moved


@pytest.mark.parametrize("l2", [0, 1e-4, 4e-3, 0.01, 5.0])
@pytest.mark.parametrize("adaptive", [False, True])
def test_deferred_steps_of_any_strength_and_number(adaptive, l2):
    """Up to 480 steps, for which different series are used, give what the single steps give."""
    rows = [{0: 1.0} | ({i // 60: 1.0} if i % 60 == 0 else {}) for i in range(60 * FEATURES)] + [{0: 1.0}] * 60
    ends = {}
    for prox in ("lazy", "exact"):
        model = build("fm", FEATURES, rank=RANK)
        solver = ROW_SOLVERS["fobos"].load()(learning_rate=0.05, prox=prox, adaptive=adaptive)
        model.allocate(solver.slots)
        start = fill(model, np.random.default_rng(4))
        solver.bind(model, Penalty(l1_w=1e-3, l1_v=1e-3, l2_w=l2, l2_v=l2))
        RowLoop(model, solver, make_loss("squared"), dataset(rows, FEATURES, np.ones(len(rows)))).train_on(
            np.arange(len(rows), dtype=np.int32), 0, len(rows)
        )
        solver.end_epoch()
        ends[prox] = parameters(model)
    assert np.abs(ends["exact"]["V"] - start["V"]).max() > 0.01
    assert_close(ends["lazy"], ends["exact"], FOLLOWED)


@pytest.mark.parametrize(("name", "solver", "batch_size"), pairwise(["hofm", "hofm-simplex"], ROW_SOLVERS, [1, 4, 100]))
def test_outputs_batches_weights_and_a_projected_row(name, solver, batch_size):
    """Three outputs, batches, example weights, and separate penalty strengths and step sizes for linear weights and
    factors; features with rows in two blocks, or a structural row with projection."""
    rng = np.random.default_rng(6)
    labels, weights = labels_of("softmax", rng), rng.uniform(0.5, 2, size=ROWS)
    follow(
        name, build(name, FEATURES, 3, rank=RANK), solver, make_loss("softmax"), slow_losses.LOSSES["softmax"],
        labels, penalty="by-part", batch_size=batch_size, weights=weights,
    )  # fmt: skip


@pytest.mark.parametrize("penalty", ["both", "by-part"])
@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"schedule": "inverse"}])
def test_deferred_steps_with_one_step_size_of_weights_and_factors(penalty, options):
    """They are the same if both have the same L2 strength."""
    labels = labels_of("squared", np.random.default_rng(5))
    follow(
        "fm", build("fm", FEATURES, rank=RANK), "fobos", make_loss("squared"), slow_losses.squared, labels,
        penalty=penalty, lazy_groups=True, learning_rate=0.05, **options,
    )  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize(("name", "schedule"), [("fm", "constant"), ("ffm", "inverse")])
def test_deferred_steps_of_groups_with_one_step_size(name, schedule, batch_size):
    model = build(name, FEATURES, rank=RANK, by_row=True)
    labels = labels_of("squared", np.random.default_rng(5))
    follow(
        name, model, "fobos", make_loss("squared"), slow_losses.squared, labels, penalty="group-only",
        batch_size=batch_size, chosen={"by_row": True}, schedule=schedule, lazy_groups=True, learning_rate=0.05,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "solver", "chosen"), [
    *(("fm", solver, {}) for solver in ROW_SOLVERS), ("ffm", "sgd", {}), ("ffm", "adagrad", {}), ("ffm", "ftrl", {}),
    ("fm", "fobos", {"adaptive": True}), ("poly2", "ftrl", {}), ("llfm", "adagrad", {}),
])  # fmt: skip
def test_a_tiny_group_penalty_has_no_effect(name, solver, chosen):
    """All other settings are equal: the option of the group penalty changes none of them."""
    rng = np.random.default_rng(2)
    rows = random_rows(rng, 40, FEATURES, fields=fields_of(name))
    data = dataset(rows, FEATURES, rng.normal(size=40))
    penalties = {"l1_w": 0.01, "l1_v": 1e-3, "l2_w": 0.03, "l2_v": 0.01, "init_std": 0.2}
    ends = []
    for group in (0.0, 1e-12):
        job = plan(data, make_spec(name, solver, "squared", {"epochs": 5, "group_l1": group, **penalties, **chosen}))
        train(job)
        ends.append(parameters(job.model))
    assert_close(*ends, FOLLOWED)


def test_ftrl_with_another_exponent():
    model = build("fm", FEATURES, rank=RANK)
    labels = labels_of("squared", np.random.default_rng(5))
    loss = make_loss("squared")
    follow("fm", model, "ftrl", loss, slow_losses.squared, labels, penalty="both", ftrl_power=0.8)


def test_a_solver_refuses_rows_made_for_another():
    model = build("fm", FEATURES, rank=RANK)
    model.allocate(1)
    with pytest.raises(ValueError, match="1 state slots, the solver needs 0"):
        ROW_SOLVERS["sgd"].load()(learning_rate=0.1).bind(model, Penalty())


@pytest.mark.parametrize("strengths", PENALTIES)
@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_a_step_without_gradient_is_the_prox(strengths, rate):
    """If the label of a sample is its score, an sgd step is only the prox: argmin ½h(v − u)² + λ1|v| + (λ2/2)v²."""
    from problems import score_all
    from scipy.optimize import minimize_scalar

    penalty = Penalty(**PENALTIES[strengths])
    group = GROUPS[penalty.group_option or "group_l1"]  # a linear weight is a group with one member
    model = build("linear", FEATURES)
    solver = ROW_SOLVERS["sgd"].load()(learning_rate=rate)
    model.allocate(solver.slots)
    before = fill(model, np.random.default_rng(0), scale=0.05)
    solver.bind(model, penalty)
    x = dict.fromkeys(range(FEATURES), 1.0)
    label = score_all(model, dataset([x], FEATURES))[0]
    RowLoop(model, solver, make_loss("squared"), dataset([x], FEATURES, label)).train_on(np.zeros(1, np.int32), 0, 1)
    for u, v in zip(before["w"][0], model.parameters["w"][0], strict=True):
        best = minimize_scalar(
            lambda v, u=u: (v - u) ** 2 / (2 * rate) + penalty.l1_w * abs(v) + penalty.l2_w / 2 * v**2
            + penalty.group * group.value(np.array([v])),
            bounds=(-1, 1), method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        assert abs(best.x - v) < 1e-6
    assert model.parameters["bias"][0] == before["bias"][0]
