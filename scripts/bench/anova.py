"""The speed of the ANOVA kernel compared with a scalar implementation, and of hofm-shared by order and rank.

    python scripts/bench/anova.py [--entries 50] [--runs 5]

The first table has the nanoseconds of CPU time per non-zero, degree and factor, for scores only and for scores with
gradients, and the ratio of the time of a scalar implementation in double ([HO] Algorithms 1 and 2, one factor at a
time, in C code that this script compiles). The second table has the seconds per epoch of hofm-shared with AdaGrad,
which should be linear in order and rank. The fastest run counts, because other processes can only make a run slower.
"""

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.kernels.simd import ISA, REAL
from fmcli.losses.loss import Squared
from fmcli.models.polynomial.anova import HigherOrder
from fmcli.models.workspace import Workspace
from fmcli.registry.specs import make_spec
from fmcli.scoring.scores import scores
from fmcli.solvers.stochastic.loop import Trainer
from fmcli.solvers.stochastic.solver import Solver
from fmcli.training import job

ORDERS, RANKS = (2, 3, 4, 5), (4, 8, 16, 32, 64)
FEATURES, NONZEROS, EPOCHS = 500, 100_000, 3
SCALAR = """
#include <stdlib.h>
double *table, sum;
void room(long n) { table = realloc(table, n * 8 * sizeof(double)); }
// The order is known to the compiler, and sums stay in registers; `table` holds them as they were before each entry.
static inline __attribute__((always_inline)) void one(long n, int m, long k, const int* index, const float* value,
                                                       const double* p, double* g, int deep) {
    double e[8] = {1}, l[8] = {0};
    for (long i = 0; i < n; ++i) {
        const double a = p[index[i] * k] * value[i];
        if (deep) for (int t = 0; t < m; ++t) table[i * m + t] = e[t];
        for (int t = m; t > 0; --t) e[t] += a * e[t - 1];
    }
    sum += e[m];
    if (!deep) return;
    l[m] = 1;
    for (long i = n - 1; i >= 0; --i) {
        const double a = p[index[i] * k] * value[i];
        double slope = 0;
        for (int t = 1; t <= m; ++t) {
            slope += l[t] * table[i * m + t - 1];
            l[t - 1] += a * l[t];
        }
        g[i * k] = slope * value[i];
    }
}
void run(long rows, long n, long m, long k, const int* index, const float* value, const double* p, double* g,
         int deep) {
    for (long r = 0; r < rows; ++r, index += n, value += n)
        for (long f = 0; f < k; ++f) switch (m) {
            case 2: one(n, 2, k, index, value, p + f, g + f, deep); break;
            case 3: one(n, 3, k, index, value, p + f, g + f, deep); break;
            case 4: one(n, 4, k, index, value, p + f, g + f, deep); break;
            case 5: one(n, 5, k, index, value, p + f, g + f, deep); break;
        }
}
"""


def compiled() -> ctypes.CDLL:
    """The scalar kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "scalar.c"), Path(folder, "scalar.so")
        source.write_text(SCALAR)
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


def made(entries: int) -> Dataset:
    """Rows with this number of entries."""
    rng = np.random.default_rng(0)
    rows = NONZEROS // entries
    index = np.concatenate([np.sort(rng.choice(FEATURES, entries, replace=False)) for _ in range(rows)])
    value = rng.uniform(0.5, 1.5, size=len(index)).astype(np.float32)
    indptr = np.arange(0, len(index) + 1, entries, dtype=np.int64)
    return Dataset(indptr, index.astype(np.int32), value, rng.normal(size=rows), FEATURES)


def fastest(runs: int, work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    times = []
    for _ in range(runs):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times)


def kernel(data: Dataset, order: int, rank: int, runs: int, scalar: ctypes.CDLL) -> list[float]:
    """Seconds for scores and for scores with gradients: of fmcli, then of the scalar implementation."""
    model = HigherOrder(FEATURES, 1, [("V", order, rank)], bias=False)
    model.allocate(0)
    factors = np.random.default_rng(1).normal(size=(FEATURES, rank)) / data.longest
    model.parameters["V"][0] = factors
    out, room = np.empty((data.rows, 1)), Workspace(model, data.longest)
    trainer = Trainer(model, Solver(), Squared(), data)  # a solver that does nothing
    every_row = np.arange(data.rows, dtype=np.int32)

    def definition(deep: bool) -> None:
        scalar.run(
            *map(ctypes.c_long, (data.rows, data.longest, order, rank)),
            *(ctypes.c_void_p(array.ctypes.data) for array in (data.index, data.value, factors, gradient)),
            int(deep),
        )

    scalar.room(ctypes.c_long(data.longest))
    gradient = np.empty((data.longest, rank))
    return [
        fastest(runs, lambda: scores(model, data, room, 0, data.rows, out)),
        fastest(runs, lambda: trainer.run(every_row, 0, data.rows)),
        fastest(runs, lambda: definition(False)),
        fastest(runs, lambda: definition(True)),
    ]


def epoch(data: Dataset, order: int, rank: int, runs: int) -> float:
    """Seconds of the fastest epoch."""
    spec = make_spec("hofm-shared", "adagrad", "squared", {"order": order, "rank": rank, "epochs": EPOCHS})
    return min(one.seconds for _ in range(runs) for one in job.train(job.plan(data, spec)).epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=50, help="non-zeros in a row")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    data, scalar = made(given.entries), compiled()
    print(f"{data.rows} rows of {given.entries} non-zeros; {REAL}, {ISA}")
    print("                    score                score and gradient")
    print("order  rank    ns  double  times        ns  double  times")
    for order in ORDERS:
        for rank in RANKS:
            unit = 1e-9 * data.nnz * order * rank
            score, both, scalar_score, scalar_both = (
                seconds / unit for seconds in kernel(data, order, rank, given.runs, scalar)
            )
            print(
                f"{order:5} {rank:5}  {score:.3f}  {scalar_score:6.3f} {scalar_score / score:6.1f}    "
                f"{both:.3f}  {scalar_both:6.3f} {scalar_both / both:6.1f}",
                flush=True,
            )
    print("\nhofm-shared, adagrad: seconds an epoch")
    print("order" + "".join(f"{f'rank {rank}':>10}" for rank in RANKS))
    for order in ORDERS:
        print(f"{order:5}" + "".join(f"{epoch(data, order, rank, given.runs):10.4f}" for rank in RANKS), flush=True)


if __name__ == "__main__":
    main()
