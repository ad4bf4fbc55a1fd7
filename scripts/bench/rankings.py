"""Write metrics of rankings by ranx and ir-measures, for rows without equal scores, to rankings.json beside it.

pip install ranx ir-measures
python scripts/bench/rankings.py

tests/test_ranking.py compares those of fmcli with them. The labels are small, because the programs have other gains:
2^label - 1 is the label for 0 and 1.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
USERS, ITEMS = 15, 24
# The names here -> those of ranx and of ir-measures.
RANX = {
    "recall@5": "recall@5",
    "precision@5": "precision@5",
    "hit@5": "hit_rate@5",
    "mrr": "mrr",
    "mrr@3": "mrr@3",
    "map": "map",
    "ndcg": "ndcg",
    "ndcg@5": "ndcg@5",
}
IR_MEASURES = {
    "recall@5": "R@5",
    "precision@5": "P@5",
    "hit@5": "Success@5",
    "mrr": "RR",
    "mrr@3": "RR@3",
    "map": "AP",
    "ndcg": "nDCG",
    "ndcg@5": "nDCG@5",
}


def rows() -> list[tuple[int, int, int, float]]:
    """Return (user, item, label, score) of some rows; every user has a relevant one."""
    rng = np.random.default_rng(35)
    found = []
    for user in range(USERS):
        items = rng.permutation(ITEMS)[: rng.integers(6, ITEMS + 1)]
        label = rng.random(len(items)) < rng.uniform(0.1, 0.5)
        label[rng.integers(len(items))] = True
        score = rng.permutation(len(items)) + rng.random()
        found += [(user, int(i), int(y), round(float(s), 3)) for i, y, s in zip(items, label, score, strict=True)]
    return found


def by_ranx(found: list[tuple[int, int, int, float]]) -> dict[str, float]:
    """Return the metrics of ranx."""
    from ranx import Qrels, Run, evaluate

    judged, scored = {}, {}
    for user, item, label, score in found:
        scored.setdefault(str(user), {})[str(item)] = score
        if label:
            judged.setdefault(str(user), {})[str(item)] = label
    values = evaluate(Qrels(judged), Run(scored), list(RANX.values()))
    return {name: float(values[theirs]) for name, theirs in RANX.items()}


def by_ir_measures(found: list[tuple[int, int, int, float]]) -> dict[str, float]:
    """Return the metrics of ir-measures."""
    import ir_measures

    judged = [ir_measures.Qrel(str(user), str(item), label) for user, item, label, _ in found]
    scored = [ir_measures.ScoredDoc(str(user), str(item), score) for user, item, _, score in found]
    measures = {name: ir_measures.parse_measure(theirs) for name, theirs in IR_MEASURES.items()}
    values = ir_measures.calc_aggregate(measures.values(), judged, scored)
    return {name: float(values[measure]) for name, measure in measures.items()}


def main() -> None:
    """Compute the metrics, and write them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = rows()
    figures = {
        "versions": {name: version(name) for name in ("ranx", "ir-measures")},
        "rows": found,
        "ranx": by_ranx(found),
        "ir-measures": by_ir_measures(found),
    }
    (HERE / "rankings.json").write_text(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
