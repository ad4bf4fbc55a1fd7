"""Signals that end the process, and the temporary files that must not outlive it.

Python delays its own handlers until the interpreter can run them, at an arbitrary point of the program. An exception
raised there is lost in a destructor or while the interpreter shuts down, and causes a traceback during an import.
So the handler is compiled: it needs neither the interpreter nor a lock, removes the files, and then lets the signal
have its default effect.

A run with a checkpoint writes it first. It defers the first SIGINT or SIGTERM, asks for it between two pieces of work,
and then ends by it; a second signal ends the process at once.
"""

import os

from libc.signal cimport SIGINT, SIGTERM


cdef extern from "<csignal>" nogil:
    const int SIGBUS, SIGHUP, SIGQUIT, SIGXCPU

cdef extern from "fmcli/system/interrupt.h" namespace "fmcli" nogil:
    cppclass Entry "fmcli::Temporary":
        pass

    void end_by "fmcli::end_by"(int number)
    void end_by "fmcli::end_by"(int number, void (*handler)(int))
    void end_process "fmcli::end_process"(int number)
    void end_process_or_defer "fmcli::end_process_or_defer"(int number)
    void set_deferring "fmcli::deferring.store"(bint on)
    int first_deferred "fmcli::deferred.load"()
    void end_by_lost_page "fmcli::end_by_lost_page"(int number)
    Entry* remember(const char* path, int descriptor) except +
    void forget "fmcli::forget"(Entry* entry)


def end_by_signals():
    """From now on, signals that end the process first remove the temporary files. Ignored signals stay ignored.

    If a page of a mapped file cannot be read (SIGBUS), the process ends with the exit status of an I/O error.
    """
    for number in (SIGINT, SIGTERM):
        end_by(number, end_process_or_defer)
    for number in (SIGHUP, SIGQUIT, SIGXCPU):
        end_by(number)
    end_by(SIGBUS, end_by_lost_page)


cdef class Deferred:
    """In a `with` block, the first SIGINT or SIGTERM waits for `end`. If it still waits at the end of the block, it
    ends the process there, so no signal is lost."""

    def __enter__(self):
        set_deferring(True)
        return self

    def __exit__(self, *error):
        set_deferring(False)
        self.end()

    @property
    def signal(self):
        """The number of the waiting signal; 0: none."""
        return first_deferred()

    def end(self):
        """End the process by the waiting signal, if there is one."""
        if first_deferred():
            end_process(first_deferred())


cdef class Temporary:
    """A file that a signal removes during the `with` block. The file need not exist.

    Parameters
    ----------
    path : absolute path.
    descriptor : an open descriptor of the file, so another file that replaces it stays; -1: there is none yet.
    """

    cdef bytes path
    cdef int descriptor
    cdef Entry* entry

    def __init__(self, path, int descriptor=-1):
        self.path, self.descriptor = os.fsencode(path), descriptor

    def __enter__(self):
        self.entry = remember(self.path, self.descriptor)

    def __exit__(self, *error):
        forget(self.entry)
