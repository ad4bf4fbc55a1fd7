"""The log of fmcli train: its data, its plan, and the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fmcli.choosing.plans import can_compare
from fmcli.cli.flags import flag_of, with_flag, with_flags
from fmcli.cli.gaps import log_gaps
from fmcli.cli.output import LEAST_SECONDS, Log, seconds
from fmcli.cli.train.progress import LEAST_SHOWN
from fmcli.data.dictionary import Dictionary
from fmcli.data.labels import Labels, Names, missing_among, text_of
from fmcli.data.scaling import SCALE, STANDARD, ZSCORE, Scaling
from fmcli.data.shards.observed_rows import ObservedRows
from fmcli.data.tables.reading import TableSource
from fmcli.data.text.reader import Table
from fmcli.data.text.sources import Gaps
from fmcli.errors import BadInputError, UsageError
from fmcli.registry.choices import CHOICES
from fmcli.registry.derived import Derived
from fmcli.registry.losses import LOSSES
from fmcli.registry.models import DEFAULT_MODEL, MODELS
from fmcli.registry.options import GROUP_PENALTIES, OPTIONS
from fmcli.registry.positive import usual_place
from fmcli.registry.solvers import DEFAULT_SOLVER, SOLVERS
from fmcli.registry.specs import FIT_BETA, SCALE_LABELS, Spec, for_dense_rows, make_spec, needed_for
from fmcli.scoring.sparsity import SPARSITY
from fmcli.solvers.gibbs.convergence import WATCHED_ROWS
from fmcli.system.memory import human_bytes, peak
from fmcli.text import counted, figure, names_word, number, plain_figure, shell_word
from fmcli.training.draw_sizes import kept_sweeps
from fmcli.training.draws import halved_names, kept_bytes
from fmcli.training.planning import Plan
from fmcli.training.setup.fitting import are_dense, are_many
from fmcli.training.setup.groups import groups_in_words
from fmcli.training.setup.scaled_labels import described
from fmcli.training.trained import Trained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fmcli.cli.train.request import Request
    from fmcli.data.stored.cache import CacheHeader
    from fmcli.training.account import MemoryNeed
    from fmcli.training.setup.warm_start import WarmStart

# If more epochs would help, the log proposes this many times the number.
MORE_EPOCHS = 3
MOST_WEIGHTS = 4  # of labels that are shown
# Rows whose labels may be ratings have ids: this many times more features than entries of a row.
SPARSE = 10
# The quantities of a sampler that are watched, in words.
PARTS = {"alpha": "alpha", "priors": "priors", "scores": f"predictions of {WATCHED_ROWS} rows"}


def log_read(
    log: Log, inputs: tuple[str, ...], table: Table | CacheHeader, took: float, gaps: Gaps | None = None
) -> None:
    """Log the rows that were read, and warn about unusual data. gaps : of the tables, if workers have read them."""
    others = f" and {len(inputs) - 1} more" if len(inputs) > 1 else ""
    numbering = table.dataset.numbering if isinstance(table, Table) else None
    relations = len(table.dataset.relations) if isinstance(table, Table) else 0
    is_text = not isinstance(inputs[0], TableSource)
    speed = f"{table.bytes / 1e6 / max(took, LEAST_SECONDS):.0f} MB/s"
    log.line(
        f"read {inputs[0]}{others}: {counted(table.rows, 'row')}, "
        + (f"{counted(table.nonzeros, 'non-zero')}, " if is_text or log.verbose else "")
        + counted(table.features, "feature")
        + (dictionary_of(numbering) if isinstance(numbering, Dictionary) and log.verbose else "")
        + (f", joined with {counted(relations, 'relation')}" if relations else "")
        + (f", {counted(table.fields, 'field')}" if table.fields and is_text else "")
        + (f", {table.format}" if is_text else "")
        + (f", {seconds(took)}, {speed}" if log.verbose or took >= LEAST_SHOWN else "")
    )
    log_gaps(log, gaps or Gaps.of(inputs), table.rows)
    if table.fields > table.features:
        log.warning(
            f"{inputs[0]} has more fields than features, {table.fields:,} and {table.features:,}: if its entries are "
            "index:field:value, swap the two; ffm text is field:index:value"
        )
    if table.repeated_rows:
        has = "has" if table.repeated_rows == 1 else "have"
        log.warning(f"{counted(table.repeated_rows, 'row')} {has} an index more than once; its values were added")


def dictionary_of(dictionary: Dictionary) -> str:
    """Return the sizes of a dictionary, in brackets."""
    numbers, names = len(dictionary.numbers), len(dictionary.ends)
    parts = [f"{numbers:,} numbers"] * (numbers > 0) + [f"{names:,} names"] * (names > 0)
    return f" (in a dictionary: {', '.join(parts)})" if parts else ""


def log_weights(
    log: Log, weight: NDArray[np.float64] | None, of_labels: Mapping[float, float], names: Names | None
) -> None:
    """Log the weights of rows and labels, which are the positions of names if there are some."""
    if weight is None:
        log.line("weights: all 1")
        return
    shown = list(of_labels.items())[:MOST_WEIGHTS]
    labels = ", ".join(f"{weight:g} for label {text_of(label, names)}" for label, weight in shown)
    by_label = f"; by label: {labels}" + (" and others" if len(of_labels) > len(shown) else "") if shown else ""
    low, high, total = weight.min(), weight.max(), weight.sum()
    log.line(f"weights: {low:.4g} to {high:.4g}, {figure(total)} in total{by_label}")


def log_plan(log: Log, plan: Plan, again: bool) -> None:
    """Log the model, the loss and the solver of the run, and why they were chosen. `again` : whether the model is
    refitted on all rows once the epoch is chosen."""
    spec, asked = plan.spec, plan.settings.spec
    pairs = f", {plan.source.visits:,} pairs in each epoch" if LOSSES[plan.transform.labels.loss].pairwise else ""
    if isinstance(source := plan.source, ObservedRows) and source.terms.negatives:
        why = f"{source.count:,} observed pairs, compared with {source.visits:,} pairs that each epoch draws"
    elif isinstance(source, ObservedRows):
        weight = f"{CHOICES['unseen_weight'].flag} {short(source.terms.unseen_weight)}"
        why = f"{source.count:,} observed pairs, and all pairs with a small weight ({weight})"
    else:
        why = f"{reason(plan)}{pairs}"
    size = spec.values["round_size"]
    rounds = f" in rounds of {size:,} rows" if size > 1 else ""
    dense = f" (rows are dense; if new rows will update the model, give -s {MODELS[spec.model].solver})"
    solver = f"{spec.solver}{dense}" if spec.solver_by_data else spec.solver
    parameters = counted(plan.model.parameter_count, "parameter")
    log.line(f"model {spec.model}, solver {solver}{rounds}, {parameters}; loss {spec.loss}: {why}")
    if (missing := missing_classes(plan.transform.labels)) is not None:
        log.warning(with_flags(missing))
    for hint in hints(plan):
        log.line(f"hint: {hint}")
    if plan.spec.values[SCALE_LABELS] and not plan.transform.labels.unit.is_one:
        log.detail(f"training on labels {described(plan.transform.labels.unit)}")
    if plan.evaluation.clip:
        low, high = plan.evaluation.clip
        ends = f"{plain_figure(low)} to {plain_figure(high)}"
        log.line(f"predictions are clipped to the range of the labels, {ends} (or --no-clip)")
    if plan.settings.min_count > 1:
        log.line(rare_features(plan))
    log_usual_penalties(log, spec)
    if spec.values.get(FIT_BETA) is False and FIT_BETA not in spec.given:
        log.line(f"beta keeps its initial values, because all pairs count ({choice(FIT_BETA, False)})")
    if plan.warm_start:
        log_warm_start(log, plan, plan.warm_start)
    if spec.solver_entry.is_sampler and spec.values["epochs"]:
        log_sweeps(log, plan)
    if plan.validation and plan.validation.held_out:
        held = plan.source.all_rows - plan.source.count
        purpose = "evaluate the average" if spec.solver_entry.is_sampler else "choose the epoch"
        last = "last " if plan.settings.hold_out.in_order else ""
        after = (
            "; the model is then retrained on all rows (--no-refit does not)"
            if again
            else "; --refit retrains the model on all rows, --holdout 0 holds out none"
        )
        (log.detail if again else log.line)(
            f"held out {last}{held:,} rows, {100 * held / plan.source.all_rows:.3g} %{among_items(plan)}, to {purpose}"
            f"{after}"
        )
    elif plan.validation and spec.values["epochs"] and not spec.solver_entry.is_sampler:
        log.detail(f"{plan.validation.chooser} on {plan.settings.valid_name} chooses the epoch")
    if len(plan.measured) < plan.source.count:
        log.detail(f"training metrics are measured on a sample of {len(plan.measured):,} rows")
    if plan.settings.choices.patience is not None and (why := why_no_early_stop(plan)):
        log.warning(f"--patience has no effect, because {why}")
    if plan.transform.scale and plan.transform.scale.centers is not None:
        log_centers(log, plan.transform.scale, given=SCALE in spec.given)
    if plan.odd_columns:
        odd = plan.odd_columns
        log.warning(f"{odd.found}; training works best on values near 1: {odd.way_out(flag_of)}")
    anchors, rows = spec.values.get("anchors", 0), len(plan.rows)
    if anchors > rows and not plan.warm_start:
        log.warning(
            f"{anchors:,} anchors start from only {rows:,} rows, so several begin at the same place and share "
            f"what one would learn: use {OPTIONS['anchors'].flag} {rows} or fewer"
        )
    for name, value in spec.values.items():
        rule = asked.values.get(name)
        log.detail(choice(name, value) + (f" ({rule})" if isinstance(rule, Derived) else ""))


def among_items(plan: Plan) -> str:
    """Return the items among which held-out rows are ranked, if more than themselves."""
    source, validation = plan.source, plan.validation
    if validation is None or validation.count == source.all_rows - source.count:
        return ""
    return f", ranked with other items of their users, {validation.count:,} rows in all"


def log_centers(log: Log, scaling: Scaling, *, given: bool) -> None:
    """Log how many columns zscore centers, or warn if it was given and centers none."""
    flag = OPTIONS[SCALE].flag
    if scaling.centered:
        log.line(f"{flag} {ZSCORE} centers {counted(scaling.centered, 'column')}: a row with a 0 there stores a value")
    elif given:
        log.warning(
            f"{flag} {ZSCORE} centers no column, because no column of numbers is in half of the rows; "
            f"{flag} {STANDARD} does the same"
        )


def missing_classes(labels: Labels) -> BadInputError | None:
    """Return a fault of classes whose names usually stand for missing labels; None if there are none. With two labels
    that usually belong together, such as + and -, none is missing."""
    if not labels.names or (len(labels.names) == 2 and usual_place(labels.texts) is not None):
        return None
    words, helps = missing_among(labels.texts)
    return BadInputError(words, **helps) if words else None


def hints(plan: Plan) -> Iterator[str]:
    """Other choices for labels that are fitted as numbers by default, but look like ratings or classes."""
    labels, source = plan.transform.labels, plan.source
    for_classes = with_loss(plan.spec, "softmax")
    sparse = source.all_rows * int(plan.seen.sum()) >= SPARSE * source.all_nonzeros
    if labels.may_be_ratings and sparse:
        if sampler := sampler_for(plan):
            yield f"the labels look like ratings; -s {sampler} usually predicts ratings better, without tuning"
            yield f"if the labels are classes, use {for_classes}"
    elif labels.may_be_classes:
        yield f"the labels are few distinct whole numbers; if they are classes, use {for_classes}"
    visited = source.in_memory and not plan.one_pass and not plan.warm_start
    dense = are_dense(source.all_rows, source.all_nonzeros, plan.data.features)
    if plan.spec.model != DEFAULT_MODEL or plan.settings.alternatives or not visited or not dense:
        return
    by_columns = for_dense_rows(plan.settings.spec)
    if by_columns.solver_by_data and are_many(by_columns, source.all_nonzeros):
        yield f"the rows are dense; -s {by_columns.solver} usually predicts dense rows better, but takes longer"
    elif can_compare(plan):
        yield "the rows are dense; --auto compares kinds that often predict dense rows far better, such as llfm"


def with_loss(spec: Spec, loss: str) -> str:
    """Return the flags of a loss, and of the other options that a run of a spec needs for this loss."""
    return " ".join(with_flag(name, value) for name, value in {**needed_for(spec, loss), "loss": loss}.items())


def sampler_for(plan: Plan) -> str | None:
    """Return the solver that samples, if it is neither in use nor compared, and can train the model on the rows."""
    sampler = next(name for name, entry in SOLVERS.items() if entry.is_sampler)
    known = sampler == plan.spec.solver or plan.settings.alternatives
    if known or plan.warm_start or plan.one_pass or len(plan.source.sizes) > 1:
        return None
    try:
        make_spec(plan.spec.model, sampler)
    except UsageError:
        return None
    return sampler


def why_no_early_stop(plan: Plan) -> str:
    """Return why training cannot stop early; "" if it can."""
    spec = plan.spec
    if MODELS[spec.model].closed_form:
        return f"{spec.model} is solved in closed form"
    if spec.solver_entry.is_sampler:
        return f"{spec.solver} does not stop early"
    if spec.values["epochs"] <= 1:
        return "it needs several epochs (-e)"
    return "" if plan.validation else "there is no validation data; give it with -v or --holdout"


def log_usual_penalties(log: Log, spec: Spec) -> None:
    """Log the penalties that make parameters zero and are on by default, but not the penalties that the model needs."""
    for name in ("l1", *GROUP_PENALTIES):
        if spec.values.get(name) and name not in (*spec.given, *MODELS[spec.model].positive):
            on = choice(name, spec.values[name])
            log.line(f"{on}, the default of {spec.model} with {spec.solver}, makes parameters exactly 0 (sparsity)")


def log_sweeps(log: Log, plan: Plan) -> None:
    """Log how many sweeps there are, and how many of their draws are kept."""
    sweeps, burn_in, kept = plan.spec.values["epochs"], plan.spec.values["burn_in"], len(kept_sweeps(plan.spec))
    log.line(
        f"{sweeps:,} sweeps, {burn_in:,} of them burn-in; the model averages {counted(kept, 'later draw')} "
        f"({human_bytes(kept_bytes(plan))}{', 16-bit numbers' if halved_names(plan) else ''})"
    )
    log.line(f"priors: {groups_in_words(plan.task.groups, plan.settings)}")


def rare_features(plan: Plan) -> str:
    """Return in words what happens to features that occur in few rows, and how many others there are."""
    others, least = int(plan.seen.sum()), plan.settings.min_count
    if plan.settings.share_rare:
        shares = plan.data.numbering is not None and bool(plan.seen[-1])
        return f"{counted(others - shares, 'feature')} in {least:,} training rows or more; all others share a column"
    return f"{counted(others, 'feature')} in {least:,} training rows or more; all others are dropped"


def log_warm_start(log: Log, plan: Plan, warm_start: WarmStart) -> None:
    """Log the model that training resumes from, the inherited choices and the changed ones."""
    run, path = warm_start.run, warm_start.path
    state = "weights and solver state" if plan.resumes else "weights"
    epochs = counted(run.epochs, "epoch")
    new = plan.seen.copy()
    known = warm_start.transform.seen
    new[: len(known)] &= ~known
    if plan.new_features:
        learned = f"{counted(int(new.sum()), 'new feature')} from {counted(plan.source.count, 'row')}"
        log.line(f"learning {learned}; the rest of {path} is unchanged")
        return
    log.line(f"resuming from {path}: {state} after {epochs}; {counted(int(new.sum()), 'new feature')}")
    if earlier := plan.earlier:
        strength = f"--init-strength {number(earlier.strength)}"
        log.line(f"{earlier.weight:,.0f} earlier rows hold parameters near their values ({strength})")
    elif not plan.spec.by_rows:
        log.warning(
            f"{plan.spec.solver} fits these rows alone, and forgets the rows that {path} was trained on unless they "
            "are among them; train on all rows together, learn only what is new (--only-new), or update a model of a "
            f"stochastic solver, such as -s {DEFAULT_SOLVER}"
        )
    if plan.spec.values["epochs"] == 1 and "epochs" not in plan.spec.given:
        log.line("one epoch by default: more would make the model forget older rows (-e sets another number)")
    for name, factor in plan.spec.multiples.items():
        log.line(f"{choice(name, plan.spec.values[name])} is {factor:.3g} times the default for all rows, as in {path}")
    kept = [choice(name, value) for name, value in run.kept(plan.spec).items()]
    if kept:
        log.line(f"as in {path}: {', '.join(kept)}")
    changes = [
        f"{choice(name, now)} (was {choice(name, before).rpartition(' ')[2]})"
        for name, (before, now) in run.changed(plan.spec).items()
    ]
    changes += [f"without {choice(name, value)}" for name, value in run.dropped(plan.spec).items()]
    if changes:
        log.line(f"changed: {', '.join(changes)}")


def choice(name: str, value: Any) -> str:
    """Return a choice of a run: "--rank 16", "--no-norm", "solver ftrl"."""
    return with_flag(name, value) if name in OPTIONS else f"{name} {value}"


def reason(plan: Plan) -> str:
    """Return why this loss was chosen."""
    labels = plan.transform.labels
    if MODELS[plan.spec.model].closed_form:
        fitted = ", by which the two labels are fitted as numbers: predictions are not probabilities"
        return f"the one with a closed form{fitted if labels.values else ''}"
    if plan.warm_start and labels.loss == plan.warm_start.run.loss:
        return f"from {plan.warm_start.path}"
    if plan.settings.spec.loss is not None:
        classes = f", {labels.outputs} classes" if LOSSES[labels.loss].task == "classes" else ""
        return f"from {CHOICES['loss'].flag}{classes}"
    column = plan.settings.table.label if plan.settings.table else None
    has = "the labels have" if column is None else f"{column} has"
    if labels.values:
        negative, positive = labels.texts
        guessed = labels.names and plan.settings.positive is None and usual_place((negative, positive)) is None
        other = f"; --positive {shell_word(negative)} swaps them" if guessed else ""
        return f"{has} two values, {negative} and {positive} (positive{other})"
    return f"{has} more than two values"


def sizes(plan: Plan, trained: Trained | None = None) -> dict[str, str]:
    """Return the sizes of the data and the model."""
    data = plan.data
    held = plan.source.all_rows - (trained.validated.plan if trained else plan).source.count
    then = ", then trained on" if trained and trained.chosen_by else ""
    features = f"{data.dimension:,}"
    if trained is not None and trained.seen.sum() < data.dimension:
        features += f" ({int(trained.seen.sum()):,} occur)"
    return {
        "rows": f"{plan.source.all_rows:,}" + (f" ({held:,} held out{then})" if held else ""),
        "non_zeros": f"{plan.source.all_nonzeros:,}",
        "features": features,
        "parameters": f"{plan.model.parameter_count:,}",
    }


def memory_needed(need: MemoryNeed, request: Request) -> int:
    """Return the most bytes that a command takes. The inputs have been read, and only their memory is known: it counts
    if training needs less."""
    return max(need.total, peak() - request.occupied)


def log_memory(log: Log, need: MemoryNeed, request: Request) -> None:
    """Log the memory that a comparison needs."""
    log.detail(f"needs {human_bytes(memory_needed(need, request))} of memory")


def log_best_epoch(log: Log, trained: Trained, again: bool) -> None:
    """Log which epoch was kept, or chosen for the refit, and why training stopped early."""
    validation, epochs, before = trained.plan.validation, trained.epochs, trained.plan.epochs_before
    if (earlier := trained.plan.earlier) and earlier.begun:
        if earlier.past and earlier.past.interactions:
            log.line("restarted the factors: interactions of the earlier rows predict the new rows better")
        else:
            log.line("restarted the factors, which were near 0 because the rows were too few")
    if trained.out_of_time:
        log.line(f"stopped after epoch {before + len(epochs)}: the time is over (--max-seconds)")
    else:
        log_convergence(log, trained)
    if trained.plan.spec.solver_entry.is_sampler:
        if trained.convergence:
            log.detail(convergence(trained.convergence))
        short = len(kept_sweeps(trained.plan.spec)) - len(trained.draws) - 1
        if epochs and trained.out_of_time and short:
            log.warning(f"the model has {1 + len(trained.draws):,} draws, {short:,} fewer than with all sweeps")
        return
    if validation is None or not epochs:
        return
    name = validation.chooser
    value = epochs[trained.best - 1].valid[name]
    if math.isnan(value):
        log.line(f"kept epoch {before + len(epochs)}, the last one{retraining(trained) if again else ''}")
        return
    stopped = f"stopped after epoch {before + len(epochs)} (--patience {validation.patience}): "
    most = trained.plan.spec.values["epochs"]
    last = trained.best == most > 1 and not trained.converged and not trained.out_of_time
    still = f"; it is the last one, so more epochs may help (-e {MORE_EPOCHS * most})" if last else ""
    log.line(
        f"{stopped if trained.exhausted else ''}epoch {before + trained.best} has the best {name}, {figure(value)}"
        f"{still}{retraining(trained) if again else ''}"
    )


def retraining(trained: Trained) -> str:
    """Return, as the end of a sentence, that the model is trained again on all rows, and for how many epochs."""
    plan = trained.plan
    of_folds = ", as cross-validation suggests" if plan.refit_epochs else ""
    epochs = counted(plan.refit_epochs or trained.best, "epoch")
    return f"; retraining on all {plan.source.all_rows:,} rows for {epochs}{of_folds}"


def convergence(figures: Mapping[str, Any]) -> str:
    """Return the convergence of the sweeps after the burn-in, in words."""
    parts = {name: words for name, words in PARTS.items() if f"{name}_r_hat" in figures}
    r_hat = ", ".join(f"{figures[f'{name}_r_hat']:.2f} ({words})" for name, words in parts.items())
    effective = ", ".join(f"{figures[f'{name}_effective']:.0f} ({words})" for name, words in parts.items())
    error = f"; standard error of predictions {figures['error']:.1%} of the labels' noise" if "error" in figures else ""
    return f"{figures['sweeps']:,} sweeps after the burn-in: R-hat {r_hat}; effective sweeps {effective}{error}"


def log_divergence(log: Log, trained: Trained, again: bool) -> None:
    """Log which model is written although training diverged; `again`: the refit on all rows diverged."""
    if again:
        log.line("retraining diverged: writing the model of the rows that were not held out")
    else:
        log.line(f"training diverged after epoch {trained.plan.epochs_before + len(trained.epochs)}")
        log_best_epoch(log, trained, again=False)


def short(value: float | str | Sequence[str]) -> str:
    """Return a value of a choice with at most four digits."""
    if isinstance(value, tuple | list):
        value = shell_word(names_word(value))
    return value if isinstance(value, str) else f"{value:.4g}"


def log_convergence(log: Log, trained: Trained) -> None:
    """Log whether the objective has converged, for solvers with a stopping tolerance."""
    epochs, values = trained.epochs, trained.plan.spec.values
    if not values.get("tol") or not epochs:
        return
    stopped = f"stopped after epoch {trained.plan.epochs_before + len(epochs)}"
    if trained.converged:
        log.line(f"{stopped}: the objective has settled (--tol {number(values['tol'])})")
    elif len(epochs) == values["epochs"] and not trained.chosen_by:
        more = MORE_EPOCHS * len(epochs)
        log.line(
            f"{stopped}, before the objective settled (--tol {number(values['tol'])}): try more epochs (-e {more})"
        )
    elif not trained.exhausted:
        log.line(f"{stopped}: no step lowers the objective any more")


def figures(summary: dict[str, Any], constant_is: str = "the best constant") -> dict[str, str]:
    """Return the figures of a model as text; names of metrics begin with "train_", "valid_" or "test_". constant_is :
    what the metrics are compared with, in words."""
    shown = {"sparsity": figure(summary["sparsity"])}
    if summary["loss"] is not None:
        shown["loss"] = figure(summary["loss"])
    for part in ("train", "valid", "test"):
        for name, value in summary.get(part, {}).items():
            if name != SPARSITY:
                constant = summary["valid_constant"].get(name) if part == "valid" else None
                shown[f"{part}_{name}"] = ("undefined" if value is None else figure(value)) + (
                    "" if constant is None else f"  ({constant_is.removeprefix('the ')} {figure(constant)})"
                )
    if "members" in summary:
        shown["members"] = f"{len(summary['members']['seed'])}"
    if "draws" in summary:
        shown["draws"] = f"{summary['draws']:,} of {summary['epochs']:,} sweeps"
        if figures := summary.get("convergence"):
            shown["r_hat"] = f"{figures['r_hat']:.4f}  (95 % of the watched numbers have at most this)"
            shown["effective"] = f"{figures['effective']:.1f} of {figures['sweeps']:,} sweeps  (median)"
    elif summary["valid"] and summary["epochs"]:
        best = summary["members"]["best_epoch"] if "members" in summary else [summary["best_epoch"]]
        shown["best_epoch"] = f"{', '.join(map(str, best))} of {summary['epochs']}"
    return shown
