from fmcli.solvers.coordinate.descent import Descent

class RowSlice:
    def __init__(self, descent: Descent) -> None: ...
