"""Independent streams of random numbers, derived from the seed of the run."""

import numpy as np

from fmcli.registry.specs import Spec

START_STREAM, SHUFFLE_STREAM, HOLDOUT_STREAM, PREPARE_STREAM, ROUND_STREAM, PAIR_STREAM = 0, 1, 2, 3, 4, 5
SAMPLING_STREAM, FOLD_STREAM, MEASURE_STREAM, CROSS_STREAM, TUNE_STREAM = 6, 7, 8, 9, 10


def generator(spec: Spec, *stream: int) -> np.random.Generator:
    """Return a generator for one purpose. Its numbers do not depend on other streams."""
    return np.random.default_rng([spec.values["seed"], *stream])
