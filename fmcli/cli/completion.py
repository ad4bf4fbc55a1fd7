"""fmcli completion: the scripts that make shells complete command lines.

A script sends a request by starting fmcli with the current words in its environment (the protocol of
click.shell_completion), and `run` answers it.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from fmcli.cli import COMPLETION
from fmcli.cli.options import SectionCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=SectionCommand,
    name="completion",
    examples=[
        "# For this session of bash; in ~/.bashrc for all.",
        'eval "$(fmcli completion bash)"',
        "# The same for zsh; in ~/.zshrc after compinit.",
        'eval "$(fmcli completion zsh)"',
        "# For all sessions of fish.",
        "fmcli completion fish > ~/.config/fish/completions/fmcli.fish",
    ],
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script for bash, zsh or fish that completes commands, options, file names, and the names of models,
    solvers, losses, metrics and formats."""
    kind = get_completion_class(shell)
    assert kind
    click.echo(kind(ctx.find_root().command, {}, "fmcli", COMPLETION).source())
