"""fmcli recommend: write the items with the largest predictions for each of many contexts, such as users."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from fmcli.cli.choices import AS_IN_TRAINING, ATTRIBUTES, with_choices
from fmcli.cli.files import InputFile, check_files
from fmcli.cli.flags import flag_of
from fmcli.cli.folding import fold_in_option, scorer_with
from fmcli.cli.logging import LOGGING, log_of
from fmcli.cli.options import SectionCommand, given, option, output_option
from fmcli.cli.output import Log, open_sink, seconds
from fmcli.cli.predict import IDS, in_words, log_model, log_warnings
from fmcli.errors import UsageError
from fmcli.records import dataclass
from fmcli.registry.choices import Choices
from fmcli.registry.kinds import NAMES
from fmcli.registry.modes import check_modes
from fmcli.text import counted

if TYPE_CHECKING:
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.recommend.named import NamedRows
    from fmcli.scoring.scorer import Scorer

TOP = 10


@dataclass(frozen=True)
class RecommendRequest:
    """The arguments of the command.

    ids : the columns, or the token, of the ids of contexts and of items; None: the first feature.
    show : columns that are written beside ids.
    explain : the number of reasons for each item; None: no reasons.
    fold_in : files of labeled rows whose new features the model learns first.
    output : a file; None: standard output.
    """

    model: str
    contexts: str | None
    items: str | None
    top: int
    seen: tuple[str, ...]
    ids: tuple[str | None, str | None]
    show: tuple[str, ...]
    explain: int | None
    json: bool
    output: str | None
    fold_in: tuple[str, ...]
    choices: Choices


@click.command(
    cls=SectionCommand,
    name="recommend",
    examples=[
        "# Ten items for each user of a log that train --implicit has learned, without what the user has played.",
        "fmcli recommend plays.fm > top.tsv",
        "# Ten items for each user, without items in the training rows.",
        "fmcli recommend ratings.fm --given users.csv --over films.csv --seen ratings.csv > top.tsv",
        "# With the titles of films, and the three largest reasons for each.",
        "fmcli recommend ratings.fm --given users.csv --over films.csv --show title --explain 3",
        "# For new users, whom the model learns first by what they have rated.",
        "fmcli recommend ratings.fm --fold-in new.csv --seen new.csv --given new-users.csv --over films.csv",
        "# Five items for one user, as JSON.",
        "echo '405:1' | fmcli recommend ratings.fm --given - --over films.libsvm --top 5 --json",
    ],
)
@click.argument("model", type=InputFile(), metavar="MODEL")
@option(
    "data",
    "--given",
    "contexts",
    type=InputFile(),
    metavar="FILE",
    help='Rows of features, or a table, such as users: each row gets recommendations. "-" is standard input. '
    "[default: all users that the model knows, if train --implicit made it]",
)
@option(
    "data",
    "--over",
    "items",
    type=InputFile(),
    metavar="FILE",
    help="Rows of features, or a table, of the items to choose from. They have no feature in common with --given. "
    "[default: all items that the model knows, if train --implicit made it]",
)
@option(
    "data",
    "--seen",
    multiple=True,
    type=InputFile(),
    metavar="FILE",
    help="Leave out pairs that occur in rows of FILE, such as the training rows: rows with both ids in the columns of "
    "these, or, if rows are not tables, with the first features of both. Labels are optional; rows with the smaller of "
    "two do not count. May be repeated. [default: the pairs that the model knows, if train --implicit made it]",
)
@option(
    "data",
    "--id-column",
    **ATTRIBUTES[NAMES],
    metavar="COL[,COL]",
    help="Ids of rows, which must be unique: the cell in this column of a table, one for --given and one for --over; "
    "or 1 for the first token of a line, 2 for the second one, after the label. [default: the first column with "
    "features; else the first feature]",
)
@fold_in_option
@option(
    "output",
    "--top",
    type=click.IntRange(min=1),
    default=TOP,
    metavar="N",
    help=f"Number of items for each row of --given. [default: {TOP}; >= 1]",
)
@option(
    "output",
    "--show",
    **ATTRIBUTES[NAMES],
    metavar="COL,...",
    help="Further columns of the tables to write, such as a title. [default: none]",
)
@option(
    "output",
    "--explain",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write the N largest reasons for each item: main effects of its features, and interactions with them. "
    "[default: none; >= 1]",
)
@option("output", "--json", is_flag=True, help="Write a JSON object for each row of --given, instead of a table.")
@output_option(help="Where to write. [default: standard output]")
@with_choices("format", "join", "threads", *LOGGING, missing_values=AS_IN_TRAINING)
def command(id_column: tuple[str, ...] | None, output: str | None, choices: Choices, **asked: Any) -> None:
    """Recommend the items with the largest scores for each row of --given.

    The score of a pair is the score of a row with the features of both. Items are in the order of their predictions,
    the same predictions as predict writes."""
    check_modes(given())
    ids = id_column or (None,)
    if len(ids) > 2:
        raise UsageError("--id-column takes a column for --given and one for --over, not more")
    check_files()
    output = None if output == "-" else output
    request = RecommendRequest(ids=(ids[0], ids[-1]), output=output, choices=choices, **asked)
    with log_of(choices) as log:
        run(log, request)


def run(log: Log, request: RecommendRequest) -> None:
    """Load the model, read the rows, and write the recommendations."""
    from fmcli.data.text.faults import BadLines
    from fmcli.model_file.container import load
    from fmcli.scoring.prediction import Counts
    from fmcli.scoring.recommend.known import known_seen
    from fmcli.scoring.recommend.lines import RecommendationText
    from fmcli.scoring.recommend.named import check_apart, check_columns, seen_pairs
    from fmcli.scoring.recommend.reasons import Reasons
    from fmcli.scoring.recommend.recommender import Recommender
    from fmcli.system.machine import cpu_count

    begin, threads = time.perf_counter(), request.choices.threads or cpu_count()
    joined = dict(request.choices.join)
    file, missing = load(request.model), request.choices.missing_values
    scorer = scorer_with(log, request.model, file, request.fold_in, request.choices.format, threads, joined, missing)
    log_model(log, request.model, scorer)
    counts = Counts()
    items, contexts = (read(scorer, request, place, counts, threads) for place in (1, 0))
    if warning := check_columns(contexts, items, scorer.table):
        log.warning(warning)
    for column in request.show:
        if column not in (*contexts.shown, *items.shown):
            raise UsageError(f"--show {column}: neither {contexts.source} nor {items.source} has this column")
    recommender = Recommender(scorer, items.data, min(request.top, len(items.ids)))
    check_apart(recommender, contexts, items)
    if recommender.reason:
        log.line(f"{request.model}: all pairs are scored one by one, because {recommender.reason}")
    if not request.seen:
        seen = known_seen(scorer, contexts.data, items.data)
    else:
        seen, none = seen_pairs(scorer, request.seen, contexts, items, format=request.choices.format, threads=threads)
        for warning in none:
            log.warning(warning)
    lines = RecommendationText(
        recommender,
        contexts,
        items,
        Reasons(recommender, request.explain) if request.explain else None,
        json=request.json,
    )
    for warning in recommender.warnings(contexts.data, contexts.source, items.source, flag_of):
        log.warning(warning)
    written = short = 0
    with open_sink(request.output) as sink:
        sink.write(lines.head())
        for first, found in recommender.each(contexts.data, seen, threads):
            for text in lines.texts(first, found):
                sink.write(text)
            written += len(found.items)
            short += int((found.counts < request.top).sum())
            if log.due():
                log.progress_of_rows(first, time.perf_counter() - begin, first, len(contexts.ids))
    log_warnings(log, scorer, counts, BadLines())
    took, others = seconds(time.perf_counter() - begin), in_words(counts, BadLines())[1:]
    left_out = f", without {counted(len(seen.items), 'seen pair')}" if seen is not None else ""
    fewer = f"; {counted(short, 'row')} got fewer than {request.top}" if short else ""
    rows, over = counted(len(contexts.ids), "row"), counted(len(items.ids), "item")
    made = f"{counted(written, 'recommendation')} for {rows} from {over}{left_out}"
    log.line(f"{', '.join([made, *others, took])}{fewer}")


def read(scorer: Scorer, request: RecommendRequest, place: int, counts: Counts, threads: int) -> NamedRows:
    """Return the rows of contexts (0) or items (1)."""
    from fmcli.scoring.recommend.known import ITEMS, USERS, known_rows
    from fmcli.scoring.recommend.named import Naming, named_rows

    path = (request.contexts, request.items)[place]
    if path is None:
        return known_rows(scorer, (USERS, ITEMS)[place])
    column = request.ids[place]
    number = int(column) if column in IDS else 0
    naming = Naming(id_column=number, column=None if number else column, shown=request.show)
    return named_rows(
        scorer,
        path,
        naming,
        format=request.choices.format,
        joined=dict(request.choices.join),
        threads=threads,
        counts=counts,
    )
