"""The options that the commands that compare options share: the options of train, except the ones they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import click

from fmcli.cli.files import FileName
from fmcli.cli.options import SectionOption
from fmcli.cli.train.kind_help import KindCommand
from fmcli.registry.modes import MODES


class ComparingCommand(KindCommand):
    """A command with the options of train, except for options that it excludes by the mode of its name.

    others : option -> its metavar, or None, and its help, where they differ from train.
    roles : option -> the role of the file that it names, where it differs from train.
    """

    others: ClassVar[Mapping[str, tuple[str | None, str]]] = {}
    roles: ClassVar[Mapping[str, FileName]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            parameter.type = self.roles.get(parameter.name or "", parameter.type)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        refused = set(next(mode for mode in MODES if mode.name == self.name).refuses)
        refused.update(option for mode in MODES if mode.name in refused for option in mode.suboptions)
        for parameter in self.params:
            if isinstance(parameter, SectionOption) and parameter.name in refused:
                parameter.hidden = True
            elif isinstance(parameter, SectionOption) and parameter.name in self.others:
                parameter.metavar, parameter.help = self.others[parameter.name]
        return super().get_params(ctx)
