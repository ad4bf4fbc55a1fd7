"""The scores of a model, and the mean loss of scores."""

from fmcli.base.types cimport Sample, Scratch
from fmcli.data.dataset cimport Dataset
from fmcli.losses.loss cimport Loss
from fmcli.models.model cimport Model, Workspace

# Number of samples between prefetching parameter rows and using them.
cdef Py_ssize_t AHEAD = 2


def scores(Model model, Dataset data, Workspace workspace, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out):
    """out (rows, C) [start:stop] <- the scores of these rows. The workspace must be large enough for the longest row.

    The data must not have columns that the model does not have.
    """
    if not 0 <= start <= stop <= data.rows or out.shape[0] < stop or out.shape[1] < model.outputs:
        raise ValueError("the rows to score do not fit the data or the array for their scores")
    workspace.fit(model, data)
    cdef Sample x
    cdef Py_ssize_t i
    cdef int c
    cdef Scratch* s = &workspace.scratch
    with nogil:
        for i in range(start, stop):
            if i + AHEAD < stop:
                data.sample(i + AHEAD, &x)
                model.prefetch(&x)
            data.sample(i, &x)
            model.score(&x, s)
            for c in range(model.outputs):
                out[i, c] = s.score[c]


def mean_loss(Loss loss, const double[::1] label, const double[:, ::1] score, weight=None):
    """The weighted mean of l(label[i], score[i])."""
    cdef const double[::1] weights = weight
    cdef double total = 0, sum_of_weights = 0, w
    cdef Py_ssize_t i
    loss.check(label, <int>score.shape[1])
    if score.shape[0] < label.shape[0] or (weight is not None and weights.shape[0] < label.shape[0]):
        raise ValueError("there are fewer scores or weights than labels")
    for i in range(label.shape[0]):
        w = 1 if weight is None else weights[i]
        total += w * loss.value(label[i], &score[i, 0])
        sum_of_weights += w
    return total / sum_of_weights
