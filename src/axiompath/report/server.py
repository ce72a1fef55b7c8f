"""Folder of a scan -> the local server: the page on everything that moved, and every explanation of it on demand.

It listens only on this machine, answers GET and HEAD, and writes nothing. A request that names another host, or that
another site's page sends, is refused: a stranger's page in the same browser must not read what is served here. Nothing
of a request is ever a file's name: an address is `/`, or two numbers.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..explain.explanation import Explanation
from ..scan.scan import read_scans
from .html import describe_change
from .scan_page import build_scan_page, describe_row
from .survey import Survey

LOOPBACK, HTTP_PORT = "127.0.0.1", 80
ROW_ADDRESS = re.compile(r"/page/([0-9]{1,9})/([0-9]{1,9})")
SECONDS = 10.0  # that a client may take to ask
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LocalServer(ThreadingHTTPServer):
    """Serves the pages of one folder until it is shut down."""

    daemon_threads = True

    def __init__(
        self, folder: str | Path, port: int = 0, *, by: Any = None, step_names: Sequence[str] | None = None
    ) -> None:
        scans = read_scans(folder)
        page, self.surveys = build_scan_page(scans, by=by, step_names=step_names, served=True)
        self.page = page.encode()
        self.reading = threading.Lock()  # one explanation at a time: a burst of requests must not fill the memory
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"Expected a port that is free on this machine (got {port}: {error}).") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    @property
    def hosts(self) -> frozenset[str]:
        """What a browser on this machine may call it."""
        names = (LOOPBACK, "localhost")
        # Browsers leave out the port that HTTP has anyway.
        bare = names * (self.server_port == HTTP_PORT)
        return frozenset({*bare, *(f"{name}:{self.server_port}" for name in names)})

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone before it had its answer is no error, and nothing of its request is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def explain(self, step: int, row: int) -> bytes | None:
        """The page of one prediction as JSON; None if there is none."""
        if not step < len(self.surveys) or not row < len(self.surveys[step].rows["target"]):
            return None
        survey: Survey = self.surveys[step]
        with self.reading:
            found = survey.scan.at(int(survey.rows["place"][row]))
            if not isinstance(found, Explanation):
                return None
            page = describe_row(survey, row, found)
        return json.dumps({**page, "note": describe_change(page)}, allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer
    timeout = SECONDS
    server_version, sys_version = "AxiomPath", ""

    def do_GET(self) -> None:
        """Answer, or refuse in a sentence."""
        refusal = self._refusal()
        if refusal is not None:
            self._send(HTTPStatus.FORBIDDEN, refusal.encode(), "text/plain; charset=utf-8")
        elif self.path == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif (asked := ROW_ADDRESS.fullmatch(self.path)) is not None:
            self._send_row(int(asked[1]), int(asked[2]))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is no such page here.", "text/plain; charset=utf-8")

    do_HEAD = do_GET

    def _send_row(self, step: int, row: int) -> None:
        try:
            found = self.server.explain(step, row)
        except InputError as error:  # the folder was changed under our feet
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, str(error).encode(), "text/plain; charset=utf-8")
            return
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, b"There is no such prediction here.", "text/plain; charset=utf-8")
        else:
            self._send(HTTPStatus.OK, found, "application/json")

    def _refusal(self) -> str | None:
        hosts, origin = self.headers.get_all("Host") or [], self.headers.get("Origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            return f"Expected a request for {self.server.address} (it named another host)."
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.server.hosts}:
            return "Expected a request of this page itself (another site sent it)."
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "Expected a request of this page itself (another site sent it)."
        return None

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The answer to an invalid request, which repeats nothing of it."""
        self.close_connection = True
        self._send(HTTPStatus(code), b"This is not answered here.", "text/plain; charset=utf-8")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: an address may hold what commands a terminal."""
