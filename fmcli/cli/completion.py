"""fmcli completion: scripts by which shells complete command lines, and the answers to what those scripts ask.

A script asks by starting fmcli with the words so far in its environment (click.shell_completion has the protocol).
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class, shell_complete

from fmcli.cli import COMPLETION
from fmcli.cli.options import SectionCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=SectionCommand,
    name="completion",
    short_help="Print a script by which a shell completes fmcli's words.",
    examples=[
        "# For this session of bash; in ~/.bashrc for all.",
        'eval "$(fmcli completion bash)"',
        "# The same for zsh, in ~/.zshrc behind compinit.",
        'eval "$(fmcli completion zsh)"',
        "# For all sessions of fish.",
        "fmcli completion fish > ~/.config/fish/completions/fmcli.fish",
    ],
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script by which bash, zsh or fish complete commands, options, the names of models, solvers, losses,
    metrics and formats, and files."""
    kind = get_completion_class(shell)
    assert kind
    click.echo(kind(ctx.find_root().command, {}, "fmcli", COMPLETION).source())


def answer(group: click.Command, question: str) -> int:
    """Print what may follow the words in the environment; the exit status."""
    return shell_complete(group, {}, "fmcli", COMPLETION, question)
