from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    NOT_THERE = -1


cdef class Numbering:
    cdef readonly object ids
    cdef readonly int64_t dimension
    cdef uint64_t[::1] bits
    cdef int32_t[::1] before

    # The column of a feature, which must not be negative; NOT_THERE if it has none.
    cdef inline int32_t column(self, int64_t feature) noexcept nogil:
        cdef uint64_t word
        if feature >= self.dimension:
            return NOT_THERE
        word = self.bits[feature >> 6]
        if not word >> (feature & 63) & 1:
            return NOT_THERE
        return self.before[feature >> 6] + ones(word & ((<uint64_t>1 << (feature & 63)) - 1))


# The number of set bits. There is no instruction for it that all supported processors have.
cdef inline int32_t ones(uint64_t word) noexcept nogil:
    word -= word >> 1 & <uint64_t>0x5555555555555555
    word = (word & <uint64_t>0x3333333333333333) + (word >> 2 & <uint64_t>0x3333333333333333)
    word = word + (word >> 4) & <uint64_t>0x0F0F0F0F0F0F0F0F
    return <int32_t>(word * <uint64_t>0x0101010101010101 >> 56)
