from fmcli.models.model import ColumnModel

MOST_ENTRIES: int

class Poly2(ColumnModel): ...
