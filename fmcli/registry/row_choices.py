"""The choices of a run about its rows: how to read text and tables, the kinds of columns, and weights."""

from __future__ import annotations

from fmcli.registry.kinds import FLAG, INPUT, JOINED, LABEL, NAMES, QUERY, RELATIONS, TEXTS, WEIGHTS
from fmcli.registry.losses import LOSSES
from fmcli.registry.options import LARGEST, MOST_HASH_BITS, Option

# The default separator between the values in a cell.
SEPARATOR = "|"
UTF_8, LATIN_1 = "utf-8", "latin-1"
BY_POPULARITY = "popularity"
# The weighting that gives all labels the same total weight.
BALANCED = "balanced"
# The metrics that need groups of rows, in words.
METRICS_OF_GROUPS = (
    "the metrics gauc, ndcg, map, mrr, and recall@K, precision@K, hit@K and ndcg@K (of the first K places)"
)
NEEDED_BY = f"{{loss}} {', '.join(loss.name for loss in LOSSES.values() if loss.pairwise)} and {METRICS_OF_GROUPS}"
# Why functions of Python lack some of these choices.
OF_DATA = "an argument of fmcli.Data, for rows in memory"
OF_TEXT = "fmcli.read reads text of this form"
STOPPING = "functions stop at the first error"

