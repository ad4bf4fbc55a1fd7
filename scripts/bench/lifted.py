"""Cost of the lifted models and of polynomial networks: score and gradient of a row, against a plain double loop.

    python scripts/bench/lifted.py [--order 2 3 4] [--rank 8 32] [--nonzeros 20] [--runs 5]

The plain loop is models.md's definition as one would first write it in C, factor by factor in doubles: it is compiled
by the compiler in CXX (g++), and runs in this process beside the model. Of all runs the fastest counts. The unit is
ns a non-zero, factor and vector: nz k m, so that a cost that grows faster than m shows.
"""
