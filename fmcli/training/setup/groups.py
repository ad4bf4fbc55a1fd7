"""The groups of features with common priors that a run was given, or continues with."""

from __future__ import annotations

import numpy as np

from fmcli.data.fields import NO_GROUP, Counted, Groups
from fmcli.data.transform import Transform
from fmcli.errors import BadInputError
from fmcli.text import counted
from fmcli.training.setup.rows import DividedRows
from fmcli.training.setup.settings import Settings


def groups_of(settings: Settings, rows: DividedRows, transform: Transform) -> Groups | None:
    """Return (features) the groups that the features of rows are given by the settings, or else by the warm start;
    None: none.

    Raises BadInputError for a feature without a group.
    """
    warm_start, numbering = settings.warm_start, transform.numbering
    before = warm_start.transform.groups if warm_start else None
    if before is None and settings.groups is None:
        return None
    groups, occurs = np.full(transform.features, NO_GROUP, dtype=np.int32), rows.seen(transform)
    if before is not None:
        groups[: len(before)] = before
    if settings.groups is not None:
        given = settings.groups.of_columns(transform.features, numbering)
        np.copyto(groups, given, where=given != NO_GROUP)
    missing = np.flatnonzero(occurs & (groups == NO_GROUP)).astype(np.int32)
    if len(missing) and settings.spec.solver_entry.is_sampler:
        feature = missing[0] if numbering is None else numbering.written(missing[:1])[0]
        more = len(missing) - 1
        others = f", nor for {more:,} other{'s' if more > 1 else ''}" if more else ""
        name = settings.groups.name if settings.groups else warm_start and warm_start.path
        raise BadInputError(
            f"{name} has no group for feature {feature} of the training rows{others}; each needs one", prior_groups=None
        )
    return groups


def groups_in_words(groups: Counted | None, settings: Settings) -> str:
    """Return how many groups of features have priors of their own, and where the groups are from."""
    if groups is None:
        return "one for all features"
    count, warm_start = len(groups.numbers), settings.warm_start
    if settings.groups:
        return f"one for each of {counted(count, 'group')} of features, as in {settings.groups.name}"
    if warm_start and warm_start.transform.groups is not None:
        return f"one for each of {counted(count, 'group')} of features, as in {warm_start.path}"
    return f"one for each of {counted(count, 'field')}"
