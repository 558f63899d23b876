"""DuckDB in a thread, so that Ctrl-C and SIGTERM stop what runs there."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Result = TypeVar("Result")
_SECONDS_BETWEEN_INTERRUPTS = 0.05


@contextmanager
def in_thread(connection: "DuckDBPyConnection") -> Iterator[Callable[[Callable[[], Result]], Result]]:
    """What runs an action of `connection` in a thread, and waits for it.

    A signal that comes meanwhile interrupts the connection: DuckDB itself looks for signals only
    now and then.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="penstock-sql") as pool:

        def run(action: Callable[[], Result]) -> Result:
            future = pool.submit(action)
            try:
                return future.result()
            except BaseException:
                future.cancel()
                # Again and again: an interrupt that comes before DuckDB has begun is lost.
                while not future.done():
                    connection.interrupt()
                    wait([future], _SECONDS_BETWEEN_INTERRUPTS)
                raise

        yield run
