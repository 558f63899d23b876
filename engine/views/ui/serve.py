"""Serve the run page on loopback for browsers that have the token."""

import hashlib
import hmac
import io
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import BufferedReader
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.job_records import JobRecord
from penstock.engine.run.streams.stream_records import StreamRecord, list_streams, look_up_stream
from penstock.engine.store.plan_tables import plan_in_memory
from penstock.engine.views.draw.drawn_plan import plan_of_topology
from penstock.engine.views.draw.graph import DrawnGraph, fold
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, graph_of_layer
from penstock.engine.views.draw.lay_out import style
from penstock.engine.views.draw.to_dot import asset, json_of_page, layer_of_page
from penstock.engine.views.ui.run_figures import (
    RunTexts,
    StoredRun,
    find_run,
    list_runs,
    run_figures,
    seconds,
    stream_texts,
    tables_to_draw,
)
from penstock.plans.errors import PenstockError
from penstock.plans.printable import printable

# Limits on connections of strangers and of browsers with the token, and reading of request heads.


MOST_STRANGERS = 256
"""Connections that have not sent the token, at a time."""

PATIENCE_SECONDS = 0.25
"""Time in which a new connection need not make room, so that it can send its token."""

LONGEST_HEAD_BYTES = 16 << 10
"""Limit on the head of a request: its first line and its headers."""
HEAD_SECONDS = 10.0
"""Time after which a connection without a complete head is closed."""

_END = b"\r\n\r\n"


class Connections:
    """Open connections. Strangers have a limit of their own; beyond it, the oldest makes room."""

    def __init__(self, most_known: int) -> None:
        self._most_known = most_known
        self._strangers: dict[Any, float] = {}  # start times, oldest first
        self._known: set[Any] = set()
        self._changed = threading.Condition()

    def let_in(self, connection: socket.socket) -> None:
        """Accept a connection as a stranger; if there are too many, close the oldest whose time is over."""
        with self._changed:
            while len(self._strangers) >= MOST_STRANGERS:
                oldest, since = next(iter(self._strangers.items()))
                remaining_seconds = since + PATIENCE_SECONDS - time.monotonic()
                if remaining_seconds <= 0:
                    del self._strangers[oldest]
                    with suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread ends
                else:
                    self._changed.wait(remaining_seconds)
            self._strangers[connection] = time.monotonic()

    def admit(self, connection: socket.socket) -> bool:
        """Promote a stranger that has sent the token; return False if too many are connected already."""
        with self._changed:
            if self._strangers.pop(connection, None) is None or len(self._known) >= self._most_known:
                return False
            self._known.add(connection)
            self._changed.notify_all()
            return True

    def leave(self, connection: socket.socket) -> None:
        """Free the place of a connection that has ended."""
        with self._changed:
            self._strangers.pop(connection, None)
            self._known.discard(connection)
            self._changed.notify_all()


def _read_head(connection: socket.socket) -> tuple[bytes | None, bytes]:
    """Read a request's head, with its end, and later bytes; the head is None if too long or too late."""
    received = bytearray()
    until = time.monotonic() + HEAD_SECONDS
    while (end := received.find(_END)) < 0:
        remaining_seconds = until - time.monotonic()
        if len(received) >= LONGEST_HEAD_BYTES or remaining_seconds <= 0:
            return None, b""
        connection.settimeout(remaining_seconds)
        try:
            chunk = connection.recv(LONGEST_HEAD_BYTES - len(received))
        except OSError:  # a timeout too
            return None, b""
        if not chunk:
            return None, b""
        received += chunk
    end += len(_END)
    return bytes(received[:end]), bytes(received[end:])


class PrefixedStream(io.RawIOBase):
    """The bytes already read from a connection, then the following ones."""

    def __init__(self, received: bytes, connection: socket.socket) -> None:
        self._received = memoryview(received)
        self._connection = connection

    def readable(self) -> bool:
        """Return True, because the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, like io.RawIOBase."""
        if not self._received:
            return self._connection.recv_into(buffer)
        taken = min(len(buffer), len(self._received))
        buffer[:taken] = self._received[:taken]
        self._received = self._received[taken:]
        return taken


