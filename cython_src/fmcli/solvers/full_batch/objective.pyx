"""The mean loss as a function of one vector of all parameters, and its gradient."""

from fmcli.base.types cimport Block, Sample, Scratch, SparseGradient
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model
from fmcli.models.workspace cimport Workspace, workspace_for


cdef class Objective:
    """The mean loss of a model on rows that are in memory shard by shard.

    The vector holds the blocks one after the other. In it, the numbers of a row are its body, with padding, and its
    weight.

    Parameters
    ----------
    model : Model, allocated.
    loss : Loss.
    data : Dataset with labels, a shard of the rows; `take` replaces it by another shard.
    total_weight : the sum of the weights of all rows; by default, of this shard.

    Attributes
    ----------
    size : the length of the vector.
    """

    def __init__(self, Model model, Loss loss, Dataset data, total_weight=None):
        cdef int b
        model.require(training=True)
        self.generation = model.generation
        self.model, self.loss, self.size = model, loss, 0
        self.take(data)
        self.total_weight = data.total_weight() if total_weight is None else total_weight
        for b in range(model.n_blocks):
            self.begin[b] = self.size
            self.width[b] = model.block[b].lanes + (model.block[b].weight != NULL)
            self.size += model.outputs * model.block[b].rows * self.width[b]

    def take(self, Dataset data not None):
        """Continue with another shard of the rows."""
        if data.label is None:
            raise ValueError("the data have no labels")
        self.loss.check(data.label, self.model.outputs)
        self.data = data

    # Raise ValueError if the model has been allocated again in the meantime.
    cdef require(self):
        if self.model is None or self.generation != self.model.generation:
            raise ValueError("the objective was made before the model's rows were laid out anew")

    def places(self, int b):
        """Return where the vector holds the rows of block b: the slice, the rows of all classes, and the numbers in a
        row."""
        self.require()
        if not 0 <= b < self.model.n_blocks:
            raise IndexError("no such block")
        cdef Py_ssize_t rows = self.model.outputs * self.model.block[b].rows
        return slice(self.begin[b], self.begin[b] + rows * self.width[b]), rows, self.width[b]

    def read(self, double[::1] values):
        """Copy the model's parameters to a vector."""
        cdef int b
        cdef Py_ssize_t r, f, at
        cdef const Block* block
        self.require()
        if values.shape[0] != self.size:
            raise ValueError(f"a vector of {values.shape[0]} numbers, not {self.size}")
        for b in range(self.model.n_blocks):
            block = &self.model.block[b]
            for r in range(self.model.outputs * block.rows):
                at = self.begin[b] + r * self.width[b]
                for f in range(block.lanes):
                    values[at + f] = block.body[r * block.body_stride + f]
                if block.weight != NULL:
                    values[at + block.lanes] = block.weight[r * block.weight_stride]

    def write(self, const double[::1] values):
        """Copy a vector to the model's parameters."""
        cdef int b
        cdef Py_ssize_t r, f, at
        cdef Block* block
        self.require()
        if values.shape[0] != self.size:
            raise ValueError(f"a vector of {values.shape[0]} numbers, not {self.size}")
        for b in range(self.model.n_blocks):
            block = &self.model.block[b]
            for r in range(self.model.outputs * block.rows):
                at = self.begin[b] + r * self.width[b]
                for f in range(block.lanes):
                    block.body[r * block.body_stride + f] = values[at + f]
                if block.weight != NULL:
                    block.weight[r * block.weight_stride] = values[at + block.lanes]

    def accumulate(self, Py_ssize_t start, Py_ssize_t stop, double[::1] gradient):
        """Add the contribution of rows start:stop of the shard to the gradient of the mean loss. Returns their part of
        the mean loss."""
        self.require()
        if not 0 <= start <= stop <= self.data.rows or gradient.shape[0] != self.size:
            raise ValueError("no such rows, or a gradient of another size")
        cdef Workspace workspace = workspace_for(self.model, self.data)
        cdef Scratch* s = &workspace.scratch
        cdef Sample x
        cdef Py_ssize_t i
        cdef int c
        cdef double share, total = 0
        with nogil:
            for i in range(start, stop):
                self.data.sample(i, &x)
                share = self.data.share_of(i, self.total_weight)
                self.model.rows(&x, s)
                self.model.score(&x, s)
                total += share * self.loss.slope(self.data.label_of(i), s.score, s.slope)
                for c in range(self.model.outputs):
                    s.slope[c] *= share
                self.model.gradient(&x, s)
                self.add(s, &gradient[0])
        return total

    cdef void add(self, const Scratch* s, double* out) noexcept nogil:
        cdef int i
        cdef Py_ssize_t j, f, lanes
        cdef double* row
        cdef const SparseGradient* gradient
        for i in range(s.n_gradients):
            gradient = &s.gradients[i]
            lanes = self.model.block[gradient.block].lanes
            for j in range(gradient.n):
                row = out + self.begin[gradient.block] + (gradient.first + gradient.row[j]) * self.width[gradient.block]
                for f in range(lanes):
                    row[f] += gradient.body[j * lanes + f]
                if self.width[gradient.block] > lanes:
                    row[lanes] += gradient.weight[j]
