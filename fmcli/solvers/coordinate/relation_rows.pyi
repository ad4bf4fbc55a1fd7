from fmcli.models.related.sums import RelatedSums
from fmcli.solvers.coordinate.columns import Columns

class RelationRows(RelatedSums):
    @property
    def columns(self) -> Columns: ...
    @property
    def samples(self) -> Columns: ...
