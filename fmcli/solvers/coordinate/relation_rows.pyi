from fmcli.models.related.parts import PartSums
from fmcli.solvers.coordinate.columns import Columns

class RelationRows(PartSums):
    @property
    def columns(self) -> Columns: ...
    @property
    def samples(self) -> Columns: ...
