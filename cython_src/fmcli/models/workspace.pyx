"""The scratch memory in which a thread scores samples and computes their gradients."""

import numpy as np

from fmcli.models.layout import REAL_TYPE, allocate

from fmcli.base.types cimport SparseGradient, real
from fmcli.data.dataset cimport Dataset
from fmcli.models.model cimport Model
from libc.stdint cimport INT32_MAX, int32_t


cdef class Workspace:
    """Scratch memory of one thread: for scores of samples with up to `longest` entries and, with `gradients`, for their
    gradients.

    Without `gradients`, Scratch.gradient_buffer is NULL.
    """

    def __init__(self, Model model, Py_ssize_t longest, bint gradients=True):
        model.require()
        if not 0 <= longest <= INT32_MAX:
            raise ValueError(f"a sample cannot have {longest} entries")
        cdef real[::1] work, buffer
        cdef double[::1] outputs
        cdef int32_t[::1] ids
        cdef char[::1] gradient_structs
        self.memory = work, buffer, outputs, ids, gradient_structs = [
            allocate(size) if kind is REAL_TYPE and size else np.zeros(size, dtype=kind)
            for kind, size in Workspace._parts(model, longest, gradients)
        ]
        self.scratch.work = &work[0]
        self.scratch.gradient_buffer = &buffer[0] if gradients else NULL
        self.scratch.score = &outputs[0]
        self.scratch.slope = &outputs[model.outputs]
        self.scratch.ids = &ids[0]
        self.scratch.gradients = <SparseGradient*>&gradient_structs[0]
        self.scratch.longest = longest
        self.model, self.generation = model, model.generation

    # Raise ValueError unless the workspace fits the model with its current layout, and the samples of the data.
    cdef fit(self, Model model, Dataset data):
        if self.model is not model or self.generation != model.generation:
            raise ValueError("the workspace was made for another model, or before its rows were laid out anew")
        if data.longest > self.scratch.longest or data.features > model.features:
            raise ValueError("the data have longer rows than the workspace, or more columns than the model")

    @staticmethod
    def bytes_needed(model, longest, gradients=True):
        """Return the bytes that a workspace needs."""
        return sum(kind.itemsize * size for kind, size in Workspace._parts(model, longest, gradients))

    @staticmethod
    def _parts(Model model, Py_ssize_t longest, bint gradients):
        """Return [(type, size), ...] of work, gradient buffer, scores and slopes, ids, and sparse gradients."""
        cdef int b
        rows = sum([model.most_rows(b, longest) * (model.block[b].lanes + 1) for b in range(model.n_blocks)])
        return [
            (REAL_TYPE, model.work_size(longest) if gradients else model.scoring_work_size(longest)),
            (REAL_TYPE, model.outputs * rows if gradients else 0),
            (np.dtype(np.float64), 2 * model.outputs),
            (np.dtype(np.int32), 1 + (model.ids_size(longest) if gradients else model.scoring_ids_size(longest))),
            (np.dtype(np.int8), 1 + model.outputs * model.n_blocks * sizeof(SparseGradient)),
        ]


# The workspace of one thread for samples of the data. Raises ValueError if the model has fewer columns than the data.
cdef Workspace workspace_for(Model model, Dataset data, bint gradients=True):
    cdef Workspace workspace = Workspace(model, data.longest, gradients)
    workspace.fit(model, data)
    return workspace
