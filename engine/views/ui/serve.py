"""The server of the run page: its own few routes, on loopback, for browsers that have the token."""

import json
import re
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import BufferedReader
from typing import Any
from urllib.parse import parse_qs, urlsplit

from penstock.engine.run.jobs.job_records import JobRecord
from penstock.engine.views.draw.to_html import asset
from penstock.engine.views.draw.to_svg import style
from penstock.engine.views.ui.connections import Places, Rest, read_head
from penstock.engine.views.ui.guard import Guard
from penstock.engine.views.ui.pages import list_page, message_page, run_page
from penstock.engine.views.ui.run_figures import run_figures
from penstock.engine.views.ui.shown_run import StoredRun, find_run, shown_runs
from penstock.plans.errors import PenstockError

# Scripts and style sheets of the run page.


def own_asset(name: str) -> str:
    """The text of a file beside this one."""
    return files("penstock.engine.views.ui").joinpath(name).read_text(encoding="utf-8")


MOST_CONNECTIONS = 24
"""How many connections browsers with the token may have at a time."""

MOST_STREAMS = 12
"""Pages that are kept up to date at a time."""

_LOOK_SECONDS = 1.0
_SIGN_OF_LIFE_SECONDS = 15.0
_TIMEOUT_SECONDS = 20.0
_LONGEST_FORM_BYTES = 4096
_RUN = re.compile(r"/runs/([0-9a-f]{32})(/events|/cancel)?")

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With none, browsers do not say of forms which page they are of.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    "/picture.css": ("text/css", style),
    "/page.css": ("text/css", lambda: asset("page.css")),
    "/ui.css": ("text/css", lambda: own_asset("ui.css")),
    "/view.js": ("text/javascript", lambda: asset("view.js")),
    "/run.js": ("text/javascript", lambda: own_asset("run.js")),
}


# The server and its routes.


