"""Canonical texts of many transformations at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from plans.arrow_walks import Ints
from plans.compiled import compiled, is_worth_compiling
from plans.topology.transformation_columns import COLUMNS, canonical_column, canonical_rows

_TEXT, _STRING, _INTEGER, _INTEGERS = range(4)
_NULL = -1
_LONGEST_INTEGER = 20

Bytes = npt.NDArray[np.uint8]


def canonical_texts(rows: pa.StructArray) -> pa.StringArray | pa.LargeStringArray:
    """As `canonical_rows`: a line each of the columns of TRANSFORMATIONS, whose values are right."""
    if not is_worth_compiling(len(rows)):
        return canonical_rows(rows)
    kinds: list[int] = []
    gaps: list[int] = []
    cells: list[tuple[Ints, Ints]] = []
    text, items = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
    gap = characters = integers = 0
    for name in COLUMNS:
        column = rows.field(name)
        if column.null_count < len(column):
            if pa.types.is_integer(column.type):
                kinds.append(_INTEGER)
                cells.append((column.fill_null(0).to_numpy().astype(np.int64), _sizes(column, 1)))
                integers += len(column)
            elif name == "inputs":
                kinds.append(_INTEGERS)
                bounds = column.offsets.to_numpy().astype(np.int64)
                cells.append((bounds[:-1] - bounds[0], np.diff(bounds)))
                items.append(column.flatten().to_numpy().astype(np.int64))
                integers += len(items[-1])
            else:
                given = pa.types.is_string(column.type)
                kinds.append(_STRING if given else _TEXT)
                of_cells, characters_of = _texts(column if given else canonical_column(name, column))
                cells.append((of_cells[:-1] + characters, _sizes(column, np.diff(of_cells))))
                text.append(characters_of)
                characters += len(characters_of)
                integers += len(column)
            gaps.append(gap)
            gap = 0
        gap += 1
    firsts, sizes = (np.stack(of_cells) for of_cells in zip(*cells, strict=True))
    out = np.empty(characters + integers * (_LONGEST_INTEGER + 1) + len(rows) * (len(COLUMNS) + 1), np.uint8)
    ends = np.zeros(len(rows) + 1, np.int64)
    compiled(_write)(
        np.array(kinds), np.array(gaps), firsts, sizes, np.concatenate(text), np.concatenate(items), gap - 1, out, ends
    )
    return pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]]))


def _sizes(column: pa.Array, sizes: Ints | int) -> Ints:
    """`sizes` of the cells, _NULL for nulls."""
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), sizes, _NULL)


def _texts(column: pa.StringArray) -> tuple[Ints, Bytes]:
    """Where in its text each cell of a column of strings starts, and where the last one ends; the text."""
    _, bounds, text = column.buffers()
    found = np.frombuffer(bounds, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    characters = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return found - found[0], characters[found[0] : found[-1]]


def _write(
    kinds: Ints,
    gaps: Ints,
    firsts: Ints,
    sizes: Ints,
    text: Bytes,
    items: Ints,
    last_gap: int,
    out: Bytes,
    ends: Ints,
) -> None:
    """The loop. Per field: its kind, and the bars in front of it; per field and row: the size, and where its
    text or items start, or the integer itself."""
    at = 0
    digits = np.zeros(_LONGEST_INTEGER, np.uint8)
    for row in range(len(ends) - 1):
        for field in range(len(kinds)):
            for _ in range(gaps[field]):
                out[at] = 0x7C
                at += 1
            kind, first, size = kinds[field], firsts[field, row], sizes[field, row]
            if size < 0:
                continue
            if kind != _TEXT:
                for place in range(size if kind == _INTEGERS else 1):
                    number = size if kind == _STRING else first if kind == _INTEGER else items[first + place]
                    if place:
                        out[at] = 0x2C
                        at += 1
                    if number < 0:
                        out[at] = 0x2D
                        at += 1
                        number = -number
                    count = 0
                    while number or not count:
                        digits[count] = 0x30 + number % 10
                        number //= 10
                        count += 1
                    while count:
                        count -= 1
                        out[at] = digits[count]
                        at += 1
            if kind == _STRING:
                out[at] = 0x3A
                at += 1
            if kind == _STRING or kind == _TEXT:
                for place in range(first, first + size):
                    out[at] = text[place]
                    at += 1
        for _ in range(last_gap):
            out[at] = 0x7C
            at += 1
        out[at] = 0x0A
        at += 1
        ends[row + 1] = at
