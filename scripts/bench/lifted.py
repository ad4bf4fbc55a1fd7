"""Cost of the lifted kernels for orders 2 to 5 and ranks 8 and 32, beside the definition in plain doubles.

    python scripts/bench/lifted.py [--nonzeros 20] [--runs 200]

Compiles lifted.cc with the core's own kernels and flags (the compiler is $CXX, or g++) and runs it. The unit is ns a
non-zero, factor and vector: nz k m. `score` is the score alone, `+grad.` score and gradient, `plain` both of the plain
definition, `ratio` that over ours, and `lifted-pn` score and gradient of that model. The fastest run counts, for
other work on a machine only ever slows.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fmcli.kernels.simd import ISA, REAL

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from build_ext import FLAGS  # noqa: E402

CORE = HERE.parent.parent / "cython_src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nonzeros", type=int, default=20)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "lifted")
        sources = [HERE / "lifted.cc", *sorted(CORE.glob("fmcli/kernels/*.cpp"))]
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, *FLAGS, f"-DFMCLI_REAL={REAL}", f"-I{CORE}", *sources, "-o", program], check=True)
        subprocess.run([program, ISA, str(given.nonzeros), str(given.runs)], check=True)


if __name__ == "__main__":
    main()
