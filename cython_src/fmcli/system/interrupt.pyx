"""Signals that end the process, and the temporary files that must not outlive it.

Python runs its own handlers when the interpreter gets round to them, wherever it is by then. An exception that is
raised there is lost in a destructor or while the interpreter ends, and is a traceback in the midst of an import. So the
handler is compiled: it needs no interpreter and no lock, removes the files, and lets the signal do what it always does.
"""

import os

from libc.signal cimport SIGINT, SIGTERM


cdef extern from "<csignal>" nogil:
    const int SIGHUP, SIGQUIT, SIGXCPU

cdef extern from "fmcli/system/interrupt.h" namespace "fmcli" nogil:
    cppclass Entry "fmcli::Temporary":
        pass

    void end_by "fmcli::end_by"(int number)
    Entry* remember(const char* path) except +
    void forget "fmcli::forget"(Entry* entry)


def end_by_signals():
    """From now on let what asks a process to end remove the temporary files and end it, unless the process ignores it.
    """
    for number in (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU):
        end_by(number)


cdef class Temporary:
    """A file that a signal will remove, as long as the `with` block lasts; it need not exist.

    Parameters
    ----------
    path : absolute path.
    """

    cdef bytes path
    cdef Entry* entry

    def __init__(self, path):
        self.path = os.fsencode(path)

    def __enter__(self):
        self.entry = remember(self.path)

    def __exit__(self, *error):
        forget(self.entry)
