"""Other ways to read the tables of fmcli train, which a quick search compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fmcli.cli.output import Log
from fmcli.cli.train.rows import Planned, plan_rows
from fmcli.cli.train.tables import named_in, with_tables
from fmcli.data.tables.other_kinds import other_kinds
from fmcli.data.tables.surveying import schema_of
from fmcli.training.planning import OtherReading, Plan
from fmcli.training.setup.named_columns import may_read_otherwise

if TYPE_CHECKING:
    from fmcli.cli.train.request import Request
    from fmcli.data.text.faults import BadLines
    from fmcli.registry.specs import Spec


def with_readings(planned: Planned, asked: Request, bad: BadLines) -> Planned:
    """Return the plan of a run, with other ways to read its tables. asked : the request, before its tables are read."""
    table = planned.plan.settings.table
    if table is None or "-" in asked.inputs or not may_read_otherwise(asked.choices):
        return planned
    choices, threads = asked.choices, asked.settings.threads

    def plan(spec: Spec, options: dict[str, Any]) -> Plan:
        """Return the plan of a spec on the tables, read otherwise, without a word in the log."""
        settings = replace(asked.settings, spec=spec, choices=choices.changed(**options))
        log, request = Log(quiet=2, verbose=False), replace(asked, settings=settings, choices=settings.choices)
        return plan_rows(log, with_tables(log, request), replace(bad, tell=lambda text: None, count=0)).plan

    def readings() -> Sequence[OtherReading]:
        schema, facts = schema_of(asked.inputs, named_in(asked), threads, dict(choices.join))
        others = other_kinds(named_in(asked), schema, facts)
        return [OtherReading(options, partial(plan, options=options)) for options in others]

    return planned._replace(plan=replace(planned.plan, readings=readings))
