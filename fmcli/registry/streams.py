"""Streams of random numbers, all drawn from a run's one seed."""

import numpy as np

from fmcli.registry.specs import Spec

START_STREAM, SHUFFLE_STREAM, HOLDOUT_STREAM, PREPARE_STREAM = 0, 1, 2, 3


def generator(spec: Spec, *stream: int) -> np.random.Generator:
    """The random numbers of one purpose: independent of how many any other has used."""
    return np.random.default_rng([spec.values["seed"], *stream])
