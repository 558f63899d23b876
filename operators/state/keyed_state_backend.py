"""All keyed state of one operator in one subtask.

Source: org.apache.flink.runtime.state.heap.HeapKeyedStateBackend for what state means; spilling is our own.
"""

from collections.abc import Callable, Collection
from typing import Any

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.state.interfaces import (
    AggregatingState,
    AggregatingStateDescriptor,
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
from penstock.operators.state.keyed_states import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
    Lifetime,
    Scope,
)
from penstock.operators.state.state_table import SpilledEntries, StateTable
from penstock.operators.state.value_check import Check, value_check

#: Records handled before the size of state is first measured, and at most between later measurements.
_RECORDS_FIRST, _RECORDS_A_CHECK = 1 << 7, 1 << 16
#: After how many records PyFlink ends a bundle and encodes state (python.fn-execution.bundle.size).
_RECORDS_A_BUNDLE = 1000


class NamespaceScope:
    """The scope of state that belongs to a key and a namespace (a window)."""

    def __init__(self, backend: "KeyedStateBackend") -> None:
        self._backend = backend
        self.key: Any = None

    def set(self, namespace: Any) -> None:
        """Switch to the state of the current key and `namespace`."""
        self.key = self.key_of(namespace)

    def key_of(self, namespace: Any) -> Any:
        """The key of the current stream key's `namespace`."""
        key = (self._backend.key, namespace)
        if self._backend.cold:
            self._backend.load_namespaced(key)
        return key


class KeyedStateBackend:
    """Tables of state, the current key, and what to do when they grow too large.

    Set `key` (a dictionary_key) before a record of it is handled. If `cold`, `load` the keys first.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.key: Any = None
        self.cold = False  #: whether some state is not in the tables' `entries`
        self.namespace = NamespaceScope(self)
        self._context = context
        self._spilled = SpilledEntries()
        self._tables: dict[tuple[str, bool], StateTable] = {}
        self._states: dict[tuple[str, bool], tuple[StateDescriptor, State]] = {}
        self._memory = context.state_memory_bytes
        self._check_after = min(_RECORDS_FIRST, self._memory >> 8)
        self._unchecked = self._uncommitted = 0

    def current_key(self) -> Any:
        """The current key as the key selector gave it."""
        return original_key(self.key)

    def key_of(self, namespace: Any) -> Any:
        """Without namespaces: the current key."""
        return self.key

    def table(self, name: str, namespaced: bool = False) -> StateTable:
        """The table of this name, made on first use; an operator may keep what it likes in it by key."""
        table = self._tables.get((name, namespaced))
        if table is None:
            table = StateTable(name, len(self._tables), self._spilled, namespaced=namespaced)
            self._tables[name, namespaced] = table
        return table

    def state(self, descriptor: StateDescriptor, namespaced: bool = False) -> Any:
        """The state of this description; of the current key, or of key and namespace.

        Raises Exception: the name is in use for another kind or type of state.
        """
        known = self._states.get((descriptor.name, namespaced))
        if known is None:
            table = self.table(descriptor.name, namespaced)
            scope = self.namespace if namespaced else self
            # not the records that a window keeps: they are of the stream's type
            checked = not namespaced or isinstance(
                descriptor, ReducingStateDescriptor | AggregatingStateDescriptor
            )
            clock = self._context.processing_time
            new_state = make_state(descriptor, table, scope, clock, checked=checked)
            self._states[descriptor.name, namespaced] = descriptor, new_state
            return new_state
        first, state = known
        if type(first) is not type(descriptor):
            kind = type(descriptor).__name__.removesuffix("Descriptor")
            raise Exception(f"The state name '{descriptor.name}' is already in use and not a {kind}.")
        if first.type_info != descriptor.type_info:
            raise Exception(f"State name corrupted: {descriptor.name}")
        return state

    def load(self, keys: Collection[Any]) -> None:
        """Bring the state of these distinct keys into memory; until the next `relieve` it stays there."""
        for (_, namespaced), table in self._tables.items():
            if not namespaced:
                table.load(keys)

    def load_namespaced(self, key: tuple[Any, Any]) -> None:
        """Bring the state of a key and namespace into memory."""
        for (_, namespaced), table in self._tables.items():
            if namespaced:
                table.load((key,))

    def relieve(self, records: int, hot: Collection[Any] = ()) -> None:
        """Look now and then whether the state has outgrown its memory, and send what is not used to disk.

        `records` have been handled since the last call; `hot` are some keys of them. Only between two lists
        of records: tables' `entries` are replaced. Raises as `commit` does.
        """
        self._uncommitted += records
        if self._uncommitted >= _RECORDS_A_BUNDLE:
            self.commit()
        self._unchecked += records
        if self._unchecked < self._check_after:
            return
        self._unchecked = 0
        size = sum(table.estimated_bytes(hot) for table in self._tables.values())
        # Should every record add an entry, the memory for them is to be a fraction of all.
        an_entry = size // max(1, sum(len(table.entries) for table in self._tables.values())) + 1
        self._check_after = min(_RECORDS_A_CHECK, self._memory // 8 // an_entry)
        if size > self._memory // 2:
            self.commit()
            for table in self._tables.values():
                table.shift()
            self.cold = True

    def commit(self) -> None:
        """Check the values that are left in state against its declared types.

        Raises TypeError, OverflowError or ValueError that name the state and the key.
        """
        self._uncommitted = 0
        for table in self._tables.values():
            table.commit()

    def clear(self) -> None:
        """Forget all state (BATCH mode, at the end of a key)."""
        for table in self._tables.values():
            table.clear()

    def close(self) -> None:
        """Let go of memory and disk."""
        self._tables.clear()
        self._states.clear()
        self._spilled.close()


class BackendStateStore(KeyedStateStore):
    """A backend's state by kind: of the current key, or of key and namespace."""

    def __init__(self, backend: KeyedStateBackend, namespaced: bool) -> None:
        self._backend, self._namespaced = backend, namespaced

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value."""
        state: ValueState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list."""
        state: ListState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary."""
        state: MapState[Any, Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value, into which a reduce function folds added values."""
        state: ReducingState[Any] = self._backend.state(state_descriptor, self._namespaced)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """One accumulator, to which an aggregate function adds values."""
        state: AggregatingState[Any, Any] = self._backend.state(state_descriptor, self._namespaced)
        return state


# Makes the state that a descriptor describes.


def make_state(
    descriptor: StateDescriptor, table: StateTable, scope: Scope, clock: Callable[[], int], *, checked: bool
) -> State:
    """State over `table`, expiring by `clock` if the descriptor says so; TypeError for an unknown descriptor.

    `checked`: it raises where it is given a value that is not of the descriptor's type. Values of
    single-valued state are checked by `table.commit`.
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
            of_key, of_item = check(type_info._key_type_info), check(type_info._value_type_info)
            return KeyedMapState(table, scope, lifetime, of_key, of_item)
    table.check = _check_entries(check(type_info), stamped=lifetime is not None)
    match descriptor:
        case ValueStateDescriptor():
            return KeyedValueState(table, scope, lifetime)
        case ReducingStateDescriptor():
            return KeyedReducingState(table, scope, lifetime, descriptor.get_reduce_function())
        case AggregatingStateDescriptor():
            return KeyedAggregatingState(table, scope, lifetime, descriptor.get_agg_function())
    raise TypeError(f"{type(descriptor).__name__} describes no state")


def _check_entries(check: Check | None, *, stamped: bool) -> Check | None:
    return (lambda entry: check(entry[0])) if check is not None and stamped else check
