"""`omnigraph completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output


@click.command(
    epilog="""\b
Examples:
  source <(omnigraph completion bash)      # in ~/.bashrc
  source <(omnigraph completion zsh)       # in ~/.zshrc, after compinit
  omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
def completion(output: Output, shell: str) -> None:
    """Print a shell completion script.

    Load it when your shell starts, or save it where your shell looks for completions.
    """
    from omnigraph.cli import cli

    complete = get_completion_class(shell)
    assert complete is not None
    # `source` of click's bash class also asks the installed bash for its version, and warns.
    # The script is the same whatever the answer, so print just the script.
    script = complete(cli, {}, "omnigraph", "_OMNIGRAPH_COMPLETE")
    text = script.source_template % script.source_vars()
    if output.json:
        output.data({"shell": shell, "script": text})
    else:
        output.result(text.strip("\n"))
