"""Arguments of the compiled core: every invalid argument from Python raises an exception and never ends the process."""

import subprocess
import sys

import numpy as np
import pytest
from problems import ROW_SOLVERS, TRAINED, build, dataset, fields_of, fill, random_rows, score_all

from fmcli.data.counts.pairs import first_fields
from fmcli.data.dataset import Dataset
from fmcli.data.shards.training_rows import TrainingRows
from fmcli.data.text.parser import Rows
from fmcli.errors import BadInputError, NotEnoughMemoryError
from fmcli.losses.loss import Softmax, Squared
from fmcli.models.layout import BlockLayout
from fmcli.models.local.coding import Soft
from fmcli.models.local.llfm import LLFM
from fmcli.models.polynomial.anova import HOFM, HOFMShared
from fmcli.models.polynomial.kernel_basis import KernelBasis
from fmcli.models.polynomial.lifted import LiftedAnova
from fmcli.models.polynomial.polynet import PN
from fmcli.models.second_order.ffm import FFM
from fmcli.models.second_order.fm import FM
from fmcli.models.second_order.poly2 import MOST_ENTRIES, Poly2
from fmcli.models.workspace import Workspace
from fmcli.penalties.penalty import Penalty
from fmcli.registry.specs import make_spec, resolve
from fmcli.scoring.scores import mean_loss, scores
from fmcli.solvers.coordinate.columns import Columns, by_row
from fmcli.solvers.coordinate.descent import Descent
from fmcli.solvers.coordinate.update import CoordinateUpdater
from fmcli.solvers.full_batch.objective import Objective
from fmcli.solvers.stochastic.batch import Batch
from fmcli.solvers.stochastic.loop import RowLoop
from fmcli.solvers.stochastic.sgd import SGD
from fmcli.solvers.stochastic.trainer import make_solver
from fmcli.training.setup.hold_out import split
from fmcli.training.setup.settings import HoldOut

FEATURES = 7
REFUSED = (ValueError, TypeError, IndexError)


@pytest.fixture
def rows(rng):
    """Samples of every length with fields and labels."""
    return dataset(random_rows(rng, 8, FEATURES, fields=3), FEATURES, [1.0, -1.0] * 4)


def model_of(kind, **options):
    """An allocated model of a kind with random parameters."""
    model = build(kind, FEATURES, rank=4, **options)
    model.allocate(0)
    fill(model, np.random.default_rng(1))
    return model


def data_for(kind, rng):
    """Random data in the format of a kind."""
    return dataset(random_rows(rng, 8, FEATURES, fields=fields_of(kind)), FEATURES, [1.0, -1.0] * 4)


def attached(model):
    """Attach the model to contiguous arrays, as they are in files."""
    arrays = {name: np.ascontiguousarray(array) for name, array in {**model.parameters, **model.constants}.items()}
    model.attach(arrays)
    return model


