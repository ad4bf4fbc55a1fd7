"""Rows made in memory: as text, or as numbers of their entries (numbered.h)."""

from cpython.buffer cimport PyBuffer_FillInfo


cdef class Lines:
    """Lines of features, followed by PADDING bytes. The bytes are read-only, and their memory is reused.

    Some lines may be empty: they stand for skipped rows.
    """

    def __len__(self):
        return self.text.size()

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.text.data(), self.text.size(), 1, flags)

    def __getitem__(self, part):
        return memoryview(self)[part].tobytes()


cdef class Entries:
    """Rows as numbers of their entries. Their memory is reused.

    lines : a function that returns the same rows as Lines.
    """

    def __len__(self):
        return self.rows.size()
