"""Topology lines as Arrow's JSON reader reads them, many at once."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import json

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.columnar.find_plain_lines import Bytes, FoundLines
from penstock.plans.topology.columnar.plain_topologies import READ_BY_ARROW
from penstock.plans.topology.operator_rules import OPERATOR_SCOPE
from penstock.plans.topology.transformation_columns import COLUMNS

_WEIGHTS = pa.struct([(str(use_case), pa.int32()) for use_case in OPERATOR_SCOPE])
_TRANSFORMATION = pa.struct(
    [
        *(
            (name, _WEIGHTS if name == "managed_memory" else TRANSFORMATIONS.field(name).type)
            for name in COLUMNS
            if name != "sink_topology"  # not a key: it is assembled from several
        ),
        *READ_BY_ARROW.items(),
    ]
)
_NESTED = "transformations"
_LINE = pa.schema(
    [
        ("name", pa.string()),
        ("parallelism", pa.int32()),
        ("max_parallelism", pa.int32()),
        ("chaining", pa.bool_()),
        ("config", pa.struct([])),
        (_NESTED, pa.list_(_TRANSFORMATION)),
    ]
)
# Nested: together they are a third of what Arrow would note as absent in each row.
RARE_KEYS = ("min_resources", "preferred_resources", "names", *READ_BY_ARROW)
"""Keys of transformations that are seldom used."""

_LONGEST = 2**31 - 1
_LINES_AT_ONCE = (256, 16)


def lines_as_arrow(lines: FoundLines) -> tuple[Ints, pa.Table]:
    """The lines that Arrow can read, and a row for each, with null for absent keys.

    In: lines found with RARE_KEYS; only plain ones are read. Lines that are read are JSON, one object each,
    with the keys of transformations only, none twice, and values of the right types. Others may be right or
    wrong: one wrong line makes Arrow refuse its whole piece, so a few lines next to it are not read either.
    Transformations lack the fields of rare keys that no line has.
    """
    options = _options([key for key in RARE_KEYS if key not in lines.keys])
    places = np.flatnonzero(lines.is_plain)
    bounds = np.append(0, np.cumsum((lines.ends - lines.starts + 1)[places]))
    text = lines.text
    if len(places) < len(lines.is_plain):
        text = text[np.repeat(lines.is_plain, lines.ends - lines.starts + 1)]
    taken, tables = [places[:0]], [options.explicit_schema.empty_table()]
    for first, last, rows in _read_pieces(text, bounds, 0, len(places), _LINES_AT_ONCE, options):
        taken.append(places[first:last])
        tables.append(rows)
    return np.concatenate(taken), pa.concat_tables(tables).combine_chunks()


def _options(left_out: Sequence[str]) -> json.ParseOptions:
    """Options for lines without some keys, whose absence Arrow would otherwise store in every row."""
    kept = pa.struct([field for field in _TRANSFORMATION if field.name not in left_out])
    schema = _LINE.set(_LINE.get_field_index(_NESTED), pa.field(_NESTED, pa.list_(kept)))
    return json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")


def _read_pieces(
    text: Bytes, bounds: Ints, begin: int, end: int, sizes: Sequence[int], options: json.ParseOptions
) -> Iterator[tuple[int, int, pa.Table]]:
    """The readable pieces of the lines from `begin` to `end`.

    Pieces have the first size; one that cannot be read is divided into pieces of the next size, and so on.
    """
    size, *smaller = sizes
    for first in range(begin, end, size):
        last = min(first + size, end)
        rows = _read(text[bounds[first] : bounds[last]], last - first, options)
        if rows is not None:
            yield first, last, rows
        elif smaller:
            yield from _read_pieces(text, bounds, first, last, smaller, options)


def _read(text: Bytes, lines: int, options: json.ParseOptions) -> pa.Table | None:
    """One row per line; None if Arrow cannot read one of them.

    If each line begins and ends with a brace, no JSON value spans lines. So each line holds one object if
    there are as many objects as lines.
    """
    if len(text) > _LONGEST or not _is_utf8(text):
        return None
    at_once = json.ReadOptions(use_threads=False, block_size=len(text))
    try:
        rows = json.read_json(pa.BufferReader(pa.py_buffer(text)), at_once, options)
    except pa.ArrowException:
        return None
    return rows if len(rows) == lines else None


def _is_utf8(text: Bytes) -> bool:
    """Arrow's JSON reader does not look."""
    bounds = pa.py_buffer(np.array([0, len(text)], np.int32))
    try:
        pa.StringArray.from_buffers(1, bounds, pa.py_buffer(text)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
