"""The time of the lifted kernels for orders 2 to 5 and ranks 8 and 32, compared with a plain implementation in double.

    python scripts/bench/lifted.py [--nonzeros 20] [--runs 200]

Compiles lifted.cc with the kernels and flags of fmcli (the compiler is $CXX, or g++) and runs it. The unit is ns per
non-zero, factor and vector (nz k m). `score` is the score only, `+grad.` score and gradient, `plain` both in the plain
implementation, `ratio` the ratio of `plain` to `+grad.`, and `lifted-pn` score and gradient of that model. The fastest
run counts, because other processes can only make a run slower.
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
