"""Learning new features alone: by each set of parameters of a model, which may have draws or members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fmcli.model_file.state import as_reals, draw_name, drawn_names
from fmcli.registry.build import build_model
from fmcli.registry.models import MODELS
from fmcli.solvers.trainer import Observer
from fmcli.training.checkpoint import Checkpointer
from fmcli.training.draws import whole_draws
from fmcli.training.job import train
from fmcli.training.planning import Plan
from fmcli.training.prepared import prepared_model
from fmcli.training.setup.warm_start import WarmStart
from fmcli.training.trained import Epoch, Trained


def learn(
    plan: Plan,
    on_epoch: Callable[[Epoch], bool | None] = lambda epoch: None,
    observer: Observer | None = None,
    keeper: Checkpointer | None = None,
) -> Trained:
    """Train the new features of a plan, by each set of parameters of its warm start: all but the last one become
    `draws`. Raises the errors of `train`."""
    assert plan.warm_start is not None
    *others, last = sets_of(plan.warm_start)
    draws = []
    for number, warm_start in enumerate(others):
        one = train(with_parameters(plan, warm_start, number), keeper=keeper)
        draws += whole_draws(one.plan.model, ())
    trained = train(with_parameters(plan, last, len(others)), on_epoch, observer, keeper)
    if not draws:
        return trained
    trained = replace(trained, draws=draws, members=int(last.meta.get("members", 1)))
    outcome = plan.evaluation.outcome(trained.all_draws, plan.rows)
    return replace(trained, outcome=outcome)


def sets_of(warm_start: WarmStart) -> list[WarmStart]:
    """Return a model's sets of parameters, each as a model of a single one; its own is the last."""
    count, members = int(warm_start.meta.get("draws", 1)), int(warm_start.meta.get("members", 1))
    names, found = drawn_names(warm_start.model, members), []
    for number in range(count - 1):
        draw = as_reals({name: warm_start.arrays[draw_name(number, name)] for name in names}, warm_start.model)
        arrays = {**warm_start.arrays, **draw}
        kind, options = MODELS[warm_start.run.model], warm_start.run.options
        model = build_model(
            kind,
            warm_start.model.features,
            warm_start.model.outputs,
            {name: options[name] for name in kind.options},
            warm_start.transform.fields,
            cutpoints=warm_start.model.cutpoints,
        )
        model.attach(arrays)
        found.append(replace(warm_start, model=model, arrays=arrays, draw=number))
    return [*found, warm_start]


def with_parameters(plan: Plan, warm_start: WarmStart, number: int) -> Plan:
    """Return the plan that begins with these parameters; random numbers depend on their number."""
    if warm_start is plan.warm_start and number == 0:
        return plan
    spec = replace(plan.spec, values={**plan.spec.values, "seed": plan.spec.values["seed"] + number})
    model = prepared_model(spec, plan.source, plan.transform, warm_start)
    return replace(plan, spec=spec, model=model, settings=replace(plan.settings, warm_start=warm_start))
