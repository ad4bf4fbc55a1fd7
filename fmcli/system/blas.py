"""The threads of numpy's linear algebra."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# The variables that set the number of threads of BLAS and LAPACK libraries used by numpy and scipy.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


def pin_blas() -> None:
    """Limit BLAS and LAPACK to one thread in this process, regardless of the machine and the environment: the order of
    summation, and so the last bits of a model, depend on the number of threads.

    Call this before numpy is imported: the libraries read the variables when they are loaded.
    """
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS and LAPACK to one thread in this context, where numpy has already been imported. Does nothing without
    the package threadpoolctl, which scikit-learn installs."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield
