"""Whether Gibbs sampling draws from the distribution that it should, with many random starts for each kind.

    python scripts/bench/gibbs.py [--starts 20000] [--seed 0] [KIND ...]

A start draws parameters and labels from their joint distribution. Some sweeps must not change the mean of any bounded
statistic of these (tests/reference/joint.py); tests/test_gibbs.py does this with few starts. The script prints the
largest z-scores for each kind, and whether all are as small as they are by chance.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests"))

CHANCE = 1e-3  # that any z-score of a correct sampler is larger than the limit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="default: all that can be sampled")
    parser.add_argument("--starts", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from test_gibbs import CASES, few_rows, make

    from fmcli.solvers.gibbs.sampler import GibbsSampler
    from reference.joint import differences, z_scores

    cases = [(name, options) for name, options in CASES if not arguments.kinds or name in arguments.kinds]
    found = []
    for name, options in cases:
        begin, data = time.perf_counter(), few_rows(name, **options)
        starts = differences(
            partial(make, name, data), data, GibbsSampler, arguments.starts, seed=arguments.seed, **options
        )
        scores = z_scores(list(starts))
        found += [abs(score) for score in scores.values()]
        largest = sorted(scores, key=lambda statistic: -abs(scores[statistic]))[:3]
        shown = ", ".join(f"{statistic} {scores[statistic]:.2f}" for statistic in largest)
        print(f"{name:14}{' '.join(options):8}{time.perf_counter() - begin:6.1f} s  {shown}", flush=True)
    limit = float(norm.isf(CHANCE / 2 / len(found)))
    print(f"{len(found)} statistics, the largest |z| is {max(found):.2f}, the limit {limit:.2f}")
    print("PASS" if max(found) < limit else "FAIL")
    return int(np.max(found) >= limit)


if __name__ == "__main__":
    sys.exit(main())
