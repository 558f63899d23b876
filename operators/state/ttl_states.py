"""Keyed state that expires: beside each value is the time of the write (or access) that it lives from.

What was written at w with time to live t has expired at w + t. Lists and maps expire element by element.

Source: org.apache.flink.runtime.state.ttl.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import concat
from typing import Any

from operators.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from operators.state.keyed_states import Scope, merge_namespaces
from operators.state.reducer_and_aggregator import Aggregator
from operators.state.removing_iterator import removing_items, removing_keys, removing_values
from operators.state.state_table import StateTable
from operators.state.ttl_config import StateTtlConfig

#: A value and the time (milliseconds) it lives from.
_Stamped = tuple[Any, int]


class Expiring:
    """Table, scope and clock of a state that expires."""

    def __init__(
        self, table: StateTable, scope: Scope, config: StateTtlConfig, clock: Callable[[], int]
    ) -> None:
        self._table, self._scope, self._clock = table, scope, clock
        self._lifetime = config.get_ttl().to_milliseconds()
        self._renew = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        visibility = config.get_state_visibility()
        self._see_expired = visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp

    def clear(self) -> None:
        """Forget what is kept for the current key."""
        self._table.entries.pop(self._scope.key, None)

    def _read(self, entries: dict[Any, Any], key: Any) -> Any:
        """The value of `key`, None where there is none; drops it if it has expired."""
        stamped: _Stamped | None = entries.get(key)
        if stamped is None:
            return None
        now = self._clock()
        if stamped[1] + self._lifetime <= now:
            del entries[key]
            return stamped[0] if self._see_expired else None
        if self._renew:
            entries[key] = (stamped[0], now)
        return stamped[0]

    def _merge(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        now = self._clock()

        def merge_stamped(one: _Stamped, other: _Stamped) -> _Stamped:
            alive = [
                value for value, since in (one, other) if self._see_expired or since + self._lifetime > now
            ]
            if not alive:
                return other
            return (merge(*alive) if len(alive) > 1 else alive[0]), now

        merge_namespaces(self._table, self._scope, target, sources, merge_stamped)


class ExpiringValueState(Expiring, ValueState[Any]):
    """One value that expires. Source: TtlValueState."""

    def value(self) -> Any:
        """The current key's value, or None."""
        return self._read(self._table.entries, self._scope.key)

    def update(self, value: Any) -> None:
        """Keep `value` from now on; None forgets."""
        if value is None:
            self.clear()
        else:
            self._table.entries[self._scope.key] = (value, self._clock())

    def keep_none(self) -> None:
        """Let None be what is kept for the current key, so that it is checked as other values are."""
        self._table.entries[self._scope.key] = (None, self._clock())


class ExpiringListState(Expiring, ListState[Any]):
    """A list whose elements expire. Source: TtlListState."""

    def get(self) -> list[Any]:
        """The elements that may be seen."""
        entries, key = self._table.entries, self._scope.key
        some: list[_Stamped] = entries.get(key, [])
        now = self._clock()
        alive = [element for element, since in some if since + self._lifetime > now]
        if some and not alive:
            del entries[key]
        elif self._renew and some:
            entries[key] = [(element, now) for element in alive]
        return [element for element, _ in some] if self._see_expired else alive

    def add(self, value: Any) -> None:
        """Append one element."""
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        """Append all elements."""
        now = self._clock()
        new = [(value, now) for value in values]
        if new:
            self._table.entries.setdefault(self._scope.key, []).extend(new)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list."""
        new = list(values)
        self.clear()
        self.add_all(new)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the lists of the namespaces `sources`, which lose them, to that of `target`."""
        merge_namespaces(self._table, self._scope, target, sources, concat)


class ExpiringReducingState(Expiring, ReducingState[Any]):
    """The reduced value, as long as it lives. Source: TtlReducingState."""

    def __init__(
        self,
        table: StateTable,
        scope: Scope,
        config: StateTtlConfig,
        clock: Callable[[], int],
        reduce_function: Any,
    ) -> None:
        super().__init__(table, scope, config, clock)
        self._reduce = reduce_function.reduce

    def get(self) -> Any:
        """The value, or None."""
        return self._read(self._table.entries, self._scope.key)

    def add(self, value: Any) -> None:
        """Reduce what is there with `value`."""
        entries, key = self._table.entries, self._scope.key
        current = self._read(entries, key)
        entries[key] = (value if current is None else self._reduce(current, value), self._clock())

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the namespaces `sources`, which lose them, into that of `target`."""
        self._merge(target, sources, self._reduce)


class ExpiringAggregatingState(Expiring, AggregatingState[Any, Any]):
    """An accumulator, as long as it lives. Source: TtlAggregatingState."""

    def __init__(
        self,
        table: StateTable,
        scope: Scope,
        config: StateTtlConfig,
        clock: Callable[[], int],
        agg_function: Aggregator,
    ) -> None:
        super().__init__(table, scope, config, clock)
        self._function = agg_function

    def get(self) -> Any:
        """The function's result, or None."""
        accumulator = self._read(self._table.entries, self._scope.key)
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add `value`; None forgets what was added."""
        if value is None:
            self.clear()
            return
        entries, key = self._table.entries, self._scope.key
        accumulator = self._read(entries, key)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        entries[key] = (self._function.add(value, accumulator), self._clock())

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the namespaces `sources`, which lose them, into that of `target`."""
        self._merge(target, sources, self._function.merge)


class ExpiringMapState(Expiring, MapState[Any, Any]):
    """A dictionary whose entries expire. Source: TtlMapState."""

    def get(self, key: Any) -> Any:
        """The value of `key`, or None."""
        some = self._table.entries.get(self._scope.key)
        if some is None:
            return None
        value = self._read(some, key)
        if not some:
            self.clear()
        return value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`."""
        self._table.entries.setdefault(self._scope.key, {})[key] = (value, self._clock())

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set several values."""
        now = self._clock()
        if dict_value:
            new = {key: (value, now) for key, value in dict(dict_value).items()}
            self._table.entries.setdefault(self._scope.key, {}).update(new)

    def remove(self, key: Any) -> None:
        """Forget `key`, if it is there."""
        some = self._table.entries.get(self._scope.key)
        if some is not None:
            some.pop(key, None)
            if not some:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None."""
        return self.get(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries that may be seen."""
        return removing_items(self._seen(), self.remove)

    def _seen(self) -> list[tuple[Any, Any]]:
        some = self._table.entries.get(self._scope.key)
        if some is None:
            return []
        now = self._clock()
        seen = []
        for key, (value, since) in list(some.items()):
            if since + self._lifetime <= now:
                del some[key]
                if self._see_expired:
                    seen.append((key, value))
            else:
                if self._renew:
                    some[key] = (value, now)
                seen.append((key, value))
        if not some:
            self.clear()
        return seen

    def keys(self) -> Iterator[Any]:
        """All keys that may be seen."""
        return removing_keys([key for key, _ in self._seen()], self.remove)

    def values(self) -> Iterator[Any]:
        """All values that may be seen."""
        return removing_values(self._seen(), self.remove)

    def is_empty(self) -> bool:
        """Whether there is no entry, expired ones that nobody has read included (as in Flink)."""
        return self._scope.key not in self._table.entries
