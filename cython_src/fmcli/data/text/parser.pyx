"""Parses libsvm and ffm text into rows; parser.h has the grammar, and rows.h the storage."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free

from cython.view cimport array
from libcpp cimport bool as boolean
from libcpp.vector cimport vector

from collections import namedtuple

import numpy as np

from fmcli.data.dataset import Dataset
from fmcli.registry.options import MOST_HASH_BITS

from fmcli.data.dictionary cimport NO_COLUMN, Array, FeatureIds, Ids, named
from fmcli.data.text.lines cimport Entries, Lines, NumberedRows


cdef extern from "fmcli/data/text/parser.h" namespace "fmcli" nogil:
    const int PADDING_ "fmcli::PADDING"
    const size_t MOST_FAULTS_ "fmcli::MOST_FAULTS"

    cppclass Place "fmcli::Rows::Place":
        Place()

    enum class Space "fmcli::Space":
        INDEX
        GROWING
        KNOWN
        HASHED

    enum class Groups "fmcli::Groups":
        NONE
        QUERY
        FIELD

    struct Reading:
        bint ffm
        bint keep_fields
        bint training
        bint skip
        bint label_weights
        Groups groups
        uint64_t group_field
        bint label_names
        bint known_labels
        int id_column
        Space space
        int hash_bits
        bint refuse_unseen
        int64_t limit
        Ids* ids
        int32_t others

    cppclass TextRows "fmcli::Rows":
        TextRows(const Reading&) except +
        const Reading reading
        Array[int64_t] indptr
        Array[int32_t] index, field
        Array[float] value
        Array[double] label, weight
        Array[int64_t] group
        Ids label_names
        vector[int64_t] skipped
        int64_t comments, labeled, repeated, unseen, features, fields, lowest, beyond
        bint all_ones()
        bint grouped()
        bint by_id, refused
        bint has_room(const TextRows&)
        Place make_room(TextRows&) except +
        void fill(const Place&, const TextRows&)
        void clear()
        void reserve_for_growth(double) except +

    struct Span:
        const char* begin
        const char* end

    struct TextFault "fmcli::Fault":
        const char* complaint
        const char* subject
        const char* expected
        Span token, part
        const char* line
        int64_t number

    struct Found:
        int64_t lines, faulty
        vector[TextFault] faults

    Found parse_text(TextRows&, const char*, const char*) except +
    boolean append_numbered(TextRows&, const NumberedRows&) except +


PADDING = PADDING_
MOST_FAULTS = MOST_FAULTS_  # for `Rows.parse` to describe

# An error in a text: the number of lines before its line, its column, the bytes of its token, the token's expected
# form, the name and the bytes of the invalid part (empty for the whole token), the complaint, and the beginning of the
# line.
Fault = namedtuple("Fault", "number column token expected subject part complaint line", module=__name__)

cdef enum:
    LINE_SHOWN = 1024  # bytes of the line in a Fault

ctypedef fused number:
    int32_t
    int64_t
    float
    double


cdef numpy_array(number* data, size_t size, dtype):
    """Return an array that owns memory from malloc."""
    if size == 0:
        return np.empty(0, dtype)
    cdef array owner = <number[:size]> data
    owner.callback_free_data = free
    return np.asarray(owner)


cdef described(TextFault fault, const char* end):
    """Return the Fault of a fault in a text that ends at `end`."""
    return Fault(
        fault.number,
        fault.token.begin - fault.line + 1,
        fault.token.begin[:fault.token.end - fault.token.begin],
        fault.expected.decode(),
        fault.subject.decode(),
        fault.part.begin[:fault.part.end - fault.part.begin],
        fault.complaint.decode(),
        fault.line[:min(LINE_SHOWN, end - fault.line)].partition(b"\n")[0],
    )


cdef class Rows:
    """Collects rows from text.

    Parameters
    ----------
    ffm : whether entries are field:index:value rather than index:value.
    keep_fields : whether to store fields; otherwise the entries of a row are merged by index.
    training : if true, each row needs a label, and blank lines are ignored. Otherwise labels are optional, and a blank
        line is an empty row.
    skip : whether to skip lines with faults. Without `training`, an empty row takes the place of each.
    id_column : the position of the token that is an id in each line, and is skipped: 1, or 2 after the label; 0: none.
    label_weights : whether a label may be followed by a colon and the weight of the row. Each row then needs a label.
    grouped : whether rows have groups, by their query numbers. Needs `training`.
    group_field : groups are instead given by each row's one feature in this field.
    label_names : the first names, if labels are names: the label of a row is the position of its name, and new names
        are added. None: labels are numbers.
    known_labels : whether new names are faults instead, and numbers count as no label. Not in training.
    limit : 0 <= limit < 2**31. Without `ids`, `growing` and `hash_bits`, the column of a feature is its number, and
        entries of names and of numbers >= limit are dropped and counted.
    growing : whether a name or a number >= limit instead begins a dictionary of all ids; see `is_numbered`.
    ids : FeatureIds; the column of a feature is its id's, and entries of other ids are dropped and counted.
    others : the column of all other ids, instead of dropping them; None: they have none.
    hash_bits : the column of a feature is the last bits of the hash of its id; 0: ids are not hashed.
    refuse_unseen : whether entries that would be dropped are faults instead.
    """

    cdef TextRows* text
    cdef readonly FeatureIds ids

    def __cinit__(self, *, bint ffm, bint keep_fields, bint training, int64_t limit, bint skip=False, int id_column=0,
                  bint label_weights=False, label_names=None, bint known_labels=False, bint growing=False,
                  FeatureIds ids=None, int hash_bits=0, bint refuse_unseen=False, others=None, bint grouped=False,
                  group_field=None):
        cdef Reading reading
        cdef const char* name
        if not 0 <= limit < <int64_t>1 << 31:
            raise ValueError(f"the limit is {limit}")
        reading.ffm = ffm
        reading.keep_fields = ffm and keep_fields
        reading.training = training
        reading.skip = skip
        reading.id_column = id_column
        reading.label_weights = label_weights
        reading.groups = Groups.NONE if not grouped else Groups.QUERY if group_field is None else Groups.FIELD
        reading.group_field = group_field or 0
        if known_labels and training:
            raise ValueError("only rows to predict may have numbers in place of labels")
        if grouped and not training:
            raise ValueError("only rows of training have groups")
        reading.label_names = label_names is not None
        reading.known_labels = known_labels
        if not 0 <= hash_bits <= MOST_HASH_BITS or (ids is not None) + growing + (hash_bits > 0) > 1:
            raise ValueError("features are identified in one way, and hashes have 1 to 30 bits")
        reading.space = Space.GROWING if growing else Space.KNOWN if ids is not None else Space.INDEX
        if hash_bits:
            reading.space = Space.HASHED
        reading.hash_bits = hash_bits
        reading.refuse_unseen = refuse_unseen
        reading.limit = limit
        self.ids = FeatureIds() if growing else ids
        reading.others = NO_COLUMN if others is None else others
        reading.ids = NULL
        if self.ids is not None:
            reading.ids = &self.ids.ids
        self.text = new TextRows(reading)
        for label in label_names or ():
            name = label
            self.text.label_names.add(named(name, len(label)))

    def __dealloc__(self):
        del self.text

    def parse(self, text, Py_ssize_t start, Py_ssize_t stop):
        """Append the rows of text[start:stop]. They must end with a line break, followed by PADDING readable bytes.

        text : a buffer of bytes, or Lines, or Entries; all rows of Entries are appended.

        Returns the number of lines, the number of lines with faults, and a list of the first Faults. Without `skip`,
        parsing stops at the first fault, and then the rows must not be used. Runs without the GIL. Raises
        MemoryError.
        """
        self.require()
        cdef boolean done
        cdef int64_t first = self.text.label.size()
        if isinstance(text, Entries):
            with nogil:
                done = append_numbered(self.text[0], (<Entries> text).rows)
            if done:
                self.keep_skipped(first, (<Entries> text).skipped)
                return len(text), 0, []
            text = text.lines()
            start, stop = 0, len(text) - PADDING_
        cdef const unsigned char[::1] data = text
        if not 0 <= start <= stop <= data.shape[0] - PADDING_:
            raise ValueError("the text must lie within the data and leave PADDING bytes behind it")
        if start == stop:
            return 0, 0, []
        if data[stop - 1] != 10:
            raise ValueError("the text must end with a line break")
        cdef const char* begin = <const char*> &data[start]
        cdef Found found
        if isinstance(text, Lines):
            self.keep_skipped(first, (<Lines> text).skipped)
        with nogil:
            found = parse_text(self.text[0], begin, begin + (stop - start))
        return found.lines, found.faulty, [described(fault, begin + (stop - start)) for fault in found.faults]

    # Record which rows from `first` on stand for table rows with faults.
    cdef keep_skipped(self, int64_t first, const vector[int64_t]& skipped):
        cdef size_t i
        if not self.text.reading.training:
            for i in range(skipped.size()):
                self.text.skipped.push_back(first + skipped[i])

    # Raise ValueError if the rows were already handed over to a Dataset.
    cdef require(self):
        if self.text.indptr.size() == 0:
            raise ValueError("the rows were handed over")

    def has_room(self, Rows other):
        """Return whether `make_room` for these rows would leave the arrays in place."""
        self.require()
        other.require()
        return self.text.has_room(other.text[0])

    def make_room(self, Rows other):
        """Make room for the rows of another object with the same options, after the rows here. Returns a function that
        copies them there; it must be called.

        Several threads may copy at the same time, but not while `make_room` moves the arrays. Runs without the GIL.
        Raises MemoryError.
        """
        self.require()
        other.require()
        cdef Room room = Room()
        room.total, room.rows = self, other
        with nogil:
            room.place = self.text.make_room(other.text[0])
        return room

    def reserve_for_growth(self, double factor):
        """Reserve memory for `factor` times the current number of rows and entries. Raises MemoryError."""
        self.require()
        self.text.reserve_for_growth(factor)

    def clear(self):
        """Remove all rows. Keeps their memory, and some ids of a growing dictionary."""
        self.require()
        self.text.clear()

    @property
    def rows(self):
        return self.text.label.size()

    @property
    def nnz(self):
        return self.text.index.size()

    @property
    def nbytes(self):
        """The size of the rows in bytes."""
        text = self.text
        return (self.ids.nbytes if self.is_numbered else 0) + (
            8 * (text.indptr.size() + text.label.size() + text.weight.size() + text.group.size())
            + 4 * (text.index.size() + text.field.size() + text.value.size())
        )

    @property
    def refused(self):
        """Whether the last fault is an entry refused by `refuse_unseen`, which is never skipped."""
        return self.text.refused

    @property
    def is_numbered(self):
        """Whether there is a growing dictionary: then the columns of the rows are the columns of `ids`, and a row's
        entries may be in any order."""
        return self.text.by_id and self.text.reading.space == Space.GROWING

    @property
    def label_names(self):
        """The names of the labels, as bytes; empty if labels are numbers."""
        names = &self.text.label_names.names
        return [names.name(i).name[:names.name(i).length] for i in range(names.size())]

    @property
    def comments(self):
        """The number of comment lines."""
        return self.text.comments

    @property
    def labeled(self):
        """The number of rows with a label."""
        return self.text.labeled

    @property
    def repeated(self):
        """The number of rows that repeat an index (if fields are kept: a field and index)."""
        return self.text.repeated

    @property
    def unseen(self):
        """The number of entries dropped because of the limit, except entries of value 0."""
        return self.text.unseen

    @property
    def skipped(self):
        """int64 array: the rows that stand for skipped lines, without `training`."""
        return np.sort(np.array(self.text.skipped, dtype=np.int64))

    @property
    def features(self):
        """Largest index below the limit, plus 1, including entries of value 0."""
        return self.text.features

    @property
    def span(self):
        """The smallest and the largest index of nonzero entries, including dropped ones; None without entries."""
        text = self.text
        highest = max(text.beyond, text.features - 1)
        return None if highest < 0 else (min(text.lowest, highest), highest)

    @property
    def fields(self):
        """Largest field, plus 1; 0 for libsvm."""
        return self.text.fields

    def dataset(self, features):
        """Hand the rows over as a Dataset with this number of columns. Afterwards, this object must not be used.

        The Dataset has no values if they are all 1, and no labels if no row has one. Weights are the labels' weights.
        Groups are the numbers in the text, or hashes of names.
        """
        self.require()
        text = self.text
        cdef size_t rows = text.label.size(), nnz = text.index.size(), fields = text.field.size()
        value = label = field = weight = group = None
        if not text.all_ones():
            value = numpy_array(text.value.release(), nnz, np.float32)
        if text.labeled:
            label = numpy_array(text.label.release(), rows, np.float64)
        if text.reading.label_weights:
            weight = numpy_array(text.weight.release(), rows, np.float64)
        if text.grouped():
            group = numpy_array(text.group.release(), rows, np.int64)
        if text.reading.keep_fields:
            field = numpy_array(text.field.release(), fields, np.int32)
        indptr = numpy_array(text.indptr.release(), rows + 1, np.int64)
        index = numpy_array(text.index.release(), nnz, np.int32)
        known = text.by_id or text.features <= features
        return Dataset(indptr, index, value, label, features, field, weight, group=group, trusted=known)


cdef class Room:
    """The room for some rows among others. Calling it copies the rows there, without the GIL."""

    cdef readonly Rows rows
    cdef Rows total
    cdef Place place

    def __call__(self):
        with nogil:
            self.total.text.fill(self.place, self.rows.text[0])
