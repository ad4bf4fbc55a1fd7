"""Tables of other programs as text, through Arrow's C stream interface: lines of CSV with a header."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp cimport bool as boolean
from libcpp.string cimport string


cdef extern from "fmcli/data/arrow.h" nogil:
    struct ArrowSchema:
        const char* format
        const char* name
        int64_t n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept nogil

    struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray*) noexcept nogil

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil

cdef extern from "fmcli/data/arrow.h" namespace "fmcli" nogil:
    enum class Cell:
        OTHER

    cppclass ArrowType:
        Cell cell

    ArrowType arrow_type(const ArrowSchema& schema)
    boolean is_text(const ArrowType&)
    boolean is_number(const ArrowType&)
    boolean is_name(const ArrowType&)
    boolean is_vector(const ArrowType&)

    cppclass ArrowText:
        string text
        string fault
        int64_t column
        void add_column(const ArrowSchema& schema, boolean read)
        void set_separator(const string& separator)
        void write_text(const string& cell)
        boolean begin(const ArrowArray& batch) except +
        boolean write(const ArrowArray& batch, size_t limit, int64_t& rows) except +
        boolean ended(const ArrowArray& batch)

cdef const char* CAPSULE = "arrow_array_stream"
# Text is written until there are about this many bytes.
cdef size_t BUFFER_BYTES = 1 << 20


class ArrowError(Exception):
    """A stream that cannot be read.

    column : the name of the column at fault; None: no column is.
    row : the number of the row, from 1.
    """

    def __init__(self, text, column=None, row=0):
        super().__init__(text)
        self.column, self.row = column, row


cdef class ArrowStream:
    cdef ArrowArrayStream stream
    cdef ArrowSchema schema
    cdef ArrowArray batch
    cdef ArrowText lines
    cdef size_t taken  # bytes of the text already taken
    cdef object source  # the object behind the stream
    cdef bytes separator
    cdef list read_  # whether each column is read
    cdef boolean begun, ended
    cdef int64_t rows_

    def __init__(self, source, *, separator=b"|"):
        capsule = source.__arrow_c_stream__()
        cdef ArrowArrayStream* given = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, CAPSULE)
        if given.release == NULL:
            raise ArrowError("the stream has been read before")
        self.source, self.separator = source, separator
        self.stream = given[0]
        given.release = NULL
        cdef int status
        with nogil:
            status = self.stream.get_schema(&self.stream, &self.schema)
        self.require(status)
        if self.schema.format == NULL or self.schema.format != b"+s":
            raise ArrowError("the stream is not one of a table")

    def __dealloc__(self):
        if self.batch.release != NULL:
            self.batch.release(&self.batch)
        if self.schema.release != NULL:
            self.schema.release(&self.schema)
        if self.stream.release != NULL:
            self.stream.release(&self.stream)

    @property
    def columns(self):
        return [self.column(at) for at in range(self.schema.n_children)]

    @property
    def texts(self):
        cdef Py_ssize_t at
        places = [at for at in range(self.schema.n_children) if is_text(arrow_type(self.schema.children[at][0]))]
        return frozenset([self.column(at)[0] for at in places])

    @property
    def types(self):
        cdef ArrowType type
        found = {}
        for at in range(self.schema.n_children):
            type = arrow_type(self.schema.children[at][0])
            if is_number(type) or is_name(type):
                found[self.column(at)[0]] = is_number(type)
        return found

    @property
    def vectors(self):
        cdef Py_ssize_t at
        places = [at for at in range(self.schema.n_children) if is_vector(arrow_type(self.schema.children[at][0]))]
        return frozenset([self.column(at)[0] for at in places])

    @property
    def rows(self):
        return self.rows_

    def choose(self, names):
        if self.begun:
            raise ValueError("the stream has been read")
        cdef Py_ssize_t at
        header, chosen = [], frozenset(names)
        for at in range(self.schema.n_children):
            name, _, readable = self.column(at)
            self.lines.add_column(self.schema.children[at][0], readable and name in chosen)
            if name in chosen:
                header.append(name)
                if not readable:
                    raise ValueError(f"the column {name!r} cannot be read")
        self.lines.set_separator(self.separator)
        for at, name in enumerate(header):
            if at:
                self.lines.text.push_back(b","[0])
            self.lines.write_text(<bytes> name.encode("utf-8", "surrogateescape"))
        self.lines.text.push_back(b"\n"[0])
        self.begun = True

    def readinto(self, room):
        if not self.begun:
            raise ValueError("no columns have been chosen")
        cdef unsigned char[::1] out = room
        cdef size_t size = out.shape[0]
        if not size:
            return 0
        while self.taken == self.lines.text.size():
            self.lines.text.clear()
            self.taken = 0
            if not self.fill():
                return 0
        cdef size_t count = min(size, self.lines.text.size() - self.taken)
        memcpy(&out[0], self.lines.text.data() + self.taken, count)
        self.taken += count
        return count

    cdef column(self, Py_ssize_t at):
        cdef ArrowSchema* found = self.schema.children[at]
        name = b"" if found.name == NULL else <bytes> found.name
        format = b"" if found.format == NULL else <bytes> found.format
        readable = arrow_type(found[0]).cell != Cell.OTHER
        return name.decode("utf-8", "surrogateescape"), format.decode("latin-1"), readable

    # Write more text. Return whether there may be more.
    cdef boolean fill(self) except? False:
        cdef int status = 0
        cdef boolean fine = True
        if self.ended:
            return False
        with nogil:
            if self.batch.release == NULL:
                status = self.stream.get_next(&self.stream, &self.batch)
                if status == 0 and self.batch.release != NULL:
                    fine = self.lines.begin(self.batch)
            if status == 0 and fine and self.batch.release != NULL:
                fine = self.lines.write(self.batch, BUFFER_BYTES, self.rows_)
                if fine and self.lines.ended(self.batch):
                    self.batch.release(&self.batch)
                    self.batch.release = NULL
            elif status == 0 and fine:
                self.ended = True
        self.require(status)
        if not fine:
            column = None if self.lines.column < 0 else self.column(self.lines.column)[0]
            raise ArrowError((<bytes> self.lines.fault).decode(), column, self.rows_ + 1)
        return not self.ended

    # Raise the producer's error, if there is one.
    cdef require(self, int status):
        cdef const char* why
        if status:
            why = self.stream.get_last_error(&self.stream)
            raise ArrowError("the stream ended" if why == NULL else (<bytes> why).decode("utf-8", "replace"))
