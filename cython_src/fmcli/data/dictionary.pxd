from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector


cdef extern from "fmcli/data/arrays.h" namespace "fmcli" nogil:
    cppclass Array[T]:
        size_t size()
        T* data()
        T* release()
        void reserve(size_t) except +
        void resize(size_t)


cdef extern from "fmcli/data/ids.h" namespace "fmcli" nogil:
    cppclass Id:
        uint64_t key
        const char* name
        size_t length

    const int32_t NO_COLUMN

    Id named(const char*, size_t)
    bint before(const Id&, const Id&)
    int32_t hashed_column(const Id&, int)

    cppclass NameText "fmcli::Names::Text":
        const char* begin
        size_t length

    cppclass Names:
        size_t size()
        size_t text_bytes()
        Id name(size_t)
        NameText text_at(size_t)
        int32_t column_at(size_t)
        void prefetch_at(size_t)
        vector[uint32_t] in_order() except +

    cppclass Ids:
        Array[int64_t] numbers
        Array[int32_t] number_columns
        Names names
        size_t size()
        size_t bytes()
        int32_t find(const Id&)
        int32_t add(const Id&) except +
        vector[int32_t] add_all(const Ids&) except +


cdef class FeatureIds:
    cdef Ids ids


cdef class Dictionary:
    cdef readonly object numbers, text, ends
    cdef readonly bint with_shared
    cdef FeatureIds found

    cdef add_names(self, FeatureIds made)
