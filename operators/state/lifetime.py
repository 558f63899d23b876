"""Lifetime of state entries: each value is stored with the time of the write (or access) that it counts from.

A value written at w with time to live t has expired at w + t. Lists and maps expire element by element.

Source: org.apache.flink.runtime.state.ttl.{TtlUtils,AbstractTtlDecorator}.
"""

from collections.abc import Callable
from typing import Any

from penstock.operators.state.ttl_config import StateTtlConfig

#: A value and the time (milliseconds) it lives from.
Stamped = tuple[Any, int]
Merge = Callable[[Any, Any], Any]


class Lifetime:
    """Stamps values with the time of a clock (milliseconds), and tells those that have expired."""

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._milliseconds = config.get_ttl().to_milliseconds()
        self._renews = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        visibility = config.get_state_visibility()
        self._shows_expired = visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp

    def stamp(self, value: Any) -> Stamped:
        """The value, which lives from now on."""
        return value, self._clock()

    def read(self, entries: dict[Any, Any], key: Any) -> Any:
        """The value of `key`, None if there is none; drops it if it has expired."""
        stamped: Stamped | None = entries.get(key)
        if stamped is None:
            return None
        now = self._clock()
        if stamped[1] + self._milliseconds <= now:
            del entries[key]
            return stamped[0] if self._shows_expired else None
        if self._renews:
            entries[key] = (stamped[0], now)
        return stamped[0]

    def read_list(self, entries: dict[Any, Any], key: Any) -> list[Any]:
        """The elements of the list of `key` that may be seen; drops the list once all have expired."""
        stamped: list[Stamped] = entries.get(key, [])
        now = self._clock()
        alive = [element for element, since in stamped if since + self._milliseconds > now]
        if stamped and not alive:
            del entries[key]
        elif self._renews and stamped:
            entries[key] = [(element, now) for element in alive]
        return [element for element, _ in stamped] if self._shows_expired else alive

    def read_items(self, entries: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """The items of a map that may be seen; drops those that have expired."""
        now = self._clock()
        seen = []
        for key, (value, since) in list(entries.items()):
            if since + self._milliseconds <= now:
                del entries[key]
                if self._shows_expired:
                    seen.append((key, value))
            else:
                if self._renews:
                    entries[key] = (value, now)
                seen.append((key, value))
        return seen

    def merge(self, merge: Merge) -> Merge:
        """`merge`, of two values, for stamped ones: what has expired has no part in it."""
        now = self._clock()

        def merge_stamped(first: Stamped, second: Stamped) -> Stamped:
            alive = [
                value
                for value, since in (first, second)
                if self._shows_expired or since + self._milliseconds > now
            ]
            if not alive:
                return second
            return (merge(*alive) if len(alive) > 1 else alive[0]), now

        return merge_stamped
