"""Copies of some parameter rows of a model, for another model with fewer features."""

import numpy as np

from fmcli.models.layout import REAL_TYPE

from fmcli.base.types cimport Block, real
from fmcli.models.parameters cimport Parameters
from libc.stdint cimport int32_t


def rows_of(layout, outputs, features, columns):
    """Return int32 (n): the rows of a block, in a model with these numbers of outputs and features, that belong to some
    of the features (int32, increasing), in the order of a model with only these features. All rows if `columns` is
    None, or if the block has no rows by feature."""
    rows = layout.rows(features)
    if columns is None or not layout.by_feature:
        some = np.arange(rows, dtype=np.int64)
    else:
        some = (columns[:, None].astype(np.int64) * layout.rows_each + np.arange(layout.rows_each)).reshape(-1)
    return (np.arange(outputs)[:, None] * rows + some).reshape(-1).astype(np.int32)


def read_rows(Parameters model not None, int b, const int32_t[::1] rows):
    """Return (rows, numbers): the body of each row with its padding, and its weight, of the real type."""
    model.require(training=True)
    if not 0 <= b < model.n_blocks:
        raise IndexError("no such block")
    cdef const Block* block = &model.block[b]
    cdef Py_ssize_t lanes = block.lanes, width = lanes + (block.weight != NULL), i, f
    values = np.empty((rows.shape[0], width), dtype=REAL_TYPE)
    cdef real[:, ::1] out = values
    for i in range(rows.shape[0]):
        if not 0 <= rows[i] < model.outputs * block.rows:
            raise IndexError("no such row")
        for f in range(lanes):
            out[i, f] = block.body[rows[i] * block.body_stride + f]
        if width > lanes:
            out[i, lanes] = block.weight[rows[i] * block.weight_stride]
    return values


def write_rows(Parameters model not None, int b, const real[:, ::1] values):
    """Write numbers as `read_rows` returns them to all rows of a block, in the order of the rows."""
    model.require(training=True)
    if not 0 <= b < model.n_blocks:
        raise IndexError("no such block")
    cdef Block* block = &model.block[b]
    cdef Py_ssize_t lanes = block.lanes, width = lanes + (block.weight != NULL), i, f
    if values.shape[0] != model.outputs * block.rows or values.shape[1] != width:
        raise ValueError("the numbers do not cover all rows of the block")
    for i in range(values.shape[0]):
        for f in range(lanes):
            block.body[i * block.body_stride + f] = values[i, f]
        if width > lanes:
            block.weight[i * block.weight_stride] = values[i, lanes]
