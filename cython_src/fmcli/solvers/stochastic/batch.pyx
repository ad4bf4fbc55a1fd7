"""Mini-batches: the gradients of several samples, merged by row into one update."""

import numpy as np

from fmcli.models.layout import allocate

from fmcli.base.types cimport LANES, Block, Scratch, SparseGradient, real
from fmcli.models.model cimport Model
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef int32_t ABSENT = -1


# The largest number of rows of a block that `size` samples of up to `longest` entries can touch.
cdef Py_ssize_t most_rows(Model model, int b, Py_ssize_t size, Py_ssize_t longest):
    cdef Py_ssize_t rows = model.block[b].rows, each = model.most_rows(b, longest)
    return max(1, rows if each > rows // max(size, 1) else size * each)  # size * each may overflow


cdef class Batch:
    """Gradients of up to `size` samples of up to `longest` entries, summed by touched row.

    Works for models that fill the same sparse gradients in the same order for every sample.
    """

    def __cinit__(self, Model model, Py_ssize_t size, Py_ssize_t longest):
        self.place = NULL
        self.marks = NULL
        self.merged.gradients = NULL

    def __init__(self, Model model, Py_ssize_t size, Py_ssize_t longest):
        model.require(training=True)
        if size < 1 or longest < 0:
            raise ValueError(f"a batch cannot have {size} samples of {longest} entries")
        cdef int i, n_gradients = model.outputs * model.n_blocks
        cdef Py_ssize_t most
        cdef Block* block
        cdef SparseGradient* gradient
        cdef real[::1] body, weight
        cdef int32_t[::1] place, row
        cdef unsigned char[::1] marks
        self.size, self.model, self.memory = size, model, []
        self.place = <int32_t**>calloc(n_gradients, sizeof(int32_t*))
        self.marks = <uint8_t**>calloc(n_gradients, sizeof(uint8_t*))
        self.merged.gradients = <SparseGradient*>calloc(n_gradients, sizeof(SparseGradient))
        if self.place == NULL or self.marks == NULL or self.merged.gradients == NULL:
            raise MemoryError
        self.merged.n_gradients = n_gradients
        for i in range(n_gradients):
            block = &model.block[i % model.n_blocks]
            gradient = &self.merged.gradients[i]
            most = most_rows(model, i % model.n_blocks, size, longest)
            place = np.full(max(block.rows, 1), ABSENT, dtype=np.int32)
            row = np.empty(most, dtype=np.int32)
            body, weight = allocate(most * block.lanes), allocate(most)
            marks = np.zeros(most * (block.lanes // LANES) + 1, dtype=np.uint8)
            self.memory.append((place, row, body, weight, marks))
            self.place[i], self.marks[i] = &place[0], &marks[0]
            gradient.row, gradient.body, gradient.weight = &row[0], &body[0], &weight[0]

    @staticmethod
    def bytes_needed(Model model, Py_ssize_t size, Py_ssize_t longest):
        """Return the bytes that a batch takes."""
        cdef int b
        needed = 0
        for b in range(model.n_blocks):
            needed += sizeof(int32_t) * model.block[b].rows + most_rows(model, b, size, longest) * (
                sizeof(int32_t) + (model.block[b].lanes + 1) * sizeof(real))
        return model.outputs * needed

    def __dealloc__(self):
        free(self.place)
        free(self.marks)
        free(self.merged.gradients)

    # Add a sample's gradients to the batch.
    cdef void add(self, const Scratch* s) noexcept nogil:
        cdef int i
        cdef Py_ssize_t j, f, lanes, units
        cdef int32_t row, at
        cdef const SparseGradient* gradient
        cdef SparseGradient* merged
        for i in range(s.n_gradients):
            gradient, merged = &s.gradients[i], &self.merged.gradients[i]
            merged.block, merged.first = gradient.block, gradient.first
            lanes = self.model.block[gradient.block].lanes
            units = lanes // LANES if gradient.touched != NULL else 0
            merged.touched = self.marks[i] if units else NULL
            for j in range(gradient.n):
                row = gradient.row[j]
                at = self.place[i][row]
                if at == ABSENT:
                    at = self.place[i][row] = <int32_t>merged.n
                    (<int32_t*>merged.row)[at] = row
                    merged.n += 1
                    if lanes:  # a call that clears nothing would cost as much as the rest of the row
                        memset(merged.body + at * lanes, 0, lanes * sizeof(real))
                    if units:
                        memset(self.marks[i] + at * units, 0, units)
                    merged.weight[at] = 0
                for f in range(units):
                    self.marks[i][at * units + f] |= gradient.touched[j * units + f]
                for f in range(lanes):
                    merged.body[at * lanes + f] += gradient.body[j * lanes + f]
                merged.weight[at] += gradient.weight[j]

    # Make room for the next batch.
    cdef void clear(self) noexcept nogil:
        cdef int i
        cdef Py_ssize_t j
        cdef SparseGradient* merged
        for i in range(self.merged.n_gradients):
            merged = &self.merged.gradients[i]
            for j in range(merged.n):
                self.place[i][merged.row[j]] = ABSENT
            merged.n = 0
