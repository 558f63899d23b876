"""Keyed state in files: Arrow segments, which subtasks read by key and write at the end of a batch.

A segment holds rows of one state of one operator, sorted by the hash of the key, or timers, sorted by time.
The newest row of a key (and namespace) counts; it may mark the entry as deleted. Columns have the declared
types; values without one are pickled, and such a segment is read only if the store's key authenticates it.

| column | content |
|---|---|
| `hash` | the hash of the key, from which its key group follows |
| `key` | the key, of its declared type, or pickled |
| `namespace` | only for state of windows: start and end (milliseconds), or a number, or pickled |
| `time` | only for timers: milliseconds |
| `deleted` | whether the entry is deleted |
| `value` | not for timers: the entry, null if deleted |

Source: org.apache.flink.runtime.state.heap.HeapKeyedStateBackend, for the content of snapshots; the files are
Penstock's own.
"""

import hmac
import os
import pickle
import posixpath
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyarrow import fs
from xxhash import xxh3_128

from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.arrow_types import field_names
from penstock.operators.common.basic_types import BasicType, TypeInformation
from penstock.operators.common.java_hash import key_hashes, pickled_key_hashes
from penstock.operators.common.key_groups import murmur_hash
from penstock.operators.common.pickles import dumps, is_pickled
from penstock.operators.common.serialized_keys import dictionary_keys, original_key
from penstock.operators.common.typeinfo import BasicTypeInfo, Types
from penstock.operators.common.without_pandas import without_pandas
from penstock.operators.files.durable_files import (
    create_private_file,
    force_folder,
    require_own_folder,
)
from penstock.operators.files.filesystem import filesystem_of

SEGMENTS = "segments"
"""The folder of segments in a store of state."""

Numbers = npt.NDArray[Any]
_PICKLED = "pickled"

# The types of keys, namespaces and entries as columns


class Layout(NamedTuple):
    """How entries of an operator's own class are values of a type."""

    value_of: Callable[[Any], Any]
    entry_of: Callable[[Any], Any]


@dataclass(frozen=True)
class EntryForm:
    """The entries of a state as a column: their kind, such as `list`, and their type, None for pickles."""

    kind: str
    type_info: TypeInformation | None
    lifetime_milliseconds: int | None = None  #: of entries that expire
    layout: "Layout | None" = None  #: of entries that are not values of the type

    @property
    def text(self) -> str:
        """The type, in words that stay the same from run to run."""
        return type_text(self.type_info)

    @property
    def pickled(self) -> bool:
        """Whether the column, or a part of it, holds pickles."""
        return _holds_pickles(self.type_info)

    def encode(self, entries: Sequence[Any]) -> pa.Array:
        """Return a column. Raises TypeError, OverflowError or ValueError for an entry of another type."""
        if is_pickled(self.type_info):
            return _pickles(entries)
        values = entries if self.layout is None else list(map(self.layout.value_of, entries))
        return to_arrow(values, self.type_info)

    def decode(self, column: pa.Array) -> list[Any]:
        """Return the entries of a column that `encode` made."""
        values = from_arrow(column, None if is_pickled(self.type_info) else self.type_info)
        return values if self.layout is None else list(map(self.layout.entry_of, values))

    def expired(self, column: pa.Array, now: int) -> Numbers:
        """Return which entries have expired at a time (milliseconds), of lists and maps all elements."""
        if self.lifetime_milliseconds is None or is_pickled(self.type_info):
            return np.zeros(len(column), np.bool_)
        if kinds.is_struct(column.type):
            began = column.field(1).to_numpy(zero_copy_only=False)
        else:
            items = column.items if kinds.is_map(column.type) else column.values
            stamps = items.field(1).to_numpy(zero_copy_only=False)
            starts, ends = column.offsets.to_numpy()[:-1], column.offsets.to_numpy()[1:]
            if (starts == ends).any():
                return np.zeros(len(column), np.bool_)
            began = np.maximum.reduceat(stamps[: ends[-1]], starts) if len(starts) else stamps[:0]
        expired: Numbers = began + self.lifetime_milliseconds <= now
        return expired


