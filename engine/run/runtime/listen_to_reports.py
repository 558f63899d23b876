"""Listens to reports of a job's subtasks: JSON lines from senders that know its token, on one thread."""

import asyncio
import json
import secrets
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from penstock.operators.task.report import LONGEST_REPORT

LONGEST_GREETING = 1024
"""Bytes of the first line, which holds the token."""

AUTHENTICATION_SECONDS = 10.0
"""A connection that has not sent its token by then is closed."""

MOST_STRANGERS = 256
"""Connections without a token so far; of more, the one that has waited longest makes room."""

PATIENCE_SECONDS = 1.0
"""For so long no connection has to make room: one that is about to send its token is let in."""

CHANGE_SECONDS = 0.1
"""Between two calls that say that there were reports."""

_CHUNK = 32768
_PAUSE_SECONDS = 0.01
"""Before each chunk of a connection, so that one that sends without end leaves time for all else."""

_BACKLOG = 1024


class ReportServer:
    """A context manager that hands reports to `take`, and says so by `on_change`; all run on its thread.

    A connection first sends an object whose `token` is the job's, then any number of reports. It is closed at
    a line that is too long or no JSON object, and where `take` returns False; nothing is printed. `hung_up`
    gets the last report that was taken of a connection that has ended.
    """

    def __init__(
        self,
        host: str,
        token: str,
        take: Callable[[dict[str, Any]], bool],
        hung_up: Callable[[dict[str, Any]], None],
        on_change: Callable[[], None],
    ) -> None:
        self._host, self._token = host, token.encode()
        self._take, self._hung_up, self._on_change = take, hung_up, on_change
        self._connections: set[socket.socket] = set()
        self._strangers: dict[asyncio.Task[None], float] = {}  # since when, the oldest first
        self._room = asyncio.Event()
        self._change: asyncio.TimerHandle | None = None

    def __enter__(self) -> "ReportServer":
        """Start listening."""
        self._socket = socket.create_server((self._host, 0), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._loop = asyncio.new_event_loop()
        self._listening = self._loop.create_task(self._listen())
        self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Close all connections and end the thread."""
        self._loop.call_soon_threadsafe(self._listening.cancel)
        self._thread.join()
        self._socket.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port where it listens."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def drain(self, seconds: float = 1.0) -> None:
        """Wait until all that has arrived by now is taken, for `seconds` at most."""
        asyncio.run_coroutine_threadsafe(self._drained(seconds), self._loop).result()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._listening)
        except asyncio.CancelledError:
            pass
        finally:
            for connection in self._connections:  # of those that were never heard
                connection.close()
            self._loop.close()

    async def _listen(self) -> None:
        async with asyncio.TaskGroup() as connections:
            while True:
                await self._make_room()
                try:
                    connection, _ = self._socket.accept()
                except BlockingIOError:
                    await self._arrival()
                    continue
                except OSError:  # it is gone already, or this process has no descriptor left
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                self._connections.add(connection)
                connection.setblocking(False)
                task = connections.create_task(self._hear(connection))
                self._strangers[task] = self._loop.time()
                task.add_done_callback(self._no_stranger)
                await asyncio.sleep(0)

    async def _arrival(self) -> None:
        """Wait until somebody connects. Not by sock_accept: cancelled, it loses whom it has let in."""
        arrived = asyncio.Event()
        self._loop.add_reader(self._socket, arrived.set)
        try:
            await arrived.wait()
        finally:
            self._loop.remove_reader(self._socket)

    async def _make_room(self) -> None:
        while len(self._strangers) >= MOST_STRANGERS:
            oldest, since = next(iter(self._strangers.items()))
            self._room.clear()
            try:
                async with asyncio.timeout_at(since + PATIENCE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                oldest.cancel()
                self._no_stranger(oldest)

    def _no_stranger(self, task: "asyncio.Task[None]") -> None:
        if self._strangers.pop(task, None) is not None:
            self._room.set()

    async def _hear(self, connection: socket.socket) -> None:
        received = bytearray()
        taken = None
        try:
            async with asyncio.timeout(AUTHENTICATION_SECONDS):
                greeting = await self._message(connection, received, LONGEST_GREETING)
            token = (greeting or {}).get("token")
            if not isinstance(token, str) or not self._is_token(token):
                return
            self._no_stranger(asyncio.current_task())  # type: ignore[arg-type]
            while (report := await self._message(connection, received, LONGEST_REPORT)) is not None:
                if not self._take(report):
                    return
                taken = report
                if self._change is None:
                    self._change = self._loop.call_later(CHANGE_SECONDS, self._tell)
        except OSError:  # a timeout too
            return
        finally:
            self._connections.discard(connection)
            connection.close()
            if taken is not None:
                self._hung_up(taken)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(errors="replace"), self._token)

    def _tell(self) -> None:
        self._change = None
        self._on_change()

    async def _message(
        self, connection: socket.socket, received: bytearray, longest: int
    ) -> dict[str, Any] | None:
        """The object on the next line; None at the end, and where the line is too long or no object."""
        while (end := received.find(b"\n")) < 0:
            if len(received) > longest:
                return None
            await asyncio.sleep(_PAUSE_SECONDS)
            chunk = await self._loop.sock_recv(connection, min(_CHUNK, longest + 1))
            if not chunk:
                return None
            received += chunk
        line = bytes(received[:end])
        del received[: end + 1]
        try:
            message = json.loads(line) if len(line) <= longest else None
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    async def _drained(self, seconds: float) -> None:
        until, quiet = self._loop.time() + seconds, 0
        while quiet < 2 and self._loop.time() < until:  # what is read is taken one turn of the loop later
            quiet = 0 if self._has_arrived() else quiet + 1
            await asyncio.sleep(_PAUSE_SECONDS)

    def _has_arrived(self) -> bool:
        """Whether a connection, or what is to be accepted, has not been read to its end so far."""
        readable = select.poll()
        for source in (self._socket, *self._connections):
            readable.register(source, select.POLLIN)
        return bool(readable.poll(0))
