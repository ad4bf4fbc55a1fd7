"""fmcli evaluate --no-worse-than: the model that another one must not be worse than."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fmcli.cli.predict import log_model
from fmcli.cli.relations import check_model
from fmcli.errors import BadInputError, UsageError
from fmcli.system.addresses import is_remote

if TYPE_CHECKING:
    from fmcli.cli.output import Log
    from fmcli.data.labels import Labels
    from fmcli.data.related.files import RelationFiles
    from fmcli.scoring.metrics import Outcome
    from fmcli.scoring.paired import Difference
    from fmcli.scoring.scorer import Scorer


def check_gate(inputs: tuple[str, ...]) -> None:
    """Raise UsageError for inputs that --no-worse-than cannot read twice."""
    for path in inputs:
        if path == "-" or (not is_remote(path) and stat.S_ISFIFO(os.stat(path).st_mode)):
            source = "standard input" if path == "-" else path
            raise UsageError(
                f"--no-worse-than reads the rows twice, but {source} can be read only once; write them to a file"
            )


class Rival:
    """A model that another one must not be worse than, with its knowledge of labels.

    metrics : the chosen ones; the first metric compares the models. Empty: the default metric of the loss.
    relations : of the rows.

    Raises UsageError if they cannot be compared, and the errors of `load_model`.
    """

    def __init__(
        self, log: Log, path: str, labels: Labels, metrics: Sequence[str], relations: Sequence[RelationFiles]
    ) -> None:
        from fmcli.scoring.metrics import default_metrics
        from fmcli.scoring.paired import check_comparable
        from fmcli.scoring.scorer import load_model

        self.metric = (metrics or default_metrics(labels.loss))[0]
        self._scorer = load_model(path)
        check_model(relations, self._scorer)
        check_comparable(self.metric, labels, self._scorer.labels)
        log_model(log, path, self._scorer)

    def difference(self, outcome: Outcome, scored: Callable[[Scorer], Outcome], path: str, threads: int) -> Difference:
        """Return how the other model's outcome on the rows, which `scored` returns, differs. `path` : of the rows.
        Raises BadInputError if they have changed meanwhile."""
        from fmcli.scoring.paired import difference

        own = scored(self._scorer)
        if len(own.label) != len(outcome.label) or (own.label != outcome.label).any():
            raise BadInputError(f"{path} has changed while it was read")
        return difference(self.metric, outcome, own, threads)