@pytest.mark.parametrize("kind", TRAINED)
class TestModels:
    def test_without_rows(self, kind, rng):
        data = data_for(kind, rng)
        model = build(kind, FEATURES, rank=4)
        for use in (
            lambda: Workspace(model, 3),
            lambda: Objective(model, Squared(), data),
            lambda: Descent(model, Squared(), Penalty(), data),
            lambda: Batch(model, 2, 3),
            lambda: SGD(learning_rate=0.1).bind(model, Penalty()),
            lambda: Penalty(l1_w=1, l1_v=1).value(model),
        ):
            with pytest.raises(ValueError, match="no rows yet"):
                use()
        workspace = Workspace(model_of(kind), data.longest)
        with pytest.raises(ValueError, match="another model"):
            scores(model, data, workspace, 0, data.rows, np.empty((data.rows, 1)))

    def test_attached_models_are_not_trained(self, kind, rng):
        data = data_for(kind, rng)
        model = attached(model_of(kind))
        for use in (
            lambda: Objective(model, Squared(), data),
            lambda: Descent(model, Squared(), Penalty(), data),
            lambda: SGD(learning_rate=0.1).bind(model, Penalty()),
            lambda: Batch(model, 2, 3),
        ):
            with pytest.raises(ValueError, match="cannot be trained"):
                use()

    def test_data_that_do_not_fit(self, kind, rng):
        data, model = data_for(kind, rng), model_of(kind)
        out = np.empty((data.rows, 1))
        scores(model, data, Workspace(model, data.longest), 0, data.rows, out)
        wider = data.changed(features=FEATURES + 1)
        for workspace, some, room in (
            (Workspace(model, data.longest - 1), data, out),
            (Workspace(model, data.longest), wider, out),
            (Workspace(model_of(kind), data.longest), data, out),
            (Workspace(model, data.longest), data, out[:-1]),
            (Workspace(model, data.longest), data, out[:, :0]),
        ):
            with pytest.raises(ValueError, match=r"workspace|array"):
                scores(model, some, workspace, 0, data.rows, room)
        for make in (Objective, lambda *pieces: Descent(*pieces[:2], Penalty(), pieces[2])):
            with pytest.raises(ValueError, match=r"columns|workspace"):
                make(model, Squared(), wider).accumulate(0, 0, np.zeros(Objective(model, Squared(), data).size))

    def test_fields(self, kind, rng):
        """Models with fields accept samples without fields, and all models accept an index in several fields."""
        model = model_of(kind)
        for fields in (0, 3, 9):
            assert np.isfinite(score_all(model, dataset(random_rows(rng, 8, FEATURES, fields=fields), FEATURES))).all()

    def test_parameters_allocated_again(self, kind, rng):
        """Objects created before the model is allocated again do not access the freed memory."""
        data, model = data_for(kind, rng), model_of(kind)
        workspace, objective = Workspace(model, data.longest), Objective(model, Squared(), data)
        solver = SGD(learning_rate=0.1)
        solver.bind(model, Penalty())
        trainer = RowLoop(model, solver, Squared(), data)
        descent = Descent(model, Squared(), Penalty(), data)
        visitor = CoordinateUpdater(descent)
        model.allocate(1)
        order = np.arange(data.rows, dtype=np.int32)
        for use in (
            lambda: scores(model, data, workspace, 0, 1, np.empty((1, 1))),
            lambda: trainer.train_on(order, 0, 1),
            lambda: objective.read(np.zeros(objective.size)),
            lambda: objective.write(np.zeros(objective.size)),
            lambda: objective.accumulate(0, 1, np.zeros(objective.size)),
            lambda: visitor.measure(0, 1),
            lambda: visitor.run(0, 0, np.zeros(1, dtype=np.int32), 0, 1),
            lambda: descent.recompute_columns(),
        ):
            with pytest.raises(ValueError, match=r"anew|another"):
                use()

    def test_arrays_of_another_shape_or_type(self, kind):
        model = model_of(kind)
        arrays = {name: np.ascontiguousarray(array) for name, array in {**model.parameters, **model.constants}.items()}
        for name, array in arrays.items():
            for other in (
                array[:0],
                np.concatenate([array, array]),
                array.astype(np.int8),
                np.float64(1.0).reshape(()),
            ):
                with pytest.raises((ValueError, KeyError)):
                    model.attach({**arrays, name: other})
                if name in model.shapes():
                    with pytest.raises(ValueError, match="no rows yet"):
                        Workspace(model, 1)
            with pytest.raises(KeyError):
                model.attach({key: value for key, value in arrays.items() if key != name})

    def test_updates_of_rows_that_do_not_exist(self, kind, rng):
        data, model = data_for(kind, rng), model_of(kind)
        visitor = CoordinateUpdater(Descent(model, Squared(), Penalty(), data))
        for block, output, row in ((99, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 10**9), (0, 0, -1)):
            with pytest.raises(IndexError):
                visitor.run(block, output, np.array([row], dtype=np.int32), 0, 1)
        with pytest.raises(IndexError):
            by_row(model, data, 99)


