"""`omnigraph serve`: graphs over HTTP."""

from __future__ import annotations

import ipaddress

import click

from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.errors import UsageError
from omnigraph.settings import Settings

_DEFAULT = "127.0.0.1:8080"
_MISSING = "the server needs more packages: pip install 'omnigraph[server]'"


@click.command(
    epilog="""\b
Examples:
  omnigraph serve team.omni
  omnigraph serve team.omni notes=s3://bucket/notes.omni --unauthenticated
  omnigraph serve team.omni --bind 127.0.0.1:0 --workers 2"""
)
@click.argument("graphs", nargs=-1, metavar="[GRAPH]...")
@click.option(
    "--bind",
    metavar="HOST:PORT",
    help=f"Where to listen; port 0 takes a free one. Default: {_DEFAULT}.",
)
@click.option(
    "--workers", metavar="N", type=click.IntRange(1, 64), default=1, help="Processes. Default: 1."
)
@click.option("--unauthenticated", is_flag=True, help="Let everybody do everything.")
@common_options
def serve(
    output: Output,
    graphs: tuple[str, ...],
    bind: str | None,
    workers: int,
    unauthenticated: bool,
) -> None:
    """Serve graphs over HTTP.

    It goes on until Ctrl-C. Each graph is at /graphs/NAME: a folder `team.omni` is
    `team`, and NAME=GRAPH gives it another name. When the port is taken, a line on
    stdout says which it is. Tokens come from OMNIGRAPH_SERVER_BEARER_TOKENS_FILE,
    OMNIGRAPH_SERVER_BEARER_TOKENS_JSON (a JSON object of actors and tokens) or
    OMNIGRAPH_SERVER_BEARER_TOKEN.
    """
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise UsageError(_MISSING)
    from omnigraph.server.access import Access, access_of
    from omnigraph.server.run import serve as run
    from omnigraph.server.served_graphs import places_of

    settings = Settings.from_env()
    store = settings.store
    words = graphs or ((store,) if store else ())
    if not words:
        raise UsageError("name the graphs to serve, or set OMNIGRAPH_STORE")
    host, port = _address(bind or _DEFAULT)
    access = access_of(settings)
    if access is not None and unauthenticated:
        raise UsageError("--unauthenticated, but tokens are set as well; which one is meant?")
    if access is None:
        if not unauthenticated:
            raise UsageError(
                "there are no tokens: set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass"
                " --unauthenticated to let everybody do everything"
            )
        if not _is_loopback(host):
            output.note(
                f"warning: everybody who reaches {host}:{port} can read and change these graphs"
            )
        access = Access(None)
    run(places_of(words), access, host=host, port=port, workers=workers)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--bind {text}: give an address and a port, such as {_DEFAULT}")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
