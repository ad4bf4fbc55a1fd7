"""Passes over all numbers of an array of any strides, such as the parameters among their solver state."""

import numpy as np

cdef enum:
    AXES = 3  # of a compiled loop

ctypedef fused floating:
    float
    double


def all_finite(array):
    """Whether all numbers of an array (float32 or float64) are finite."""
    cdef bint finite = True
    for part in in_parts(array):
        finite = finite and (finite_in[float](part) if part.itemsize == sizeof(float) else finite_in[double](part))
    return finite


def zeros(array):
    """The number of zeros in an array (float32 or float64)."""
    cdef Py_ssize_t total = 0
    for part in in_parts(array):
        total += zeros_in[float](part) if part.itemsize == sizeof(float) else zeros_in[double](part)
    return total


def in_parts(array):
    """Parts of an array with AXES axes each, in memory order; axes beyond that are the shortest ones."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    array = array.transpose(order)
    array = array.reshape((1,) * (AXES - array.ndim) + array.shape)
    if array.ndim == AXES:
        return [array]
    shortest = array.shape.index(min(array.shape))
    return [part for one in np.moveaxis(array, shortest, 0) for part in in_parts(one)]


cdef bint finite_in(const floating[:, :, :] numbers) noexcept:
    cdef Py_ssize_t i, j, k
    cdef floating x
    cdef int wrong = 0
    with nogil:
        for i in range(numbers.shape[0]):
            for j in range(numbers.shape[1]):
                for k in range(numbers.shape[2]):
                    x = numbers[i, j, k]
                    wrong |= not x - x == 0
    return not wrong


cdef Py_ssize_t zeros_in(const floating[:, :, :] numbers) noexcept:
    cdef Py_ssize_t i, j, k, total = 0
    with nogil:
        for i in range(numbers.shape[0]):
            for j in range(numbers.shape[1]):
                for k in range(numbers.shape[2]):
                    total += numbers[i, j, k] == 0
    return total