class RunPageServer(ThreadingHTTPServer):
    """Answers on loopback until `shutdown`; `link` is what opens the page.

    Other users of the machine can connect: what they send takes no place from the one who has the token.
    """

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 1024

    def __init__(self, port: int, store: str | None) -> None:
        """At `port` of loopback, or at any that is free if it is 0. OSError where it is taken."""
        self.store = store
        self.closing = threading.Event()
        self.places = Places(MOST_CONNECTIONS)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        super().__init__(("127.0.0.1", port), _Handler)
        self.guard = Guard(self.server_address[1])

    @property
    def link(self) -> str:
        """The address of the page, which holds the token and so is a secret itself."""
        return f"http://127.0.0.1:{self.guard.port}/?token={self.guard.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each connection; of strangers, the one that has waited longest makes room."""
        self.places.let_in(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.places.leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks concerns nobody."""


class _Handler(BaseHTTPRequestHandler):
    """One request: HTTP/1.0, so that a connection ends with its answer."""

    server: RunPageServer
    timeout = _TIMEOUT_SECONDS
    server_version = "Penstock"
    sys_version = ""

    def handle_one_request(self) -> None:
        """Read the head, within bounds of size and time, and look for the token before anything else."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", "GET"
        self.close_connection = True
        head, rest = read_head(self.connection)
        if head is None:
            return
        if not self.server.guard.knows(head):
            said = "Open the link that penstock ui has printed: it holds the token."
            self._page(HTTPStatus.FORBIDDEN, message_page("No token", said))
        elif not self.server.places.admit(self.connection):
            self._page(HTTPStatus.SERVICE_UNAVAILABLE, message_page("Too many", "Close other pages."))
        else:
            self.connection.settimeout(_TIMEOUT_SECONDS)
            self.rfile = BufferedReader(Rest(head + rest, self.connection))
            super().handle_one_request()

    def do_GET(self) -> None:
        """The pages, what they are made of, and what keeps them up to date."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """The button that cancels."""
        self._answer(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request for a page is refused as pages are, without being repeated."""
        status = HTTPStatus(code)
        self._page(
            status,
            message_page(status.phrase, f"{status.description or 'This server answers GET and POST'}."),
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the first request has the token in it."""

    def _answer(self, answer: Callable[[str, dict[str, list[str]]], None]) -> None:
        guard = self.server.guard
        address = urlsplit(self.path)
        if not guard.is_host(self.headers.get("Host")):
            said = "This server has another name."
            self._page(HTTPStatus.MISDIRECTED_REQUEST, message_page("Not here", said))
            return
        query = parse_qs(address.query)
        tokens = query.get("token")
        if self.command == "GET" and address.path == "/" and tokens and guard.is_token(tokens[0]):
            self._redirect("/", {"Set-Cookie": guard.set_cookie()})
            return
        if not guard.has_cookie(self.headers.get("Cookie")):
            said = "Open the link that penstock ui has printed: it holds the token."
            self._page(HTTPStatus.FORBIDDEN, message_page("No token", said))
            return
        try:
            answer(address.path, query)
        except PenstockError as error:
            self._page(HTTPStatus.INTERNAL_SERVER_ERROR, message_page("That cannot be shown", str(error)))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True

    def _get(self, path: str, query: dict[str, list[str]]) -> None:
        if path == "/":
            self._page(HTTPStatus.OK, list_page(shown_runs(self.server.store), self.server.store))
        elif path in ASSETS:
            kind, text = ASSETS[path]
            self._send(HTTPStatus.OK, kind, text())
        elif (match := _RUN.fullmatch(path)) and match[2] in (None, "/events"):
            run = find_run(match[1], self.server.store)
            if run is None:
                self._page(HTTPStatus.NOT_FOUND, message_page("No such run", "It is not listed (any more)."))
            elif match[2] is None:
                self._page(HTTPStatus.OK, run_page(run, self.server.guard.form_token()))
            else:
                self._stream(run)
        else:
            self._page(HTTPStatus.NOT_FOUND, message_page("Nothing here", "There is no such page."))

    def _post(self, path: str, query: dict[str, list[str]]) -> None:
        match = _RUN.fullmatch(path)
        if not match or match[2] != "/cancel":
            self._page(HTTPStatus.NOT_FOUND, message_page("Nothing here", "There is no such page."))
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST_FORM_BYTES:
            self._page(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message_page("Too much", "The form is too long."))
            return
        form = parse_qs(self.rfile.read(int(length)).decode("ascii", "replace"))
        token = form.get("form_token", [""])[0]
        if not self.server.guard.is_own_form(self.headers.get("Origin"), token):
            self._page(HTTPStatus.FORBIDDEN, message_page("Refused", "The form is of another page."))
            return
        run = find_run(match[1], self.server.store)
        if run is not None and not run.is_final and not isinstance(run, StoredRun):
            run.ask_to_cancel()
        self._redirect(f"/runs/{match[1]}", {})

    def _stream(self, run: JobRecord) -> None:
        """Server-sent events: how the run goes, whenever that has changed, until it is over."""
        if not self.server.streams.acquire(blocking=False):
            self._page(HTTPStatus.SERVICE_UNAVAILABLE, message_page("Too many", "Close other pages."))
            return
        try:
            self._head(HTTPStatus.OK, "text/event-stream", {})
            sent, at = "", time.monotonic()
            while not self.server.closing.is_set():
                current = find_run(run.job_id, self.server.store) or run
                texts = run_figures(current)
                event = json.dumps(texts.as_dict())
                if event != sent:
                    self._event(f"data: {event}\n\n")
                    sent, at = event, time.monotonic()
                elif time.monotonic() - at > _SIGN_OF_LIFE_SECONDS:
                    self._event(": still there\n\n")
                    at = time.monotonic()
                if texts.is_final:
                    self._event("event: over\ndata: \n\n")
                    return
                self.server.closing.wait(_LOOK_SECONDS)
        finally:
            self.server.streams.release()

    def _event(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def _page(self, status: HTTPStatus, page: str) -> None:
        self._send(status, "text/html", page)

    def _redirect(self, to: str, headers: dict[str, str]) -> None:
        self._head(HTTPStatus.SEE_OTHER, "text/plain", {**headers, "Location": to, "Content-Length": "0"})

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self._head(status, kind, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True


def serve_run_page(server: RunPageServer) -> None:
    """Answer until the process is told to end."""
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.closing.set()
        server.server_close()
