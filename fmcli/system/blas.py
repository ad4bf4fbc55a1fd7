"""The threads of numpy's linear algebra."""

import os

# The variables that set the number of threads of the BLAS and LAPACK libraries that numpy and scipy may use.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


def pin_blas() -> None:
    """Limit BLAS and LAPACK to one thread in this process, regardless of the machine and the environment: their order
    of summation, and so the last bits of a model, depend on the number of threads.

    Must be called before numpy is imported, because the libraries read the variables when they are loaded.
    """
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