@pytest.mark.parametrize("name", ROW_SOLVERS)
def test_solvers_without_a_model(name, rng):
    data, model = data_for("fm", rng), model_of("fm")
    solver = make_solver(resolve(make_spec("fm", name), rows=1, nonzeros=1, features=1, validated=False))
    with pytest.raises(ValueError, match=r"not bound|slots|state"):
        RowLoop(model, solver, Squared(), data)
    for use in (solver.start, lambda: solver.resume(3), solver.end_epoch, solver.load_strengths):
        try:
            use()  # some solvers have nothing to do here, and raise no error
        except ValueError as error:
            assert "not bound" in str(error)  # noqa: PT017
    model.allocate(solver.slots)
    solver.bind(model, Penalty())
    other = model_of("fm")
    other.allocate(solver.slots)
    with pytest.raises(ValueError, match="not bound"):
        RowLoop(other, solver, Squared(), data)


@pytest.mark.parametrize("numbers", [[-1], [8], [2**31 - 1], [0, 8]])
def test_numbers_of_rows(rows, numbers, rng):
    numbers = np.array(numbers, dtype=np.int32)
    model = model_of("fm")
    solver = SGD(learning_rate=0.1)
    solver.bind(model, Penalty())
    trainer = RowLoop(model, solver, Squared(), data_for("fm", rng))
    llfm = model_of("llfm")
    for use in (
        lambda: rows.seen(numbers),
        lambda: rows.counts(numbers),
        lambda: first_fields(rows, numbers, np.arange(3, dtype=np.int32)),
        lambda: trainer.train_on(numbers, 0, len(numbers)),
        lambda: llfm.active_anchors(data_for("llfm", rng), numbers),
    ):
        with pytest.raises(IndexError):
            use()


@pytest.mark.parametrize(
    "arrays",
    [
        *({"field": field} for field in ([0, -1, 0], [0, 0])),
        *({"index": index} for index in ([0, 1, -1], [0, 1, 2**31 - 1], [1, 0, 2], [1, 1, 2])),
        *({"indptr": indptr} for indptr in ([0, 3, 1, 3], [1, 2, 3], [0, 2, 4], [])),
        *({"features": features} for features in (-1, 2)),
        *({"value": [1]}, {"label": [1.0]}, {"weight": [1.0]}),
    ],
)
def test_datasets(arrays):
    types = {"indptr": np.int64, "index": np.int32, "field": np.int32, "value": np.float32}
    usual = {"indptr": [0, 2, 3], "index": [0, 1, 2], "value": None, "label": [1.0, 2.0], "features": 3}
    made = {
        name: np.array(value, dtype=types.get(name, np.float64)) if isinstance(value, list) else value
        for name, value in (usual | arrays).items()
    }
    with pytest.raises((ValueError, OverflowError)):
        Dataset(**made)
    with pytest.raises(REFUSED):
        Dataset(**{name: value.astype(np.int16) if name == "index" else value for name, value in made.items()})


@pytest.mark.parametrize(
    "make",
    [
        lambda: HOFM(FEATURES, 1, rank=2, order=3000),
        lambda: HOFMShared(FEATURES, 1, rank=2, order=65),
        lambda: HOFMShared(FEATURES, 1, rank=0, order=3),
        lambda: LiftedAnova(FEATURES, 1, rank=2, order=9),
        lambda: PN(FEATURES, 1, rank=2, order=10**12),
        lambda: KernelBasis(FEATURES, 1, rank=2, order=10**12),
        lambda: Poly2(FEATURES, 1, pair_bits=0),
        lambda: Poly2(FEATURES, 1, pair_bits=64),
        lambda: LLFM(FEATURES, 1, rank=2, anchors=0),
        lambda: FM(-1, 1, rank=2),
        lambda: FM(2**40, 1, rank=2),
        lambda: FM(FEATURES, 0, rank=2),
        lambda: FM(FEATURES, 1, rank=2**62),
        lambda: Softmax(outputs=0),
        lambda: Rows(ffm=False, keep_fields=False, training=True, limit=2**40),
        lambda: Columns(np.array([0, 5], dtype=np.int64), np.zeros(2, dtype=np.int32), None),
        lambda: Soft(3, 1.0).evaluate(np.zeros(2), np.zeros(2)),
        lambda: Softmax(outputs=3).evaluate(3.0, np.zeros(3)),
        lambda: Softmax(outputs=3).evaluate(float("nan"), np.zeros(3)),
        lambda: Squared().evaluate(1.0, np.zeros(0)),
        lambda: mean_loss(Softmax(outputs=3), np.array([5.0]), np.zeros((1, 3))),
        lambda: mean_loss(Squared(), np.zeros(3), np.zeros((2, 1))),
        lambda: mean_loss(Squared(), np.zeros(3), np.zeros((3, 1)), np.zeros(1)),
    ],
)
def test_numbers_out_of_range(make):
    with pytest.raises((*REFUSED, OverflowError)):
        make()


