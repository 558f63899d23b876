"""All keyed state of one operator in one subtask.

Source: org.apache.flink.runtime.state.heap.HeapKeyedStateBackend for the meaning of state; spilling is
Penstock's addition.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import concat
from typing import Any, Protocol

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.state.broadcast_states import removing_items, removing_keys, removing_values
from penstock.operators.state.interfaces import (
    AggregatingState,
    AggregatingStateDescriptor,
    Aggregator,
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from penstock.operators.state.state_segments import PICKLES, EntryForm, entry_form
from penstock.operators.state.state_table import SpilledEntries, StateTable
from penstock.operators.state.stored_state import TableRecord
from penstock.operators.state.ttl_config import StateTtlConfig
from penstock.operators.state.value_check import Check, entry_check, no_check, value_check

# Keyed state over plain dictionaries, with lifetimes and checks of declared types
#
# A handle finds its value under the key of its scope: the backend (the key of the current record), or the
# backend's namespace scope (that key and a window).
#
# PyFlink encodes the state of a function at the end of a bundle, and fails if a value is not of the declared
# type. Here state mostly stays in memory as Python objects. Elements of lists and entries of maps are checked
# when they are added. For a single value (value, reducing and aggregating state) only the last one counts:
# the table checks it about as often as PyFlink ends a bundle, so `update(None)` is an error unless another
# value or `clear` follows.
#
# Source: pyflink.fn_execution.state_impl; org.apache.flink.runtime.state.{heap,ttl}.


# Lifetime of state entries: each value is stored with the time of its write (or last access)
#
# A value written at w with time to live t expires at w + t. Lists and maps expire element by element.
#
# Source: org.apache.flink.runtime.state.ttl.{TtlUtils,AbstractTtlDecorator}.


#: A value and the time (milliseconds) at which its life began.
StampedValue = tuple[Any, int]
Merge = Callable[[Any, Any], Any]


class Lifetime:
    """Stamps values with the time of a clock (milliseconds), and drops values that have expired."""

    def __init__(self, config: StateTtlConfig, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._milliseconds = config.get_ttl().to_milliseconds()
        self._renews = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        visibility = config.get_state_visibility()
        self._shows_expired = visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp

    def stamp(self, value: Any) -> StampedValue:
        """Return the value with the current time, at which its life begins."""
        return value, self._clock()

    def read(self, entries: dict[Any, Any], key: Any) -> Any:
        """Return the value of `key`, or None; delete it if it has expired."""
        stamped: StampedValue | None = entries.get(key)
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
        """Return the visible elements of the list of `key`; delete the list once all have expired."""
        stamped: list[StampedValue] = entries.get(key, [])
        now = self._clock()
        alive = [element for element, since in stamped if since + self._milliseconds > now]
        if stamped and not alive:
            del entries[key]
        elif self._renews and stamped:
            entries[key] = [(element, now) for element in alive]
        return [element for element, _ in stamped] if self._shows_expired else alive

    def read_items(self, entries: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """Return the visible items of a map; delete expired ones."""
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
        """Return a merge function for stamped values that leaves out expired ones."""
        now = self._clock()

        def merge_stamped(first: StampedValue, second: StampedValue) -> StampedValue:
            alive = [
                value
                for value, since in (first, second)
                if self._shows_expired or since + self._milliseconds > now
            ]
            if not alive:
                return second
            return (merge(*alive) if len(alive) > 1 else alive[0]), now

        return merge_stamped


class Scope(Protocol):
    """Provides the current key, and perhaps namespace, of the state."""

    key: Any

    def key_of(self, namespace: Any) -> Any:
        """Load the state of another namespace of the same stream key, and return its key."""


class _KeyedState:
    """A state with its table, scope and lifetime, if it expires."""

    def __init__(self, table: StateTable, scope: Scope, lifetime: Lifetime | None = None) -> None:
        self._table, self._scope, self._lifetime = table, scope, lifetime

    def clear(self) -> None:
        """Delete the value of the current key."""
        self._table.entries.pop(self._scope.key, None)

    def _read(self) -> Any:
        """Return the current key's value, or None."""
        if self._lifetime is None:
            return self._table.entries.get(self._scope.key)
        return self._lifetime.read(self._table.entries, self._scope.key)

    def _read_checked(self) -> Any:
        """Return the value as `_read` does, but check values of windows first.

        Most of them are cleared before the next commit.
        """
        if self._table.namespaced and self._table.check is not None:
            self._table.commit()
        return self._read()

    def _write(self, value: Any) -> None:
        """Set the value of the current key, and mark it for the table's check."""
        table, key = self._table, self._scope.key
        table.entries[key] = value if self._lifetime is None else self._lifetime.stamp(value)
        if table.check is not None:
            table.written.add(key)

    def _merge(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        """Move the values of the namespaces `sources` of the current key into the namespace `target`.

        `merge` makes one value of two. The sources are merged with one another first, as in Flink.
        """
        keys = [self._scope.key_of(namespace) for namespace in sources]
        into = self._scope.key_of(target)
        entries = self._table.entries
        merged = None
        for key in keys:
            value = entries.pop(key, None)
            if value is not None:
                merged = value if merged is None else merge(merged, value)
        if merged is not None:
            current = entries.get(into)
            entries[into] = merged if current is None else merge(current, merged)
        if self._table.check is not None:
            self._table.written.add(into)

    def _merge_values(self, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        self._merge(target, sources, merge if self._lifetime is None else self._lifetime.merge(merge))


class KeyedValueState(_KeyedState, ValueState[Any]):
    """One value. Source: HeapValueState, TtlValueState."""

    def value(self) -> Any:
        """Return the current key's value, or None."""
        if self._lifetime is None:  # `_read` inlined: called for each record
            return self._table.entries.get(self._scope.key)
        return self._lifetime.read(self._table.entries, self._scope.key)

    def update(self, value: Any) -> None:
        """Set the value. None deletes it, unless values are checked: then None is checked as well."""
        table, key = self._table, self._scope.key
        if table.check is not None:
            table.written.add(key)
        elif value is None:
            table.entries.pop(key, None)
            return
        table.entries[key] = value if self._lifetime is None else self._lifetime.stamp(value)


class KeyedListState(_KeyedState, ListState[Any]):
    """A list. Source: HeapListState, TtlListState."""

    def __init__(
        self, table: StateTable, scope: Scope, lifetime: Lifetime | None = None, check: Check | None = None
    ) -> None:
        super().__init__(table, scope, lifetime)
        self._check = check

    def get(self) -> Iterable[Any]:
        """Return a copy of the current key's list."""
        if self._lifetime is not None:
            return self._lifetime.read_list(self._table.entries, self._scope.key)
        elements = self._table.entries.get(self._scope.key)
        return elements.copy() if elements else []

    def add(self, value: Any) -> None:
        """Append one element. Raises if it is not of the declared type."""
        if self._check is not None:
            self._check(value)
        entry = value if self._lifetime is None else self._lifetime.stamp(value)
        elements = self._table.entries.get(self._scope.key)
        if elements is None:
            self._table.entries[self._scope.key] = [entry]
        else:
            elements.append(entry)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append all elements. Raises if one is not of the declared type."""
        new = self._checked(values)
        if new:
            self._table.entries.setdefault(self._scope.key, []).extend(new)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list. Raises if an element is not of the declared type."""
        new = self._checked(values)
        if new:
            self._table.entries[self._scope.key] = new
        else:
            self.clear()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Move the lists of the namespaces `sources` to the end of the list of `target`."""
        self._merge(target, sources, concat)

    def _checked(self, values: Iterable[Any]) -> list[Any]:
        elements = list(values)
        if self._check is not None:
            for element in elements:
                self._check(element)
        return elements if self._lifetime is None else list(map(self._lifetime.stamp, elements))


class KeyedReducingState(_KeyedState, ReducingState[Any]):
    """The reduced value. Source: HeapReducingState, TtlReducingState."""

    def __init__(
        self, table: StateTable, scope: Scope, lifetime: Lifetime | None, reduce_function: Any
    ) -> None:
        super().__init__(table, scope, lifetime)
        self._reduce = reduce_function.reduce

    def get(self) -> Any:
        return self._read_checked()

    def add(self, value: Any) -> None:
        current = self._read()
        self._write(value if current is None else self._reduce(current, value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the namespaces `sources`, which lose them, into the value of `target`."""
        self._merge_values(target, sources, self._reduce)


class KeyedAggregatingState(_KeyedState, AggregatingState[Any, Any]):
    """An accumulator. Source: HeapAggregatingState, TtlAggregatingState."""

    def __init__(
        self, table: StateTable, scope: Scope, lifetime: Lifetime | None, agg_function: Aggregator
    ) -> None:
        super().__init__(table, scope, lifetime)
        self._function = agg_function

    def get(self) -> Any:
        """Return the function's result, or None if nothing was added."""
        accumulator = self._read_checked()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add `value`; None deletes the accumulator."""
        if value is None:
            self.clear()
            return
        accumulator = self._read()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write(self._function.add(value, accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the namespaces `sources`, which lose them, into that of `target`."""
        self._merge_values(target, sources, self._function.merge)


class KeyedMapState(_KeyedState, MapState[Any, Any]):
    """A dictionary. Source: HeapMapState, TtlMapState."""

    def __init__(
        self,
        table: StateTable,
        scope: Scope,
        lifetime: Lifetime | None = None,
        check_key: Check | None = None,
        check_item: Check | None = None,
    ) -> None:
        super().__init__(table, scope, lifetime)
        self._check_key = check_key or no_check
        self._check_entry = entry_check(check_key, check_item)

    def get(self, key: Any) -> Any:
        """Return the value of `key`, or None. Raises if the key is not of the declared type."""
        self._check_key(key)
        entries = self._table.entries.get(self._scope.key)
        if entries is None:
            return None
        if self._lifetime is None:
            return entries.get(key)
        value = self._lifetime.read(entries, key)
        if not entries:
            self.clear()
        return value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`. Raises if key or value is not of the declared type."""
        self._check_entry(key, value)
        entry = value if self._lifetime is None else self._lifetime.stamp(value)
        entries = self._table.entries.get(self._scope.key)
        if entries is None:
            self._table.entries[self._scope.key] = {key: entry}
        else:
            entries[key] = entry

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set several values. Raises if one is not of the declared type."""
        new = dict(dict_value)
        for key, value in new.items():
            self._check_entry(key, value)
        if self._lifetime is not None:
            new = {key: self._lifetime.stamp(value) for key, value in new.items()}
        if new:
            self._table.entries.setdefault(self._scope.key, {}).update(new)

    def remove(self, key: Any) -> None:
        """Remove `key` if it exists. Raises if it is not of the declared type."""
        self._check_key(key)
        entries = self._table.entries.get(self._scope.key)
        if entries is not None and key in entries:
            del entries[key]
            if not entries:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as in PyFlink)."""
        return self.get(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        return removing_items(self._visible_items(), self.remove)

    def keys(self) -> Iterator[Any]:
        return removing_keys([key for key, _ in self._visible_items()], self.remove)

    def values(self) -> Iterator[Any]:
        return removing_values(self._visible_items(), self.remove)

    def is_empty(self) -> bool:
        """Whether the map is empty; expired entries that were not read since count, as in Flink."""
        return self._scope.key not in self._table.entries

    def _visible_items(self) -> Iterable[tuple[Any, Any]]:
        entries: dict[Any, Any] | None = self._table.entries.get(self._scope.key)
        if entries is None:
            return ()
        if self._lifetime is None:
            return entries.items()
        seen = self._lifetime.read_items(entries)
        if not entries:
            self.clear()
        return seen


#: Records before the size of state is first measured, and maximum between later measurements.
_RECORDS_BEFORE_FIRST_CHECK, _RECORDS_PER_CHECK = 1 << 7, 1 << 16
#: Records after which PyFlink ends a bundle and encodes state (python.fn-execution.bundle.size).
_RECORDS_PER_BUNDLE = 1000


class NamespaceScope:
    """The scope of state that belongs to a key and a namespace (a window)."""

    def __init__(self, backend: "KeyedStateBackend") -> None:
        self._backend = backend
        self.key: Any = None

    def set(self, namespace: Any) -> None:
        """Switch to the state of the current key and `namespace`."""
        self.key = self.key_of(namespace)

    def key_of(self, namespace: Any) -> Any:
        """Return the key of the current stream key's `namespace`, with its state loaded."""
        key = (self._backend.key, namespace)
        if self._backend.spilled:
            self._backend.load_namespaced(key)
        return key


class KeyedStateBackend:
    """Tables of state, the current key, and spilling to disk.

    Set `key` (a dictionary_key) before a record with it is handled. If `cold`, call `load` with the keys
    first.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.key: Any = None
        self.cold = False  #: whether some state is not in the tables' `entries`
        self.spilled = False  #: whether some of it was there before
        self.namespace = NamespaceScope(self)
        self._context = context
        self._stored = context.stored_state
        self.cold = self._stored is not None
        self._loaded: Collection[Any] = ()  #: the stream keys that were loaded last
        self._spilled = SpilledEntries()
        self._tables: dict[tuple[str, bool], StateTable] = {}
        self._states: dict[tuple[str, bool], tuple[StateDescriptor, State]] = {}
        self._memory = context.state_memory_bytes
        self._check_after = min(_RECORDS_BEFORE_FIRST_CHECK, self._memory >> 8)
        self._unchecked = self._uncommitted = 0

    def current_key(self) -> Any:
        """Return the current key as the key selector returned it."""
        return original_key(self.key)

    def key_of(self, namespace: Any) -> Any:
        """Return the current key, since this scope has no namespaces."""
        return self.key

    def table(self, name: str, namespaced: bool = False, form: EntryForm = PICKLES) -> StateTable:
        """Return the table of this name, created on first use; its entries by key are the operator's own.

        `form` is their form in files, if state lasts from batch to batch.
        """
        table = self._tables.get((name, namespaced))
        if table is None:
            stored = None if self._stored is None else self._stored.open_table(name, namespaced, form)
            number = len(self._tables)
            table = StateTable(name, number, self._spilled, namespaced=namespaced, stored=stored)
            self._tables[name, namespaced] = table
            table.load_stored(self._loaded)
        return table

    def written_tables(self) -> list[TableRecord]:
        """Write the changes of all tables into files that last from batch to batch."""
        assert self._stored is not None
        self.commit()
        records = [
            self._stored.written_table(name, namespaced, table.stored, table.all_entries())
            for (name, namespaced), table in self._tables.items()
            if table.stored is not None
        ]
        return [*records, *self._stored.unread_tables(self._tables.keys())]

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """Return the state of a descriptor, for the current key, or for key and namespace.

        Raises Exception if the name is in use for another kind or type of state.
        """
        entry = self._states.get((descriptor.name, namespaced))
        if entry is None:
            table = self.table(descriptor.name, namespaced, _form_of(descriptor))
            scope = self.namespace if namespaced else self
            # not the records in a window: they have the stream's type
            checked = not namespaced or isinstance(
                descriptor, ReducingStateDescriptor | AggregatingStateDescriptor
            )
            clock = self._context.processing_time
            new_state = make_state(descriptor, table, scope, clock, checked=checked)
            self._states[descriptor.name, namespaced] = descriptor, new_state
            return new_state
        first, state = entry
        if type(first) is not type(descriptor):
            kind = type(descriptor).__name__.removesuffix("Descriptor")
            raise Exception(f"The state name '{descriptor.name}' is already in use and not a {kind}.")
        if first.type_info != descriptor.type_info:
            raise Exception(f"State name corrupted: {descriptor.name}")
        return state

    def load(self, keys: Collection[Any]) -> None:
        """Load the state of these distinct keys into memory, where it stays until the next `relieve`."""
        self._loaded = keys
        for (_, namespaced), table in self._tables.items():
            if not namespaced:
                table.load(keys)
            elif self._stored is not None:
                table.load_stored(keys)

    def load_namespaced(self, key: tuple[Any, Any]) -> None:
        """Load the state of a key and namespace into memory."""
        for (_, namespaced), table in self._tables.items():
            if namespaced:
                table.load((key,))

    def relieve(self, records: int, hot: Collection[Any] = ()) -> None:
        """Check regularly whether the state has outgrown its memory, and spill unused entries to disk.

        `records` have been handled since the last call; `hot` are some keys of them. Call it only between two
        lists of records, since it replaces `entries` of the tables. Raises as `commit` does.
        """
        self._uncommitted += records
        if self._uncommitted >= _RECORDS_PER_BUNDLE:
            self.commit()
        self._unchecked += records
        if self._unchecked < self._check_after:
            return
        self._unchecked = 0
        size = sum(table.estimated_bytes(hot) for table in self._tables.values())
        # if every record adds an entry, the new ones should take only a fraction of the memory
        bytes_per_entry = size // max(1, sum(len(table.entries) for table in self._tables.values())) + 1
        self._check_after = min(_RECORDS_PER_CHECK, self._memory // 8 // bytes_per_entry)
        if size > self._memory // 2:
            self.commit()
            for table in self._tables.values():
                table.shift()
            self.cold = self.spilled = True

    def commit(self) -> None:
        """Check the current values of state against its declared types.

        Raises TypeError, OverflowError or ValueError that name the state and the key.
        """
        self._uncommitted = 0
        for table in self._tables.values():
            table.commit()

    def clear(self) -> None:
        """Delete all state (BATCH mode, at the end of a key)."""
        for table in self._tables.values():
            table.clear()

    def close(self) -> None:
        """Release memory and disk."""
        self._tables.clear()
        self._states.clear()
        self._spilled.close()


class BackendStateStore(KeyedStateStore):
    """A backend's state by kind, for the current key, or for key and namespace."""

    def __init__(self, backend: KeyedStateBackend, namespaced: bool) -> None:
        self._backend, self._namespaced = backend, namespaced

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return a state of one value."""
        state: ValueState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state."""
        state: ListState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a map state."""
        state: MapState[Any, Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return a state of one value, into which a reduce function folds added values."""
        state: ReducingState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return a state of one accumulator, to which an aggregate function adds values."""
        state: AggregatingState[Any, Any] = self._backend.state(state_descriptor, self._namespaced)
        return state


# State from a descriptor


def make_state(
    descriptor: StateDescriptor, table: StateTable, scope: Scope, clock: Callable[[], int], *, checked: bool
) -> State:
    """Return state over `table`; it expires by `clock` if the descriptor has a lifetime.

    `checked`: it raises for a value that is not of the descriptor's type; `table.commit` checks single-valued
    state. Raises TypeError for an unknown descriptor.
    """
    config = descriptor._ttl_config
    lifetime = Lifetime(config, clock) if config is not None and config.is_enabled() else None
    type_info: Any = descriptor.type_info

    def check(part: Any) -> Check | None:
        return value_check(part) if checked else None

    match descriptor:
        case ListStateDescriptor():
            return KeyedListState(table, scope, lifetime, check(type_info.elem_type))
        case MapStateDescriptor():
            check_key, check_item = check(type_info._key_type_info), check(type_info._value_type_info)
            return KeyedMapState(table, scope, lifetime, check_key, check_item)
    table.check = _check_entries(check(type_info), stamped=lifetime is not None)
    match descriptor:
        case ValueStateDescriptor():
            return KeyedValueState(table, scope, lifetime)
        case ReducingStateDescriptor():
            return KeyedReducingState(table, scope, lifetime, descriptor.get_reduce_function())
        case AggregatingStateDescriptor():
            return KeyedAggregatingState(table, scope, lifetime, descriptor.get_agg_function())
    raise TypeError(f"descriptor must be a StateDescriptor of Penstock, got {type(descriptor).__name__}")


def _form_of(descriptor: StateDescriptor) -> EntryForm:
    """Return the form of the entries of a state in files."""
    if descriptor._stored_form is not None:
        return descriptor._stored_form
    config = descriptor._ttl_config
    lifetime = None
    if config is not None and config.is_enabled():
        lifetime = config.get_ttl().to_milliseconds()
    type_info: Any = descriptor.type_info
    kind = type(descriptor).__name__.removesuffix("StateDescriptor").lower()
    return entry_form(kind, type_info.elem_type if kind == "list" else type_info, lifetime)


def _check_entries(check: Check | None, *, stamped: bool) -> Check | None:
    return (lambda entry: check(entry[0])) if check is not None and stamped else check
