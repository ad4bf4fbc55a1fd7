"""The types of the keyword arguments of training, for type checkers and editors; parameters.py has help.

Written by scripts/reference.py."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict


class CommonKeywords(TypedDict, total=False):
    """What fmcli.train and estimators have."""

    model: str | None
    loss: str | None
    solver: str | None
    init_model: Any
    only_new: bool | None
    max_seconds: float | None
    ensemble: int | None
    holdout: float | str | None
    refit: bool | None
    quick_search: bool | None
    auto: bool | None
    metrics: Sequence[str] | None
    patience: int | None
    calibrate: str | None
    keep_state: bool | None
    min_count: int | None
    rare: str | None
    class_weight: Mapping[Any, float] | str | None
    pos_weight: float | None
    prior_groups: str | PathLike[str] | None
    categorical: Sequence[str] | None
    numeric: Sequence[str] | None
    several: Sequence[str] | None
    vector: Sequence[str] | None
    separator: str | None
    ignore: Sequence[str] | None
    missing_values: Sequence[str] | None
    missing: str | None
    decimal: str | None
    bins: int | None
    delimiter: str | None
    encoding: str | None
    schema: str | PathLike[str] | None
    unseen_weight: float | None
    l2_power: float | None
    negatives: int | None
    negatives_by: str | None
    rank: int | list[int] | None
    order: int | None
    bias: bool | None
    linear: bool | None
    augment: bool | None
    fit_beta: bool | None
    beta_start: str | None
    pair_bits: int | None
    split_index: int | None
    anchors: int | None
    neighbours: int | None
    coding_c: float | None
    lc: float | None
    llfm_variant: str | None
    anchor_rate: float | None
    basis: str | None
    kernel: str | None
    coef0: float | None
    init_std: float | list[float] | None
    l1: float | None
    l1_w: float | None
    l1_v: float | None
    l2: float | None
    l2_w: float | None
    l2_v: float | None
    group_l1: float | None
    nuclear: float | None
    huber_delta: float | None
    learning_rate: float | None
    learning_rate_w: float | None
    learning_rate_v: float | None
    schedule: str | None
    power: float | None
    t0: float | None
    adaptive: bool | None
    prox: str | None
    alpha: float | None
    alpha_w: float | None
    alpha_v: float | None
    beta: float | None
    ftrl_power: float | None
    l1_from_epoch: int | None
    tol: float | None
    init_strength: float | None
    epochs: int | None
    burn_in: int | None
    draws: int | None
    gap_mean: float | None
    gap_std: float | None
    noise_shape: float | None
    noise_rate: float | None
    prior_shape: float | None
    prior_rate: float | None
    prior_rate_w: float | None
    mean_strength: float | None
    pool_priors: bool | None
    bias_precision: float | None
    batch_size: int | None
    round_size: int | None
    clip: bool | None
    scale_labels: bool | None
    scale: str | None
    norm: bool | None
    shuffle: bool | None


class Keywords(CommonKeywords, total=False):
    """Keyword arguments of fmcli.train."""

    threads: int | None
    cache: str | PathLike[str] | None
    memory: float | None
    decay: str | None
    positive: Any
    label: str | None
    weight_column: str | None
    group_field: str | None
    implicit: bool | None
    user: Sequence[str] | None
    item: Sequence[str] | None
    count: str | None
    seed: int | None


class Parameters(CommonKeywords, total=False):
    """Parameters of estimators."""

    random_state: Any
    n_jobs: int | None
    callbacks: Any
    warm_start: bool
    verbose: int