def type_text(type_info: Any) -> str:
    """Return a text for a type that is equal for equal types, in every run: fields always have names."""
    if is_pickled(type_info):
        return _PICKLED
    kind = type(type_info).__name__.removesuffix("TypeInfo")
    if hasattr(type_info, "get_field_types"):
        types = map(type_text, type_info.get_field_types())
        return f"{kind}({', '.join(map(': '.join, zip(field_names(type_info), types, strict=True)))})"
    parts: list[Any] = [
        getattr(type_info, name) for name in _PARTS if getattr(type_info, name, None) is not None
    ]
    return f"{kind}({', '.join(map(type_text, parts))})" if parts else str(type_info)


PICKLES = EntryForm("internal", None)


def entry_form(
    kind: str, type_info: TypeInformation | None, lifetime_milliseconds: int | None = None
) -> EntryForm:
    """Return the form of a state's entries; entries that expire are pairs with the time of their write.

    `type_info` is the type of a value, of a map, or of a list's elements.
    """
    expires = lifetime_milliseconds is not None
    if is_pickled(type_info):
        return EntryForm(kind, None)
    if kind == "list":
        element: Any = type_info
        listed = list_of(Types.TUPLE([element, Types.LONG()]) if expires else element)
        return EntryForm(kind, listed, lifetime_milliseconds)
    if kind == "map" and expires:
        map_type: Any = type_info
        item = Types.TUPLE([map_type._value_type_info, Types.LONG()])
        return EntryForm(kind, Types.MAP(map_type._key_type_info, item), lifetime_milliseconds)
    value_type: Any = type_info
    stored = Types.TUPLE([value_type, Types.LONG()]) if expires else value_type
    return EntryForm(kind, stored, lifetime_milliseconds)


def list_of(element: Any) -> TypeInformation:
    """Return the type of lists of a type's values."""
    if isinstance(element, BasicTypeInfo) and element._basic_type is BasicType.BYTE:
        element = Types.SHORT()  # a list of bytes would be a byte string
    return Types.LIST(element)


def _holds_pickles(type_info: Any) -> bool:
    if is_pickled(type_info):
        return True
    parts = [getattr(type_info, name, None) for name in _PARTS]
    fields = type_info.get_field_types() if hasattr(type_info, "get_field_types") else ()
    return any(map(_holds_pickles, filter(None, (*parts, *fields))))


_PARTS = ("elem_type", "_element_type", "_key_type_info", "_value_type_info", "_type_info")


def _pickles(values: Sequence[Any]) -> pa.Array:
    with without_pandas():
        return pa.array([dumps(value) for value in values], pa.binary())


def key_groups_of(hashes: Numbers, max_parallelism: int) -> Numbers:
    """Return the key group of each hash."""
    return (murmur_hash(hashes) % max_parallelism).astype(np.int32)


class KeyForm:
    """The keys of an operator as a column, with their hashes and key groups."""

    def __init__(self, type_info: TypeInformation | None, max_parallelism: int) -> None:
        self.type_info = None if is_pickled(type_info) else type_info
        self.max_parallelism = max_parallelism
        self.text = type_text(self.type_info)

    def hashes(self, keys: Sequence[Any]) -> Numbers:
        """Return the hash of each dictionary key."""
        if self.type_info is None:
            return pickled_key_hashes(keys)
        return key_hashes(to_arrow([original_key(key) for key in keys], self.type_info), self.type_info)

    def encode(self, keys: Sequence[Any]) -> pa.Array:
        """Return the column of dictionary keys."""
        originals = [original_key(key) for key in keys]
        return _pickles(originals) if self.type_info is None else to_arrow(originals, self.type_info)

    def decode(self, column: pa.Array) -> Sequence[Any]:
        """Return the dictionary keys of a column."""
        return dictionary_keys(from_arrow(column, self.type_info))


class NamespaceForm(NamedTuple):
    """The namespaces of one class, such as windows, as a column."""

    arrow_type: pa.DataType
    encode: Callable[[Sequence[Any]], pa.Array]
    decode: Callable[[pa.Array], list[Any]]


