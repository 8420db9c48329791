"""`report --serve`: the website on this machine's own loopback address, for nobody else."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Quiet(SimpleHTTPRequestHandler):
    """Files of one folder, without a line for every request."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


def server(results: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of everything under `results`, bound to 127.0.0.1; port 0 = any free one.

    Raises:
        OSError: the port is taken.
    """
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(results)))


def serve(results: Path, port: int) -> None:
    """Serves until Ctrl-C."""
    with server(results, port) as listening:
        print(f"http://127.0.0.1:{listening.server_port}/report/index.html  (Ctrl-C stops)", flush=True)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            print("stopped")
