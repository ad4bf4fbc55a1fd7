"""Small models of libFM, libffm and xLearn, as these programs write them, and slow definitions of their scores.

An entry of a row is (index, value), or (field, index, value).
"""

from __future__ import annotations

import math
import struct
from itertools import combinations

BIAS = 0.25
W = [0.5, -1.25, 0.0, 2.0]
V = [[0.5, -0.25, 1.0], [1.5, 0.125, -0.5], [0.0, 2.0, 0.75], [-0.625, 1e-3, -2e-5]]
# Of an FFM: (features, fields, k).
F = [
    [[0.5, -0.25, 0.75], [0.125, 0.0625, -0.5]],
    [[0.1, 0.2, 0.3], [-0.4, 0.5, -0.6]],
    [[0.7, -0.8, 0.9], [0.25, 0.375, 0.4375]],
]
# Of the FFM with as many factors as blocks of libffm have with SSE.
F4 = [[[*factors, 0.3125] for factors in fields] for fields in F]


def text_of(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


def libfm(bias=BIAS, w=W, V=V):
    head = [] if bias is None else ["#global bias W0", f"{bias:g}"]
    weights = [] if w is None else ["#unary interactions Wj", *(f"{number:g}" for number in w)]
    return text_of(
        *head, *weights, "#pairwise interactions Vj,f", *(" ".join(f"{number:g}" for number in row) for row in V)
    )


def libffm_text(V=F, norm=True):
    sizes = [f"n {len(V)}", f"m {len(V[0])}", f"k {len(V[0][0])}", f"normalization {int(norm)}"]
    rows = [
        f"w{j},{f} " + "".join(f"{number:g} " for number in factors)
        for j, fields in enumerate(V)
        for f, factors in enumerate(fields)
    ]
    return text_of(*sizes, *rows)


def libffm(V=F, norm=True, block=4, square=1.5):
    """The binary file. square : the sum of squared gradients of each parameter, except padding."""
    k = len(V[0][0])
    file = struct.pack("<iii?", len(V), len(V[0]), k, norm)
    for fields in V:
        for factors in fields:
            for start in range(0, k, block):
                part = factors[start : start + block]
                empty = block - len(part)
                file += struct.pack(f"<{2 * block}f", *part, *[0.0] * empty, *[square] * len(part), *[1.0] * empty)
    return file


def xlearn(bias=BIAS, w=W, V=None):
    lines = [f"bias: {bias:g}", *(f"i_{j}: {number:g}" for j, number in enumerate(w))]
    for j, of_feature in enumerate(V or ()):
        if isinstance(of_feature[0], list):
            lines += [f"v_{j}_{f}: " + " ".join(f"{x:g}" for x in factors) for f, factors in enumerate(of_feature)]
        else:
            lines.append(f"v_{j}: " + " ".join(f"{x:g}" for x in of_feature))
    return text_of(*lines)


def score_fm(row, bias=BIAS, w=W, V=V):
    """The score of libFM, and of xLearn for rows that are not scaled; an index that the model does not have is no
    entry."""
    row = [(j, x) for j, x in row if j < len(V or w)]
    linear = sum(w[j] * x for j, x in row) if w else 0.0
    pairs = combinations(row, 2) if V else ()
    return (bias or 0.0) + linear + sum(dot(V[i], V[j]) * x * z for (i, x), (j, z) in pairs)


def score_ffm(row, V=F, norm=True, bias=0.0, w=None):
    """The score of libffm, and with a bias and weights xLearn's: rows are scaled by all their entries, then unknown
    features are left out."""
    scale = 1 / math.sqrt(sum(x * x for _, _, x in row)) if norm else 1.0
    known = [(f, j, x * scale) for f, j, x in row if j < len(V)]
    linear = sum(w[j] * x for _, j, x in known) if w else 0.0
    known = [entry for entry in known if entry[0] < len(V[0])]
    return bias + linear + sum(dot(V[j][g], V[i][f]) * x * z for (f, j, x), (g, i, z) in combinations(known, 2))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def logistic(score):
    return 1 / (1 + math.exp(-score))


def probit(score):
    return math.erfc(-score / math.sqrt(2)) / 2


# Rows with features that the models do not have, and with several entries in one field.
ROWS = [[(0, 1.0), (1, 2.0)], [(3, 0.5), (2, -1.5), (1, 1.0)], [(2, 1.0)], [(0, 1.0), (3, 1.0), (7, 3.0)]]
FIELDED = [
    [(0, 0, 1.0), (1, 1, 2.0)],
    [(0, 0, 1.0), (0, 2, 0.5), (1, 1, -1.0)],
    [(1, 2, 3.0)],
    [(0, 1, 1.0), (1, 2, 2.0), (1, 100, 2.5)],
    [(0, 1, 1.0), (1, 2, 2.0), (5, 0, 1.5)],
]


def written(path, rows):
    """Write rows as text, with or without fields; returns the path as text."""
    path.write_text("".join("1 " + " ".join(":".join(map(str, entry)) for entry in row) + "\n" for row in rows))
    return str(path)