def test_sizes_beyond_the_address_space():
    with pytest.raises(MemoryError):
        FM(2**31 - 1, 2**31 - 1, rank=1 << 20).allocate(100)


def test_rows_cannot_be_used_after_the_dataset_is_made():
    text = np.frombuffer(b"1 0:1\n" + bytes(64), dtype=np.uint8)
    rows = Rows(ffm=False, keep_fields=False, training=True, limit=10)
    rows.parse(text, 0, 6)
    rows.dataset(3)
    for use in (lambda: rows.dataset(3), lambda: rows.parse(text, 0, 6), rows.clear):
        with pytest.raises(ValueError, match="handed over"):
            use()


def test_sizes_beyond_32_bits():
    """Sizes that would overflow 32-bit positions are refused before anything is allocated."""
    longest = MOST_ENTRIES + 1
    one_row = Dataset(
        np.array([0, longest], dtype=np.int64), np.arange(longest, dtype=np.int32), None, np.ones(1), longest
    )
    with pytest.raises(BadInputError, match="65,537 entries; poly2 takes"):
        Poly2(longest, 1, pair_bits=10).prepare(TrainingRows(one_row, np.zeros(1, dtype=np.int32)), None)
    fields = np.full(longest, 2**15 - 1, dtype=np.int32)
    for whole_rows in (True, False):
        model = FFM(longest, 1, rank=1, fields=2**15, by_row=whole_rows)
        model.prepare(TrainingRows(one_row.changed(field=fields), np.zeros(1, dtype=np.int32)), None)
        with pytest.raises(NotEnoughMemoryError, match="2,147,483,647"):
            model.allocate(0)
    with pytest.raises(BadInputError, match="rows are more than"):
        split(2**31, HoldOut(0.0), make_spec())


@pytest.mark.parametrize("said", [{"constraint": "cube"}, {"role": "beta"}])
def test_a_constraint_or_role_that_no_solver_knows_is_refused(said):
    with pytest.raises(ValueError, match="no solver knows"):
        BlockLayout(body=[("V", 2)], **said)


CALL_EVERYTHING = """
import importlib, inspect, pkgutil
import numpy as np
import fmcli

arguments = [None, 0, -1, 1000, 1.5, "x", [], {}, np.zeros(0), np.zeros(3), np.zeros((2, 2)),
             np.arange(3, dtype=np.int32), np.array([-5, 9], dtype=np.int64)]
calls = 0
for found in pkgutil.walk_packages(fmcli.__path__, "fmcli."):
    if found.ispkg or found.name in ("fmcli.__main__", "fmcli.system.interrupt", "fmcli.data.writer"):
        continue
    module = importlib.import_module(found.name)
    if module.__file__.endswith(".py"):
        continue
    for name, thing in sorted(vars(module).items()):
        if getattr(thing, "__module__", None) != found.name:
            continue
        if inspect.isclass(thing):
            try:
                subject = thing.__new__(thing)
            except TypeError:
                continue
            names = [name for name in dir(thing) if not name.startswith("__")]
        else:
            subject, names = module, [name]
        for name in names:
            try:
                called = getattr(subject, name)
            except Exception:
                continue
            if not callable(called):
                continue
            for n in range(6):
                for argument in arguments if n else [None]:
                    calls += 1
                    try:
                        called(*[argument] * n)
                    except Exception:
                        pass
print(calls)
"""


def test_methods_of_uninitialized_objects():
    """Call every method of the core on an object whose constructor did not run, with arguments of every type."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALL_EVERYTHING],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 10_000