OF_THE_ROWS = (
    Option(
        "hash_bits",
        int,
        None,
        "Hash the ids of features, which may be strings, to 2^N columns, so no dictionary is kept. Features with "
        f"the same hash share a column. [default: no hashing; 1 to {MOST_HASH_BITS}]",
        "data",
        low=1,
        high=MOST_HASH_BITS,
        absent=OF_TEXT,
    ),
    Option(
        "min_count",
        int,
        None,
        "Features that occur in fewer than N training rows, without held-out ones, are rare. [default: 1; >= 1]",
        "data",
        low=1,
        high=LARGEST,
        compared=True,
    ),
    Option(
        "rare",
        str,
        None,
        "What happens to rare features ({min_count}): drop: they count as unseen; share: they share one column, as do "
        "features that occur in no training row. [default: drop]",
        "data",
        choices=("drop", "share"),
        compared=True,
    ),
    Option(
        "sample_weights",
        INPUT,
        None,
        "Weights of the rows of TRAIN: a file with one number per line. A row of weight 2 counts like two equal rows; "
        "metrics of training and held-out rows are weighted as well. [default: all 1]",
        "data",
        metavar="FILE",
        absent=OF_DATA,
    ),
    Option(
        "decay",
        str,
        None,
        "Halve the weight of a row with each HALF-LIFE before the newest time in a column of the table, as in "
        "time:when:30d (units: s, min, h, d, w, y; none for numbers). It multiplies all other weights of rows, also of "
        "held-out rows, and with {implicit} the counts. The column is not a feature unless it is named. [default: all "
        "times count the same]",
        "data",
        metavar="time:COL:HALF-LIFE",
        of_rows=True,
    ),
    Option(
        "label_weights",
        FLAG,
        False,
        "A label may be followed by a colon and the weight of the row, as in the text format of XGBoost: label:weight "
        "index:value ...",
        "data",
        absent=OF_TEXT,
    ),
    Option(
        "class_weight",
        WEIGHTS,
        None,
        "Weight of rows with a label, for each of several labels; balanced: all labels get the same total weight. "
        "Probabilities then hold for labels whose frequencies were multiplied by the weights. [default: all 1]",
        "data",
        metavar="LABEL=W",
        compared=True,
    ),
    Option(
        "pos_weight",
        float,
        None,
        "Weight of rows with the positive one of two labels. It multiplies the predicted odds of that label by about "
        "W. [default: 1; > 0]",
        "data",
        low=0,
        open_low=True,
        metavar="W",
        compared=True,
    ),
    Option(
        "positive",
        LABEL,
        None,
        "The positive one of two labels, whose probability predictions are. [default: the usual one of pairs such as "
        "yes and no, else the later name or the larger number]",
        "data",
        metavar="VALUE",
        of_rows=True,
    ),
    Option(
        "prior_groups",
        INPUT,
        None,
        "For mcmc: the groups of features whose parameters have a common prior. FILE has a line for each feature, from "
        "0 on, with a whole number, its group; or lines with the id of a feature and its group. [default: as in "
        "{init_model}, or the fields of the rows, or one group]",
        "solver",
    ),
    Option(
        "format",
        str,
        "auto",
        "Input format. [default: auto]",
        "data",
        ("-f",),
        choices=("auto", "libsvm", "ffm"),
        absent=OF_TEXT,
    ),
    Option(
        "label",
        str,
        None,
        "Of a table: the column of the label. [default: none]",
        "data",
        metavar="COLUMN",
        of_rows=True,
    ),
    Option(
        "categorical",
        NAMES,
        (),
        "Of a table: columns of names, each a feature column=name. [default: columns of text, and of whole numbers "
        "with 100 rows to each, 40 if they are few, 5 in columns named as ids]",
        "data",
        metavar="COLUMNS",
    ),
    Option(
        "numeric",
        NAMES,
        (),
        "Of a table: columns of numbers; {scale} scales them. [default: columns of numbers with fractions, of 0 and 1 "
        "only, or of whole numbers with fewer rows to each]",
        "data",
        metavar="COLUMNS",
    ),
    Option(
        "several",
        NAMES,
        (),
        "Of a table: multi-valued columns, with a feature for each value in a cell. [default: none]",
        "data",
        metavar="COLUMNS",
    ),
    Option(
        "vector",
        NAMES,
        (),
        "Of a table: columns of vectors of numbers, such as .03|.12, with a feature for each place. [default: lists of "
        "floats, and of one length, in Parquet, queries and frames]",
        "data",
        metavar="COLUMNS",
    ),
    Option(
        "separator",
        str,
        SEPARATOR,
        "Separator of the values in a cell of a {several} or {vector} column. [default: |]",
        "data",
        metavar="TEXT",
    ),
    Option("ignore", NAMES, (), "Of a table: columns to ignore. [default: none]", "data", metavar="COLUMNS"),
    Option(
        "weight_column",
        str,
        None,
        "Of a table: the column of the rows' weights. [default: none]",
        "data",
        metavar="COLUMN",
        of_rows=True,
    ),
    Option(
        "missing_values",
        NAMES,
        (),
        "Of a table: cells that are like empty ones, such as ?,NA. [default: none; in columns of numbers the usual "
        "ones, if all other cells are numbers]",
        "data",
        metavar="TEXTS",
    ),
    Option(
        "missing",
        str,
        "auto",
        "Of a table: in which columns a missing cell is the feature column=: columns of numbers with gaps in training, "
        "none, or all. A missing number is also the mean of its column. [default: auto]",
        "data",
        choices=("auto", "none", "feature"),
    ),
    Option(
        "decimal",
        str,
        None,
        "Of a table: the decimal mark of numbers in local notation: with a comma, 1.067,5 is 1067.5; with a point, "
        "1,067.5 is, $5.50 is 5.5, and 12% is 12. [default: numbers are plain]",
        "data",
        choices=(",", "."),
        metavar="CHAR",
    ),
    Option(
        "bins",
        int,
        None,
        "Of a table: cut each column of numbers into N bins with equal numbers of rows, which are features; fewer if "
        "numbers repeat. [default: none: the number is the value of one feature; >= 2]",
        "data",
        low=2,
        high=LARGEST,
    ),
    Option(
        "columns",
        TEXTS,
        (),
        "Of a table: names of the columns, if it has no header; of the table of {join}, if that has none. May be "
        "repeated. [default: the header's]",
        "data",
        absent="frames have names of columns",
        metavar="[TABLE=]NAMES",
    ),
    Option(
        "delimiter",
        str,
        None,
        "Separator of cells. [default: the first of ::, tab, comma, semicolon, | that the first line has]",
        "data",
        metavar="TEXT",
    ),
    Option(
        "encoding",
        str,
        UTF_8,
        "Encoding of tables. [default: utf-8]",
        "data",
        choices=(UTF_8, LATIN_1),
    ),
    Option(
        "schema",
        INPUT,
        None,
        "The columns of a table, as {print_schema} writes them. [default: options, and the cells]",
        "data",
    ),
    Option(
        "sql",
        QUERY,
        None,
        "The result of a SELECT statement in place of a file, by DuckDB: FROM 'ratings.parquet' JOIN 'users.csv' USING "
        "(user). [default: none]",
        "data",
        metavar="QUERY",
        absent="DuckDB's results are frames, which functions take",
    ),
    Option(
        "join",
        JOINED,
        (),
        "Left join of a table with TABLE on this column: a row whose cell TABLE lacks has no features of TABLE's "
        "names, and the means of its numbers. May be repeated. [default: none]",
        "data",
        metavar="COLUMN=TABLE",
        absent="frames are joined by the programs that they are from",
    ),
    Option(
        "print_schema",
        FLAG,
        False,
        "Write the columns of a table in JSON, and exit.",
        "data",
        absent="functions train, and show nothing",
    ),
    Option(
        "group_field",
        str,
        None,
        "Rows with the same cell in this column of a table form a group, or with the same feature in this field of ffm "
        f"text (its number), for {NEEDED_BY}. The column is a feature, too, if {{categorical}} names it. [default: "
        "rows with the same N in qid:N, after the label]",
        "data",
        metavar="COL",
        of_rows=True,
    ),
    Option(
        "implicit",
        FLAG,
        False,
        "Learn from observed pairs, such as plays or purchases, without labels: the scores of observed pairs are to be "
        "1, and the labels of all pairs of a {user} and an {item} 0, with {unseen_weight}. Repeated pairs add up.",
        "data",
        of_rows=True,
    ),
    Option(
        "user",
        NAMES,
        (),
        "With {implicit}: columns of a table, or fields of ffm text, with the features of users (or of any context). "
        "The columns of a table that is joined by one of them belong to the user, too.",
        "data",
        metavar="COLUMNS",
        of_rows=True,
    ),
    Option(
        "item",
        NAMES,
        (),
        "With {implicit}: columns, or fields, with the features of items.",
        "data",
        metavar="COLUMNS",
        of_rows=True,
    ),
    Option(
        "count",
        str,
        None,
        "With {implicit}: the column of counts, such as plays. A pair has the weight 1 + log(count); {weight_column} "
        "gives weights as they are. [default: each row counts once]",
        "data",
        metavar="COLUMN",
        of_rows=True,
    ),
    Option(
        "unseen_weight",
        float,
        None,
        "With {implicit}: the weight of each pair of a user and an item, beside the weights of the observed pairs. "
        "[default: one of three values, chosen on held-out pairs; > 0]",
        "data",
        low=0,
        open_low=True,
    ),
    Option(
        "l2_power",
        float,
        1.0,
        "With {implicit}: the power of the number of a feature's pairs, in the observed pairs and with {unseen_weight} "
        "in all pairs, that multiplies the L2 penalty of its parameters. [default: 1.0; >= 0]",
        "data",
        low=0,
    ),
    Option(
        "negatives",
        int,
        5,
        "With {implicit} and {loss} bpr: compare each observed pair with N items that its user has not observed, drawn "
        "anew in each epoch. [default: 5; >= 1]",
        "data",
        low=1,
        high=LARGEST,
    ),
    Option(
        "negatives_by",
        str,
        "uniform",
        "With {implicit} and {loss} bpr: all items are equally likely to be drawn (uniform), or in proportion to their "
        "observed pairs (popularity). [default: uniform]",
        "data",
        choices=("uniform", BY_POPULARITY),
    ),
    Option(
        "on_bad_line",
        str,
        None,
        "What to do with a line that cannot be read: stop with an error, or skip it; the first ten are shown. "
        "[default: error]",
        "data",
        choices=("error", "skip"),
        absent=STOPPING,
    ),
    Option(
        "max_bad_lines",
        int,
        None,
        "Skip at most N lines with errors (implies {on_bad_line} skip). [default: no limit; >= 0]",
        "data",
        low=0,
        high=LARGEST,
        absent=STOPPING,
    ),
    Option(
        "relations",
        RELATIONS,
        (),
        "Join each row of the inputs with a row of ROWS, libsvm text without labels, such as the features of its user. "
        "MAP has a line for each row, with the number of its row of ROWS, from 0. May be repeated. The joined rows are "
        "never written. Training takes few models, by solvers that update one feature after the other, whose time and "
        "memory then depend on ROWS, not on the joined rows.",
        "data",
        ("--relation",),
        metavar="ROWS=MAP",
        absent="matrices in memory are joined",
    ),
)
# The choices about columns of tables.
OF_TABLES = (
    *("label", "categorical", "numeric", "several", "vector", "separator", "ignore", "weight_column"),
    *("missing_values", "missing", "decimal", "bins", "columns", "delimiter", "encoding", "schema", "sql", "join"),
    "print_schema",
)