def _listed(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


_NAMESPACES: dict[type, NamespaceForm] = {
    int: NamespaceForm(pa.int32(), lambda numbers: pa.array(numbers, pa.int32()), _listed)
}


def register_namespaces(kind: type, form: NamespaceForm) -> None:
    """Let namespaces of a class be columns of a type that no other class has; others are pickled."""
    _NAMESPACES[kind] = form


def _encode_namespaces(namespaces: Sequence[Any]) -> pa.Array:
    kinds_of_namespaces = set(map(type, namespaces))
    form = _NAMESPACES.get(kinds_of_namespaces.pop()) if len(kinds_of_namespaces) == 1 else None
    if form is None:
        return _pickles(namespaces)
    with without_pandas():
        return form.encode(namespaces)


def _decode_namespaces(column: pa.Array) -> list[Any]:
    for form in _NAMESPACES.values():
        if form.arrow_type == column.type:
            return form.decode(column)
    return list(map(pickle.loads, column.to_pylist()))


# Files of segments


@dataclass(frozen=True)
class SegmentRecord:
    """A segment as a manifest names it."""

    file: str  #: in the folder `segments`
    rows: int
    size: int  #: bytes
    mac: str | None = None  #: of its content, if it holds pickles
    cleared: int | None = None  #: its timers up to this time are gone


class SegmentStore:
    """The segments of one store of state, as a subtask sees them; `version` is the one to be written.

    From a file system that is not local, segments are copied once into the temporary folder of this machine,
    also those that are written here: a batch fetches what other machines have written since its last one. A
    copy that is lost or damaged is fetched again. Who does not keep copies leaves none behind.
    """

    def __init__(self, folder: str, version: int, key: bytes, *, keeps_copies: bool = True) -> None:
        self.folder, self.version, self._key = folder, version, key
        self._system, base = filesystem_of(folder)
        self._segments = posixpath.join(base, SEGMENTS)
        self._is_local = isinstance(self._system, fs.LocalFileSystem)
        self._copies = LocalCopies(folder) if keeps_copies and not self._is_local else None

    def write(self, columns: dict[str, pa.Array], *, pickled: bool) -> SegmentRecord:
        """Write rows as a segment; it is on the disk when this returns.

        Its name follows from its content, so that an attempt that makes the same rows again names the same.
        """
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        name = f"{self.version:012d}-{_digest(data)}.arrow"
        self._put(name, data)
        mac = hmac.digest(self._key, data, "sha256").hex() if pickled else None
        return SegmentRecord(name, batch.num_rows, data.size, mac)

    def _put(self, name: str, data: pa.Buffer) -> None:
        path = posixpath.join(self._segments, name)
        # a file of another size is unfinished: its writer was killed
        if self._system.get_file_info(path).size == data.size:
            return
        if not self._is_local:
            with self._system.open_output_stream(path, compression=None) as stream:
                stream.write(data)
            if self._copies is not None:
                self._copies.add(name, data)
            return
        unfinished = posixpath.join(self._segments, f".{self.version:012d}-{uuid.uuid4().hex}")
        try:
            with os.fdopen(create_private_file(unfinished), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(unfinished, path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(unfinished)
            raise OSError(error.errno, error.strerror, path) from error  # a write does not name its file
        force_folder(self._system, self._segments)

    def prepare(self, needed: Collection[SegmentRecord], of_store: Collection[str]) -> None:
        """Copy the segments `needed` here, several at a time, and remove copies of none `of_store`."""
        if self._copies is None:
            return
        self._copies.remove_others(of_store, self.version)
        missing = [record for record in needed if not self._copies.has(record)]
        # what cannot be read fails when an operator opens it, which the error then names
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as threads, suppress(OSError, ValueError):
            list(threads.map(self._fetched, missing))

    def _fetched(self, record: SegmentRecord) -> pa.Buffer:
        """Return the content of a segment, read from the store, and keep a copy."""
        path = posixpath.join(self._segments, record.file)
        with _damage(path), self._system.open_input_file(path) as file:
            data = file.read_buffer()
            _require_whole(data, record)
        if self._copies is not None:
            self._copies.add(record.file, data)
        return data

    def open(self, record: SegmentRecord, *, checked: bool = True) -> "Segment":
        """Open a segment. Raises ValueError if it is missing, damaged, or not authentic.

        If it is not `checked`, its pickles cannot be loaded.
        """
        path = posixpath.join(self._segments, record.file)
        if self._is_local:
            with _damage(path):
                data = _mapped(path, record)
        else:
            copy = None if self._copies is None else self._copies.content(record)
            data = self._fetched(record) if copy is None else copy
        authentic = record.mac is not None and checked
        with _damage(path):
            if authentic:
                mac = hmac.digest(self._key, data, "sha256").hex()
                if not hmac.compare_digest(mac, str(record.mac)):
                    raise ValueError("it is not the segment that this stream has written")
            return Segment(pa.ipc.open_file(data).get_batch(0), authentic=authentic)


def _digest(data: pa.Buffer) -> str:
    return xxh3_128(data).hexdigest()


def _require_whole(data: pa.Buffer, record: SegmentRecord) -> None:
    """Raise ValueError if the content of a segment is not as long as it was, or another one."""
    if data.size != record.size:
        raise ValueError(f"it must have {record.size} bytes, got {data.size}")
    if _digest(data) != record.file.removesuffix(".arrow").split("-")[1]:
        raise ValueError("its content has changed since it was written")


_whole: set[str] = set()
"""Paths of segments whose content this process has checked: they do not change any more."""

_MOST_NOTED = 100_000


def _mapped(path: str, record: SegmentRecord) -> pa.Buffer:
    """Return the content of a local file. Raises OSError if it is missing, ValueError if it is damaged."""
    data = pa.memory_map(path).read_buffer()
    if path not in _whole or data.size != record.size:
        _require_whole(data, record)
        if len(_whole) >= _MOST_NOTED:
            _whole.clear()
        _whole.add(path)
    return data


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Raise ValueError that names the segment if it cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise ValueError(f"segment {path} is missing: the state is damaged") from error
    except (ValueError, pa.ArrowInvalid) as error:
        raise ValueError(f"segment {path}: {error}: the state is damaged") from error


# Copies of segments of remote stores in the temporary folder of this machine


_COPIES_AT_ONCE = 8
_SECONDS_BEFORE_REMOVAL = 3 * 86_400
"""Copies of a store that no subtask has used for this time are removed by subtasks of other stores."""


class LocalCopies:
    """Copies of the segments of one store on this machine, in a folder of the store's own.

    They need no disk of their own: without one, segments are read from the store each time.
    """

    def __init__(self, folder: str) -> None:
        self._above = os.path.join(tempfile.gettempdir(), f"penstock-state-{os.geteuid()}")
        self._folder = os.path.join(self._above, xxh3_128(folder.encode()).hexdigest())
        try:
            for path in (self._above, self._folder):
                with suppress(FileExistsError):
                    os.mkdir(path, 0o700)
            require_own_folder(self._above)  # so that others have not made the inner one either
        except OSError:
            self._folder = os.path.join(os.devnull, "no copies")

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def has(self, record: SegmentRecord) -> bool:
        """Whether there is a copy of a segment."""
        try:
            return os.path.getsize(self._path(record.file)) == record.size
        except OSError:
            return False

    def content(self, record: SegmentRecord) -> pa.Buffer | None:
        """Return the content of a copy, mapped; None if it is missing or damaged."""
        path = self._path(record.file)
        try:
            return _mapped(path, record)
        except (OSError, ValueError):
            return None

    def add(self, name: str, data: pa.Buffer) -> None:
        """Keep a copy of a segment, unless there is no room."""
        path = self._path(name)
        unfinished = self._path(f".{uuid.uuid4().hex}")
        try:
            with open(unfinished, "xb") as file:
                file.write(data)
            os.rename(unfinished, path)
            _whole.discard(path)
        except OSError:
            with suppress(OSError):
                os.unlink(unfinished)

    def remove_others(self, needed: Collection[str], version: int) -> None:
        """Remove copies of segments that are not needed any more, and folders of stores that nobody uses.

        Segments of `version`, which is being made, and of later ones stay. Processes that still read a copy
        have it mapped, or fetch it again.
        """
        with suppress(OSError):
            os.utime(self._folder)
        old = time.time() - _SECONDS_BEFORE_REMOVAL
        with suppress(OSError), os.scandir(self._folder) as copies:
            for copy in copies:
                unfinished = copy.name.startswith(".")
                with suppress(OSError):
                    if copy.stat().st_mtime < old if unfinished else _is_older(copy.name, needed, version):
                        os.unlink(copy.path)
        with suppress(OSError), os.scandir(self._above) as stores:
            for store in stores:
                with suppress(OSError):
                    if store.stat().st_mtime < old:
                        shutil.rmtree(store.path, ignore_errors=True)


def _is_older(name: str, needed: Collection[str], version: int) -> bool:
    return name not in needed and name.split("-", maxsplit=1)[0] < f"{version:012d}"


class Segment:
    """The rows of a segment, read from a mapped file as they are needed."""

    def __init__(self, batch: pa.RecordBatch, *, authentic: bool) -> None:
        self.batch = batch
        self._authentic = authentic

    @cached_property
    def hashes(self) -> Numbers:
        """The column `hash`, which is sorted."""
        hashes: Numbers = self.batch.column("hash").to_numpy()
        return hashes

    @cached_property
    def times(self) -> Numbers:
        """The column `time`, which is sorted."""
        times: Numbers = self.batch.column("time").to_numpy()
        return times

    def within(self, rows: Numbers, max_parallelism: int, first: int, last: int) -> Numbers:
        """Return those rows whose key group is at least `first`, and below `last`."""
        if (first, last) == (0, max_parallelism):
            return rows
        groups = key_groups_of(self.batch.column("hash").to_numpy()[rows], max_parallelism)
        return rows[(groups >= first) & (groups < last)]

    @property
    def has_namespaces(self) -> bool:
        """Whether its entries belong to a key and a namespace."""
        return "namespace" in self.batch.schema.names

    def rows_of(self, hashes: Numbers) -> Numbers:
        """Return the rows that have one of these hashes, which are sorted, each once."""
        own = self.hashes
        first: Numbers = np.searchsorted(own, hashes, "left")
        first = first[first < own.size]
        found = own[first] == hashes[: first.size]
        first = first[found]
        if not first.size:
            return first
        counts = np.searchsorted(own, hashes[: found.size][found], "right") - first
        if (counts == 1).all():
            return first
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows: Numbers = np.repeat(first, counts) + steps
        return rows

    def entries(self, rows: Numbers, key_form: KeyForm) -> Iterator[tuple[Any, bool, int]]:
        """Yield for each row the key (and namespace) of its entry, whether it is deleted, and the row."""
        taken = pa.array(rows)
        keys: Any = key_form.decode(self._column("key", key_form.type_info is None).take(taken))
        if self.has_namespaces:
            namespaces = self.batch.column("namespace")
            pickled = kinds.is_binary(namespaces.type)
            keys = zip(keys, _decode_namespaces(self._column("namespace", pickled).take(taken)), strict=True)
        deleted = self.batch.column("deleted").take(taken).to_pylist()
        return zip(keys, deleted, rows.tolist(), strict=True)

    def values(self, rows: Sequence[int] | Numbers, form: EntryForm) -> list[Any]:
        """Return the entries in these rows, which must not be deleted."""
        return form.decode(self._column("value", form.pickled).take(pa.array(rows, pa.int64())))

    def _column(self, name: str, pickled: bool) -> pa.Array:
        if pickled and not self._authentic:
            raise ValueError(f"column {name!r} of a segment holds pickles, but is not authenticated")
        return self.batch.column(name)


def segment_columns(
    keys: Sequence[Any],
    key_form: KeyForm,
    deleted: Sequence[bool],
    *,
    values: pa.Array | None = None,
    times: Sequence[int] | None = None,
    namespaced: bool,
) -> dict[str, pa.Array]:
    """Return the columns of a segment, sorted.

    `keys`: dictionary keys, or pairs of one and a namespace. Give either `values` or `times`.
    """
    stream_keys = [key[0] for key in keys] if namespaced else keys
    hashes = key_form.hashes(stream_keys)
    columns = {
        "hash": pa.array(hashes, pa.uint32()),
        "key": key_form.encode(stream_keys),
    }
    if namespaced:
        columns["namespace"] = _encode_namespaces([key[1] for key in keys])
    if times is not None:
        columns["time"] = pa.array(times, pa.int64())
    columns["deleted"] = pa.array(deleted, pa.bool_())
    if values is not None:
        columns["value"] = values
    order = np.argsort(hashes if times is None else np.asarray(times, np.int64), kind="stable")
    return taken(columns, order)


def taken(columns: dict[str, pa.Array], rows: Numbers) -> dict[str, pa.Array]:
    """Return these rows of the columns."""
    places = pa.array(rows, pa.int64())
    return {name: column.take(places) for name, column in columns.items()}


def holds_pickles(columns: dict[str, pa.Array], key_form: KeyForm, form: EntryForm | None) -> bool:
    """Whether a segment of these columns must be authenticated."""
    namespace = columns.get("namespace")
    return (
        key_form.type_info is None
        or (form is not None and form.pickled)
        or (namespace is not None and kinds.is_binary(namespace.type))
    )


# Equality of columns, row by row, and the newest row of each key


def equal_rows(left: pa.Array, right: pa.Array) -> Numbers:
    """Return for each row whether two columns have the same value: null equals null, floats bit by bit."""
    size = len(left)
    if left.type != right.type or size != len(right):
        return np.zeros(size, np.bool_)
    if not size:
        return np.empty(0, np.bool_)
    left_nulls = left.is_null().to_numpy(zero_copy_only=False)
    right_nulls = right.is_null().to_numpy(zero_copy_only=False)
    present = ~left_nulls & ~right_nulls
    equal: Numbers = left_nulls & right_nulls
    if present.any():
        rows = np.flatnonzero(present)
        equal[rows] = _equal_present(left.take(pa.array(rows)), right.take(pa.array(rows)))
    return equal


def _equal_present(left: pa.Array, right: pa.Array) -> Numbers:
    kind = left.type
    if kinds.is_struct(kind):
        equal = np.ones(len(left), np.bool_)
        for first, second in zip(left.flatten(), right.flatten(), strict=True):
            equal &= equal_rows(first, second)
        return equal
    if kinds.is_list(kind) or kinds.is_map(kind):
        return _equal_lists(left, right)
    if kinds.is_floating(kind):
        bits = np.int32 if kinds.is_float32(kind) else np.int64
        first, second = (side.to_numpy(zero_copy_only=False).view(bits) for side in (left, right))
        floats: Numbers = first == second
        return floats
    same: Numbers = pc.equal(left, right).to_numpy(zero_copy_only=False)
    return same


def _equal_lists(left: pa.Array, right: pa.Array) -> Numbers:
    sizes = np.diff(left.offsets.to_numpy())
    equal: Numbers = sizes == np.diff(right.offsets.to_numpy())
    rows = np.flatnonzero(equal & (sizes > 0))
    if rows.size:
        places = pa.array(rows)
        items = [_items(side.take(places)) for side in (left, right)]
        same = _equal_items(*items)
        starts = np.cumsum(sizes[rows]) - sizes[rows]
        equal[rows] = np.logical_and.reduceat(same, starts)
    return equal


def _items(lists: pa.Array) -> list[pa.Array]:
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    parts = [lists.keys, lists.items] if kinds.is_map(lists.type) else [lists.values]
    return [part.slice(first, last - first) for part in parts]


def _equal_items(left: list[pa.Array], right: list[pa.Array]) -> Numbers:
    same = np.ones(len(left[0]), np.bool_)
    for first, second in zip(left, right, strict=True):
        same &= equal_rows(first, second)
    return same
