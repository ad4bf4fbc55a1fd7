from fmcli._core.columns cimport Columns
from fmcli._core.data cimport Dataset
from fmcli._core.loss cimport Loss
from fmcli._core.model cimport MAX_BLOCKS, Model, Workspace
from fmcli._core.penalty cimport Penalty
from fmcli._core.types cimport Column, real