# Access: only browsers with the link's token, and only from pages of this server.


_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """The token of one server, at `port` of loopback."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = port
        # browsers share one cookie jar for all ports of a machine
        self.cookie = f"penstock_{port}"

    def is_token(self, token: str) -> bool:
        """Compare with the token, in constant time."""
        return _equal(token, self.token)

    def is_host(self, host: str | None) -> bool:
        """Return whether a Host header names this server; another name that resolves here is an attack."""
        return host in {f"{name}:{self.port}" for name in _NAMES}

    def has_cookie(self, header: str | None) -> bool:
        """Return whether a Cookie header has the token, in time that depends only on its length."""
        pairs = (pair.strip().partition("=") for pair in (header or "").split(";"))
        return any(self.is_token(value) for name, _, value in pairs if name == self.cookie)

    def knows(self, head: bytes) -> bool:
        """Return whether the head of a request has the token, in its cookie or its link."""
        request, *fields = head.decode("latin-1").split("\r\n")
        if self._has_link_token(request):
            return True
        cookies = (field.partition(":")[2] for field in fields if field[:7].lower() == "cookie:")
        return any(map(self.has_cookie, cookies))

    def _has_link_token(self, request: str) -> bool:
        try:
            _, path, _ = request.split(" ")
            tokens = parse_qs(urlsplit(path).query).get("token")
        except ValueError:  # not a request, or not an address
            return False
        return tokens is not None and self.is_token(tokens[0])

    def set_cookie(self) -> str:
        """Return the header that sets the token's cookie, hidden from scripts and not sent by other sites."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def form_token(self) -> str:
        """Return the token of forms on this server's pages, which does not reveal the server's own token."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()

    def is_own_form(self, origin: str | None, form_token: str) -> bool:
        """Return whether a form comes from a page of this server."""
        if origin is not None:
            address = urlsplit(origin)
            if address.scheme != "http" or not self.is_host(address.netloc):
                return False
        return _equal(form_token, self.form_token())


def _equal(text: str, wanted: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), wanted.encode())


# Pages: the list of runs, and one run with its plan. Foreign texts are escaped.


_ROOM_OF_NOTE = 28


def _list_page(runs: Sequence[JobRecord], streams: Sequence[StreamRecord], store: str | None) -> str:
    """Render all runs and streams, newest first."""
    rows = [
        {
            "id": run.job_id,
            "name": printable(redact(run.submitted.name)),
            "state": run.state,
            "started": _time(run.submitted.started_at),
            "seconds": seconds(run.milliseconds),
            "mode": run.submitted.runtime_mode,
            "where": "store" if isinstance(run, StoredRun) else run.submitted.cluster_kind,
        }
        for run in runs
    ]
    shown = None if store is None else printable(redact(store))
    page = _templates().get_template("list.html.j2")
    return str(page.render(runs=rows, streams=list(map(stream_texts, streams)), store=shown))


def _stream_page(stream: StreamRecord) -> str:
    """Render one stream with its latest batches."""
    return str(_templates().get_template("stream.html.j2").render(stream=stream_texts(stream)))


def _run_page(run: JobRecord, form_token: str) -> str:
    """Render one run, without its picture if its plan cannot be read."""
    texts = run_figures(run)
    submitted = run.submitted
    facts = [
        ("job", run.job_id),
        ("started", _time(submitted.started_at)),
        ("mode", submitted.runtime_mode),
        ("cluster", " ".join(filter(None, [submitted.cluster_kind, submitted.master, submitted.session]))),
        ("script", " ".join(filter(None, [submitted.script, *submitted.arguments]))),
    ]
    layer = _picture(run, texts)
    page = _templates().get_template("run.html.j2")
    return str(
        page.render(
            id=run.job_id,
            name=printable(redact(submitted.name)),
            facts=[(heading, printable(redact(text))) for heading, text in facts if text],
            run=texts,
            layer=layer,
            data=Markup("[]") if layer is None else json_of_page([layer["data"]]),
            form_token=form_token,
        )
    )


def _message_page(title: str, message: str) -> str:
    """Render a page with a message."""
    page = _templates().get_template("message.html.j2")
    return str(page.render(title=title, message=printable(redact(message))))


def _picture(run: JobRecord, texts: RunTexts) -> dict[str, object] | None:
    try:
        plan = plan_of_topology(plan_in_memory("the run", tables_to_draw(run), {}, None), None)
        graph = graph_of_layer(plan, DrawnLayer.JOB_GRAPH)
    except (PenstockError, KeyError):
        return None
    notes = {vertex.key: vertex.note for vertex in texts.vertices}
    return layer_of_page(fold(_with_notes(graph, notes), "auto"), 0)


def _with_notes(graph: DrawnGraph, notes: dict[str, str]) -> DrawnGraph:
    """Add the state of vertices to their boxes, which are wide enough for later states."""
    nodes = tuple(
        replace(node, note=notes.get(node.key, "CREATED").ljust(_ROOM_OF_NOTE, "\u2002"))
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("penstock.engine.views.ui", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# Scripts and style sheets of the run page.


def read_asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return files("penstock.engine.views.ui").joinpath(name).read_text(encoding="utf-8")


MOST_CONNECTIONS = 24
"""Connections of browsers with the token, at a time."""

MOST_STREAMS = 12
"""Pages with live updates, at a time."""

_LOOK_SECONDS = 1.0
_SIGN_OF_LIFE_SECONDS = 15.0
_TIMEOUT_SECONDS = 20.0
_LONGEST_FORM_BYTES = 4096
_RUN = re.compile(r"/runs/([0-9a-f]{32})(/events|/cancel)?")
_STREAM = re.compile(r"/streams/([0-9a-f]{32})")

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "none", browsers do not report which page a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    "/picture.css": ("text/css", style),
    "/page.css": ("text/css", lambda: asset("page.css")),
    "/ui.css": ("text/css", lambda: read_asset("ui.css")),
    "/view.js": ("text/javascript", lambda: asset("view.js")),
    "/run.js": ("text/javascript", lambda: read_asset("run.js")),
}


# The server and its routes.


class RunPageServer(ThreadingHTTPServer):
    """Answers on loopback until `shutdown`; `link` opens the page.

    Other users of the machine can connect, but their requests take no place from the owner of the token.
    """

    daemon_threads = True
    allow_reuse_address = False
    request_queue_size = 1024

    def __init__(self, port: int, store: str | None) -> None:
        """Listen at `port` of loopback, or at any free port if it is 0. Raises OSError if it is taken."""
        self.store = store
        self.closing = threading.Event()
        self.places = Connections(MOST_CONNECTIONS)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        super().__init__(("127.0.0.1", port), _Handler)
        self.guard = Guard(self.server_address[1])

    @property
    def link(self) -> str:
        """Return the address of the page, which contains the token and so is secret."""
        return f"http://127.0.0.1:{self.guard.port}/?token={self.guard.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection; among strangers, the one that has waited longest makes room."""
        self.places.let_in(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.places.leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the connection, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


class _Handler(BaseHTTPRequestHandler):
    """Handles one request with HTTP/1.0, so that a connection ends with its answer."""

    server: RunPageServer
    timeout = _TIMEOUT_SECONDS
    server_version = "Penstock"
    sys_version = ""

    def handle_one_request(self) -> None:
        """Read the head, limited in size and time, and check the token before anything else."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.0", "GET"
        self.close_connection = True
        head, rest = _read_head(self.connection)
        if head is None:
            return
        if not self.server.guard.knows(head):
            message = "Open the link that penstock ui printed: it contains the token."
            self._page(HTTPStatus.FORBIDDEN, _message_page("No token", message))
        elif not self.server.places.admit(self.connection):
            self._page(HTTPStatus.SERVICE_UNAVAILABLE, _message_page("Too many", "Close other pages."))
        else:
            self.connection.settimeout(_TIMEOUT_SECONDS)
            self.rfile = BufferedReader(PrefixedStream(head + rest, self.connection))
            super().handle_one_request()

    def do_GET(self) -> None:
        """Serve pages, their scripts and styles, and live updates."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Handle the button that cancels."""
        self._answer(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse invalid requests with a page that does not repeat them."""
        status = HTTPStatus(code)
        self._page(
            status,
            _message_page(status.phrase, f"{status.description or 'This server answers GET and POST'}."),
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the first request contains the token."""

    def _answer(self, answer: Callable[[str, dict[str, list[str]]], None]) -> None:
        guard = self.server.guard
        address = urlsplit(self.path)
        if not guard.is_host(self.headers.get("Host")):
            message = "This server has another name."
            self._page(HTTPStatus.MISDIRECTED_REQUEST, _message_page("Not here", message))
            return
        query = parse_qs(address.query)
        tokens = query.get("token")
        if self.command == "GET" and address.path == "/" and tokens and guard.is_token(tokens[0]):
            self._redirect("/", {"Set-Cookie": guard.set_cookie()})
            return
        if not guard.has_cookie(self.headers.get("Cookie")):
            message = "Open the link that penstock ui printed: it contains the token."
            self._page(HTTPStatus.FORBIDDEN, _message_page("No token", message))
            return
        try:
            answer(address.path, query)
        except PenstockError as error:
            self._page(HTTPStatus.INTERNAL_SERVER_ERROR, _message_page("This cannot be shown", str(error)))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True

    def _get(self, path: str, query: dict[str, list[str]]) -> None:
        if path == "/":
            self._page(
                HTTPStatus.OK, _list_page(list_runs(self.server.store), list_streams(), self.server.store)
            )
        elif path in ASSETS:
            kind, text = ASSETS[path]
            self._send(HTTPStatus.OK, kind, text())
        elif (match := _RUN.fullmatch(path)) and match[2] in (None, "/events"):
            run = find_run(match[1], self.server.store)
            if run is None:
                self._page(
                    HTTPStatus.NOT_FOUND, _message_page("Run not found", "It is not listed, or no longer.")
                )
            elif match[2] is None:
                self._page(HTTPStatus.OK, _run_page(run, self.server.guard.form_token()))
            else:
                self._stream(run)
        elif match := _STREAM.fullmatch(path):
            stream = look_up_stream(match[1])
            if stream is None:
                message = "It is not listed, or no longer."
                self._page(HTTPStatus.NOT_FOUND, _message_page("Stream not found", message))
            else:
                self._page(HTTPStatus.OK, _stream_page(stream))
        else:
            self._page(HTTPStatus.NOT_FOUND, _message_page("Not found", "This page does not exist."))

    def _post(self, path: str, query: dict[str, list[str]]) -> None:
        match = _RUN.fullmatch(path)
        if not match or match[2] != "/cancel":
            self._page(HTTPStatus.NOT_FOUND, _message_page("Not found", "This page does not exist."))
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST_FORM_BYTES:
            self._page(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _message_page("Too much", "The form is too long.")
            )
            return
        form = parse_qs(self.rfile.read(int(length)).decode("ascii", "replace"))
        token = form.get("form_token", [""])[0]
        if not self.server.guard.is_own_form(self.headers.get("Origin"), token):
            self._page(HTTPStatus.FORBIDDEN, _message_page("Refused", "The form comes from another page."))
            return
        run = find_run(match[1], self.server.store)
        if run is not None and not run.is_final and not isinstance(run, StoredRun):
            run.ask_to_cancel()
        self._redirect(f"/runs/{match[1]}", {})

    def _stream(self, run: JobRecord) -> None:
        """Send an event whenever the state of the run changes, until it ends."""
        if not self.server.streams.acquire(blocking=False):
            self._page(HTTPStatus.SERVICE_UNAVAILABLE, _message_page("Too many", "Close other pages."))
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
                    self._event(": keep-alive\n\n")
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
    """Serve until the process is terminated."""
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        server.closing.set()
        server.server_close()
