"""`omnigraph version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click

from omnigraph import __version__
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output


@click.command(
    epilog="""\b
Examples:
  omnigraph version
  omnigraph version --json"""
)
@common_options
def version(output: Output) -> None:
    """Show the versions of Omnigraph and its parts."""
    versions: dict[str, str | None] = {"omnigraph": __version__}
    versions["python"] = platform.python_version()
    for package in ("pylance", "pyarrow", "pyspark"):
        try:
            versions[package] = installed(package)
        except PackageNotFoundError:
            versions[package] = None
    if output.json:
        output.data(versions)
        return
    for name, number in versions.items():
        output.result(f"{name:<10} {number or 'not installed'}")
