"""Passes over all numbers of an array, such as parameters interleaved with solver state."""

import numpy as np

from libc.stdint cimport int32_t

cdef enum:
    AXES = 3  # axes of a compiled loop

ctypedef fused floating:
    float
    double


def all_finite(array):
    """Return whether all numbers of an array (float32 or float64) are finite."""
    cdef bint finite = True
    for view in views_of(array):
        finite = finite and (finite_in[float](view) if view.itemsize == sizeof(float) else finite_in[double](view))
    return finite


def zeros(array):
    """Return the number of zeros in an array (float32 or float64)."""
    cdef Py_ssize_t total = 0
    for view in views_of(array):
        total += zeros_in[float](view) if view.itemsize == sizeof(float) else zeros_in[double](view)
    return total


def most_frequent(const int32_t[::1] times, Py_ssize_t count):
    """Return int32 (n): the positions of the largest positive values, at most `count`, in decreasing order of the
    value. Equal values are in the order of their positions."""
    places_ = np.zeros(max(count, 0), dtype=np.int32)
    cdef int32_t[::1] places = places_
    cdef Py_ssize_t at, n = 0
    cdef int32_t j
    with nogil:
        # Insert into the sorted list of the largest values so far: most values do not exceed its last value.
        for j in range(<int32_t>times.shape[0]):
            if times[j] <= 0 or (n == places.shape[0] and (n == 0 or times[j] <= times[places[n - 1]])):
                continue
            at = n if n < places.shape[0] else n - 1
            n = at + 1
            while at and times[places[at - 1]] < times[j]:
                places[at] = places[at - 1]
                at -= 1
            places[at] = j
    return places_[:n]


def views_of(array):
    """Return views of an array with AXES axes each, in memory order; the shortest axes become single positions."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    array = array.transpose(order)
    array = array.reshape((1,) * (AXES - array.ndim) + array.shape)
    if array.ndim == AXES:
        return [array]
    shortest = array.shape.index(min(array.shape))
    return [view for one in np.moveaxis(array, shortest, 0) for view in views_of(one)]


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
