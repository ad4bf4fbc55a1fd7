"""Rows that were made in memory: as text, or as numbers of their entries; numbered.h has these."""

from cpython.buffer cimport PyBuffer_FillInfo


cdef class Lines:
    """Lines of features, with PADDING bytes behind them: bytes that cannot be changed. Their memory is used again.

    Some lines may be empty because the rows for which they stand have been skipped.
    """

    def __len__(self):
        return self.text.size()

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.text.data(), self.text.size(), 1, flags)

    def __getitem__(self, part):
        return memoryview(self)[part].tobytes()


cdef class Entries:
    """Rows as numbers of their entries. Their memory is used again.

    lines : a function that returns the same rows as Lines.
    """

    def __len__(self):
        return self.rows.size()
