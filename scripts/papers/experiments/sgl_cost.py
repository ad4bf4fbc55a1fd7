"""[SGL] Algorithm 2: the time of an epoch by the number of features, for a constant number of non-zeros in a row."""

import numpy as np
from experiment import Experiment, Figure, Numbers, Rule, Table
from fitting import Options, spec_of
from sets.raw import Raw
from watching import seconds_of_epoch

from fmcli.data.dataset import Dataset
from fmcli.training import job

FEATURES, ROWS, ENTRIES, RANK, SEEDS = (4_096, 16_384, 65_536, 262_144), 100_000, 20, 8, 5
PAPER_FEATURES, PAPER_ROWS = (256, 1_024, 4_096), 500  # for Algorithm 2 as printed
EPOCHS = 3
GROWTH, LINEAR = 1.5, 0.5
SPARSE: Options = {"solver": "fobos", "l1": 1e-6, "group_l1": 1e-6}
WAYS: dict[str, tuple[str, Options]] = {
    "sglfm": ("sglfm", SPARSE),
    "fm": ("fm", {"solver": "sgd"}),
}
PRINTED = "sglfm, as printed"


def rows_of(features: int, rows: int, seed: int) -> Dataset:
    """Rows with ENTRIES random features of value 1, and random labels."""
    random = np.random.default_rng(seed)
    block = features // ENTRIES
    index = random.integers(block, size=(rows, ENTRIES)) + block * np.arange(ENTRIES)
    indptr = np.arange(0, index.size + 1, ENTRIES, dtype=np.int64)
    return Dataset(indptr, index.astype(np.int32).ravel(), None, random.normal(size=rows), features)


def seconds(model: str, options: Options, data: Dataset) -> float:
    """The CPU seconds of the fastest epoch."""
    common: Options = {"loss": "squared", "rank": RANK, "epochs": EPOCHS, "learning_rate": 0.001}
    return seconds_of_epoch(job.plan(data, spec_of(model, common | options)))


def run(raw: Raw) -> Numbers:
    numbers: Numbers = {name: {str(d): [] for d in FEATURES} for name in WAYS}
    numbers[PRINTED] = {str(d): [] for d in PAPER_FEATURES}
    for seed in range(SEEDS):
        for features in FEATURES:  # all ways in turn, so that a busy machine slows all of them
            data = rows_of(features, ROWS, seed)
            for name, (model, options) in WAYS.items():
                numbers[name][str(features)].append(seconds(model, options, data))
        for features in PAPER_FEATURES:
            data = rows_of(features, PAPER_ROWS, seed)
            numbers[PRINTED][str(features)].append(seconds("sglfm", SPARSE | {"prox": "exact"}, data))
    return numbers


def growth(numbers: Numbers, name: str) -> list[float]:
    """The least times relative to that of the fewest features."""
    least = [min(times) for times in numbers[name].values()]
    return [one / least[0] for one in least]


def as_fm(numbers: Numbers) -> bool:
    """Whether the time of sglfm grows hardly more than that of fm."""
    pairs = zip(growth(numbers, "sglfm"), growth(numbers, "fm"), strict=True)
    return all(ours <= GROWTH * control for ours, control in pairs)


def printed_is_linear(numbers: Numbers) -> bool:
    return growth(numbers, PRINTED)[-1] >= LINEAR * PAPER_FEATURES[-1] / PAPER_FEATURES[0]


def tables(numbers: Numbers) -> list[Table]:
    def table(caption: str, names: list[str], features: tuple[int, ...], rows: int) -> Table:
        cells = [
            [
                f"{d:,}",
                *(f"{1e9 * min(numbers[name][str(d)]) / (rows * ENTRIES):.0f}" for name in names),
                *(f"{growth(numbers, name)[i]:.2f}" for name in names),
            ]
            for i, d in enumerate(features)
        ]
        head = ["features", *(f"{name}, ns" for name in names), *(f"{name}, relative" for name in names)]
        return Table(f"{caption}: CPU time of an epoch for each non-zero, the least of {SEEDS} runs", head, cells)

    return [
        table(f"{ROWS:,} rows of {ENTRIES} non-zeros", list(WAYS), FEATURES, ROWS),
        table(f"{PAPER_ROWS:,} rows of {ENTRIES} non-zeros, `--prox exact`", [PRINTED], PAPER_FEATURES, PAPER_ROWS),
    ]


def figures(numbers: Numbers) -> dict[str, Figure]:
    shown = {name: (FEATURES, growth(numbers, name)) for name in WAYS}
    shown[PRINTED] = PAPER_FEATURES, growth(numbers, PRINTED)
    panels = {"time of an epoch, relative": shown}
    return {"": Figure("Time by the number of features", "features", "times that of the fewest", panels, True, True)}


EXPERIMENT = Experiment(
    name="sgl_cost",
    source="[SGL] Algorithm 2",
    title="the time of an epoch by the number of features",
    about=f"""
As printed, Algorithm 2 shrinks all features after each row, which takes time in proportion to their number;
`fobos --prox exact` does this. By default, `fobos` brings a feature up to date when a row has it, and all features
at the end of an epoch. The data are random: {ENTRIES} features of value 1 in each row, k = {RANK}. More features
take more time in any case, because fewer of them are in the cache of the processor; `fm` by `sgd` shows how much.
""",
    rules=[
        Rule(
            f"from {FEATURES[0]:,} to {FEATURES[-1]:,} features, the time of sglfm grows at most {GROWTH:g} times as"
            " much as that of fm.",
            as_fm,
        ),
        Rule(
            f"as printed, the time grows at least half as much as the number of features, from {PAPER_FEATURES[0]:,} to"
            f" {PAPER_FEATURES[-1]:,}.",
            printed_is_linear,
        ),
    ],
    run=run,
    tables=tables,
    figures=figures,
)
