"""Rows of a given table of transformations, in any order, divided into parts of whole topologies."""

from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

_Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

_ROWS_SORTED_AT_ONCE = 2**18
_NONE = -1


class Division(NamedTuple):
    """The part of each topology: all rows with its id, in both tables."""

    ids: _Ints  #: of topologies, each once, sorted
    part_of_id: _Ints
    order: _Ints  #: positions in `topologies`, part by part, ascending in each
    ends: _Ints  #: the end of each part in `order`
    in_runs: bool  #: whether the rows of each part follow one another, part after part
    without_topology: list[int | None]  #: each id that only transformations have, in their order

    @property
    def parts(self) -> int:
        """The number of parts, at least one."""
        return len(self.ends)

    def positions(self, part: int) -> _Ints:
        """Rows of `topologies` that are in a part, ascending."""
        return self.order[self.ends[part - 1] if part else 0 : self.ends[part]]

    def parts_of(self, ids: pa.Array) -> _Ints:
        """The part of each row by its topology_id; -1 for an unknown topology."""
        places = _places(self.ids, ids)
        return np.where(places == _NONE, _NONE, np.append(self.part_of_id, _NONE)[places])


def divide_by_topology(topology_ids: _Ints, columns: Iterable[pa.Array], rows_of_a_part: int) -> Division:
    """Parts of topologies with about `rows_of_a_part` rows, a topology counting as a row too.

    `topology_ids`: topology_id of each row of `topologies`; `columns`: topology_id of all transformations,
    batch by batch.
    Parts are in the order of the transformations if the rows of each topology follow one another, else in
    the order of `topologies`.
    """
    ids, first = np.unique(topology_ids, return_index=True)
    rows, runs = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    begins = np.full(len(ids), np.iinfo(np.int64).max)
    without: dict[int | None, None] = {}
    before, last = 0, _NONE
    for column in columns:
        if not len(column):
            continue
        places = _places(ids, column)
        without |= dict.fromkeys(column.filter(pa.array(places == _NONE)).unique().to_pylist())
        starts = _starts(places)
        of_runs, lengths = places[starts], np.diff(starts, append=len(places))
        np.add.at(rows, of_runs[of_runs != _NONE], lengths[of_runs != _NONE])
        # A run may continue in the next batch.
        new = (of_runs != _NONE) & ~((starts == 0) & (of_runs == last))
        np.add.at(runs, of_runs[new], 1)
        np.minimum.at(begins, of_runs[new], starts[new] + before)
        before, last = before + len(places), int(of_runs[-1])
    in_runs = bool((runs <= 1).all())
    ordered = np.lexsort((first, begins)) if in_runs else np.argsort(first)
    sizes = rows[ordered] + 1
    cut = (np.cumsum(sizes) - sizes) // rows_of_a_part
    part_of_id = np.empty(len(ids), np.int64)
    part_of_id[ordered] = np.unique(cut, return_inverse=True)[1]
    part_of_given = part_of_id[np.searchsorted(ids, topology_ids)]
    parts = int(part_of_id.max()) + 1 if len(ids) else 1
    return Division(
        ids,
        part_of_id,
        np.argsort(part_of_given, kind="stable"),
        np.cumsum(np.bincount(part_of_given, minlength=parts)),
        in_runs or parts == 1,
        list(without),
    )


def rows_in_parts(
    division: Division, batches: Callable[[], Iterator[pa.RecordBatch]], key: str
) -> Iterator[list[pa.RecordBatch]]:
    """The rows of every part in turn, without those of unknown topologies; `key`: their column topology_id.

    Rows that are out of order are sorted by part on disk, in an unnamed file in the folder for temporary
    files. The caller may empty a list. Raises OSError.
    """
    pieces = _pieces_in_order if division.in_runs else _pieces_from_disk
    part = 0
    part_batches: list[pa.RecordBatch] = []
    for of_part, piece in pieces(division, batches(), key):
        while part < of_part:
            yield part_batches
            part_batches = []
            part += 1
        part_batches.append(piece)
        del piece
    while part < division.parts:
        yield part_batches
        part_batches = []
        part += 1


def _pieces_in_order(
    division: Division, batches: Iterator[pa.RecordBatch], key: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        parts = division.parts_of(batch[key])
        starts = _starts(parts)
        for start, end in zip(starts, [*starts[1:], len(batch)], strict=True):
            if parts[start] != _NONE:
                yield int(parts[start]), batch.slice(start, end - start)


def _pieces_from_disk(
    division: Division, batches: Iterator[pa.RecordBatch], key: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    with TemporaryFile() as file:
        places: list[list[int]] = [[] for _ in range(division.parts)]
        for rows in _many_rows(batches):
            parts = division.parts_of(rows[key])
            order = np.argsort(parts, kind="stable")
            parts = parts[order]
            ordered = rows.take(pa.array(order))
            starts = _starts(parts)
            for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
                if parts[start] != _NONE:
                    places[parts[start]].append(file.tell())
                    _write(file, ordered.slice(start, end - start))
            del rows, ordered
        for part, of_part in enumerate(places):
            for place in of_part:
                file.seek(place)
                for batch in pa.ipc.open_stream(file):
                    yield part, batch


def _write(file: BinaryIO, rows: pa.RecordBatch) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(file, rows.schema, options=options) as stream:
        stream.write_batch(rows)


def _many_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        if sum(map(len, held)) >= _ROWS_SORTED_AT_ONCE:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _places(ids: _Ints, column: pa.Array) -> _Ints:
    """The place of each value in `ids`, or -1."""
    values = column.cast(pa.int64())
    if not len(ids):
        return np.full(len(values), _NONE)
    of_rows = values.fill_null(0).to_numpy(zero_copy_only=False)
    starts = _starts(of_rows)
    of_runs = np.minimum(np.searchsorted(ids, of_rows[starts]), len(ids) - 1)
    of_runs[ids[of_runs] != of_rows[starts]] = _NONE
    places = np.repeat(of_runs, np.diff(starts, append=len(of_rows)))
    if values.null_count:
        places[values.is_null().to_numpy(zero_copy_only=False)] = _NONE
    return places


def _starts(values: _Ints) -> _Ints:
    """The starts of runs of one value."""
    return (
        np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        if len(values)
        else np.zeros(0, np.int64)
    )
