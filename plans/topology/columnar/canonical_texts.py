"""Canonical texts of many transformations at once."""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import compiled, is_worth_compiling
from penstock.plans.topology.fingerprint import CAPTURE_NOTES
from penstock.plans.topology.transformation_columns import COLUMNS, IF_SET, canonical_column, canonical_rows
from penstock.plans.vocabulary import TopologyForm

_TEXT, _STRING, _INTEGER, _INTEGERS = range(4)
_LONGEST_INTEGER = 20
_FIELDS = (*(name for name in COLUMNS if name != IF_SET), IF_SET)

Bytes = npt.NDArray[np.uint8]


def canonical_texts(rows: pa.StructArray) -> pa.StringArray | pa.LargeStringArray:
    """As `canonical_rows`: one line per row of the columns of TRANSFORMATIONS, whose values are right."""
    if not is_worth_compiling(len(rows)):
        return canonical_rows(rows)
    kinds = np.zeros(len(_FIELDS), np.int64)
    present = np.zeros(len(rows), np.int32)
    cells = np.zeros((len(_FIELDS), len(rows) + 1), np.int64)
    text, items = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
    characters = integers = 0
    for field, name in enumerate(_FIELDS):
        column = rows.field(name)
        if column.null_count == len(column):
            continue
        if pa.types.is_integer(column.type):
            kinds[field] = _INTEGER
            width = column.type.bit_width // 8
            of_rows = np.frombuffer(column.buffers()[1], f"i{width}", len(column), column.offset * width)
            cells[field, :-1] = of_rows
        elif name == "inputs":
            kinds[field] = _INTEGERS
            bounds = column.offsets.to_numpy()
            np.subtract(bounds, bounds[0], out=cells[field])
            items.append(column.flatten().to_numpy().astype(np.int64))
            integers += len(items[-1])
        else:
            is_string = pa.types.is_string(column.type)
            kinds[field] = _STRING if is_string else _TEXT
            column = column if is_string else canonical_column(name, column)
            bounds, text_of_cells = _texts(column)
            np.add(bounds, characters - bounds[0], out=cells[field])
            text.append(text_of_cells)
            characters += len(text_of_cells)
        if column.null_count:
            present |= column.is_valid().to_numpy(zero_copy_only=False).astype(np.int32) << field
        else:
            present |= 1 << field
        integers += len(column) - column.null_count
    out = np.empty(characters + integers * (_LONGEST_INTEGER + 1) + len(rows) * len(_FIELDS), np.uint8)
    ends = np.zeros(len(rows) + 1, np.int64)
    compiled(_write)(kinds, present, cells, np.concatenate(text), np.concatenate(items), out, ends)
    return pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]]))


def _texts(column: pa.StringArray) -> tuple[npt.NDArray[np.int32], Bytes]:
    """The bounds of the cells in a column of strings, and the text from the first cell on."""
    _, bounds, text = column.buffers()
    starts = np.frombuffer(bounds, np.int32, len(column) + 1, column.offset * 4)
    characters = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return starts, characters[starts[0] : starts[-1]]


def _write(
    kinds: Ints, present: npt.NDArray[np.int32], cells: Ints, text: Bytes, items: Ints, out: Bytes, ends: Ints
) -> None:
    """The compiled loop.

    present: a bit per field that is not null. cells: per field and row an integer, or the start of its text
    or items, which end at the next row's start. The last field is left out if it is null.
    """
    at = 0
    digits = np.zeros(_LONGEST_INTEGER, np.uint8)
    for row in range(len(present)):
        mask = present[row]
        for field in range(len(kinds) - 1 + (mask >> len(kinds) - 1 & 1)):
            if field:
                out[at] = 0x7C
                at += 1
            if not mask >> field & 1:
                continue
            kind, first = kinds[field], cells[field, row]
            size = 1 if kind == _INTEGER else cells[field, row + 1] - first
            if kind != _TEXT:
                for place in range(1 if kind == _STRING else size):
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
            if kind in (_STRING, _TEXT):
                for place in range(first, first + size):
                    out[at] = text[place]
                    at += 1
        out[at] = 0x0A
        at += 1
        ends[row + 1] = at


# Canonical headers of topologies. As joins.fingerprint.


_CONFIG = pl.col("config").map.entries()
_ITEM = pl.element()


def canonical_headers(topologies: pl.DataFrame) -> list[bytes]:
    """The canonical header of each TOPOLOGIES row of transformations, with its newline."""
    text = pl.concat_str(
        pl.lit(str(TopologyForm.TRANSFORMATIONS)),
        _string(pl.col("name")),
        pl.col("parallelism").cast(pl.String),
        pl.col("max_parallelism").cast(pl.String).fill_null(""),
        pl.when("chaining").then(pl.lit("true")).otherwise(pl.lit("false")),
        _kept_entries().list.sort().list.join(","),
        separator="|",
    )
    lines = topologies.select(pl.concat_str(text, pl.lit("\n"))).to_series()
    return [line.encode() for line in lines]


def config_text() -> pl.Expr:
    """The list of a config's entries in the order given, each as its canonical text."""
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return _CONFIG.list.eval(pl.concat_str(*fields, separator="="))


def _kept_entries() -> pl.Expr:
    """`config_text` without what `penstock capture` notes of itself."""
    kept = _CONFIG.list.filter(~_ITEM.struct.field("key").str.starts_with(CAPTURE_NOTES))
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return kept.list.eval(pl.concat_str(*fields, separator="="))


def _string(value: pl.Expr) -> pl.Expr:
    """Length in bytes, a colon, and the string."""
    return pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
