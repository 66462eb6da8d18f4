"""The S3 server of the tests, a process of its own: `python -m tests.s3.server PORT`.

It is moto's S3 without what half the time of a request goes to: finding out which of two hundred
services is meant, a connection for each request, a log, and times that are parsed again and again.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

# Read when moto is imported: nobody asks from a browser.
os.environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"

from moto.core import serialize
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, *arguments: Any) -> None:
        return


def serve(port: int) -> None:
    """Serve until the process is ended."""
    times: Any = serialize
    times.parse_to_aware_datetime = lru_cache(None)(times.parse_to_aware_datetime)
    app = create_backend_app("s3")
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=_Handler)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
