"""Results that are available later. Source: pyflink.common.completable_future."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any


class CompletableFuture:
    """A result that is available later; `py_class`, if given, converts it."""

    def __init__(self, future: "Future[Any]", py_class: Callable[[Any], Any] | None = None) -> None:
        self._future = future
        self._py_class = py_class

    def cancel(self) -> bool:
        """Give up waiting for it; whether it is cancelled now. What has begun is not stopped by it."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was cancelled before it came."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether it came, failed or was cancelled."""
        return self._future.done()

    def result(self) -> Any:
        """Wait for it and give it; raises what it failed with."""
        result = self._future.result()
        return result if self._py_class is None else self._py_class(result)

    def exception(self) -> BaseException | None:
        """The exception that it failed with; None if it has a result, or none yet."""
        if not self._future.done():
            return None
        return CancelledError() if self._future.cancelled() else self._future.exception()

    def __str__(self) -> str:
        state = "Not completed"
        if self.done():
            state = "Completed normally" if self.exception() is None else "Completed exceptionally"
        return f"CompletableFuture[{state}]"
