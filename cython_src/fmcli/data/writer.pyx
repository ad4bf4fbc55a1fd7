"""Formats numbers as text: the shortest decimal that reads back as the same number of the build's real type."""

from libc.math cimport NAN
from libc.stdlib cimport free, malloc

from fmcli.base.types cimport real


cdef extern from *:
    """
    #include <limits>
    #include "fmcli/base/types.h"

    // The longest number is -d.ddde-ddd with max_digits10 digits. The other 8 characters are the sign, the point, the
    // e, the sign and at most three digits of the exponent, and the separator after the number.
    constexpr ptrdiff_t LONGEST = std::numeric_limits<real>::max_digits10 + 8;
    """
    const Py_ssize_t LONGEST

cdef extern from "fmcli/data/shortest.h" namespace "fmcli" nogil:
    const Py_ssize_t WIDEST
    char* write_number(char* out, real value)

REAL = "float" if sizeof(real) == sizeof(float) else "double"


def format_values(const double[::1] values):
    return text(&values[0] if values.shape[0] else NULL, values.shape[0], 1)


def format_table(const double[:, ::1] values):
    return text(&values[0, 0] if values.size else NULL, values.shape[0], values.shape[1])


cdef bytes text(const double* values, Py_ssize_t rows, Py_ssize_t columns):
    if rows * columns == 0:
        return b""
    cdef char* buffer = <char*> malloc(rows * columns * LONGEST + WIDEST)
    if buffer == NULL:
        raise MemoryError()
    cdef char* end
    try:
        with nogil:
            end = write(buffer, values, rows, columns)
        return buffer[:end - buffer]
    finally:
        free(buffer)


cdef char* write(char* out, const double* values, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
    cdef const double* end = values + rows * columns
    cdef Py_ssize_t column
    cdef real value
    while values < end:
        for column in range(columns):
            # Adding 0 turns -0 into 0. This comes after rounding, which can turn tiny numbers into -0.
            value = <real> values[column]
            value = value + 0
            if value != value:
                value = NAN  # always with the same sign: the sign of 0/0 depends on the processor
            out = write_number(out, value)
            out[0] = b" " if column + 1 < columns else b"\n"
            out += 1
        values += columns
    return out
