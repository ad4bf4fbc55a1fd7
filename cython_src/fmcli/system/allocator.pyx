"""The allocator of the C library."""

cdef extern from *:
    """
    #include <cstdlib>
    #ifdef __GLIBC__
    #include <malloc.h>
    #endif

    static void keep_freed(int mapped, int kept) {
    #ifdef __GLIBC__
        mallopt(M_MMAP_THRESHOLD, mapped);
        mallopt(M_TRIM_THRESHOLD, kept);
    #else
        (void)mapped, (void)kept;
    #endif
    }

    static void return_freed() {
    #ifdef __GLIBC__
        malloc_trim(0);
    #endif
    }
    """
    void keep_freed(int mapped, int kept) nogil
    void return_freed() nogil

cdef enum:
    # Arrays of at least this size are mapped one by one, and returned to the system when they are freed.
    MAPPED = 32 << 20
    # This much freed memory of smaller arrays is kept.
    KEPT = 64 << 20


def keep_freed_memory():
    """Keep freed memory for the next buffer of text from now on. Otherwise, each buffer's rows and text are returned to
    the system, which must clear the same pages again for the next buffer. Only glibc can do this."""
    keep_freed(MAPPED, KEPT)


def return_freed_memory():
    """Return memory that was freed but kept to the system, in some milliseconds. Only glibc can do this."""
    with nogil:
        return_freed()
