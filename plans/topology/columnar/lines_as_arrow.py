"""Topology lines as Arrow's JSON reader reads them, many at once."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import json

from plans.arrow_walks import Ints
from plans.tables import TRANSFORMATIONS
from plans.topology.operator_rules import OPERATOR_SCOPE
from plans.topology.transformation_columns import COLUMNS

_WEIGHTS = pa.struct([(str(use_case), pa.int32()) for use_case in OPERATOR_SCOPE])
_TRANSFORMATION = pa.struct(
    [(name, _WEIGHTS if name == "managed_memory" else TRANSFORMATIONS.field(name).type) for name in COLUMNS]
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
# Seldom used, and nested: together they are a third of what Arrow would note as absent in each row.
_RARE = ("min_resources", "preferred_resources", "names")
_LONGEST = 2**31 - 1
_LINES_AT_ONCE = (256, 16)

# Arrow takes null for an absent key, and a zero byte for the end of the text; stream graphs it does not know.
_SURPRISES = (b"null", b'"stream_graph"')
_END = b"\0"
_SPACES = b" \t\r"


def lines_as_arrow(lines: Sequence[bytes]) -> tuple[Ints, pa.Table]:
    """Which of the lines are read, and a row for each, null for what is not there.

    Lines that are read are JSON, one object each, with no other keys than those of transformations and none
    twice, and values of the right types; but a configuration has to be empty. Others may be right or wrong:
    Arrow refuses all that it is given for one line, so a few lines beside a wrong one are not read either.
    Transformations lack the fields of rare keys that no line has.
    """
    text = b"\n".join(lines)
    options = _options([key for key in _RARE if b'"%s"' % key.encode() not in text])
    places = np.flatnonzero([_without_surprises(line) for line in lines])
    taken, tables = [places[:0]], [options.explicit_schema.empty_table()]
    for piece, rows in _read_pieces(lines, places, _LINES_AT_ONCE, options):
        taken.append(piece)
        tables.append(rows)
    return np.concatenate(taken), pa.concat_tables(tables).combine_chunks()


def _options(left_out: Sequence[str]) -> json.ParseOptions:
    """For lines without some keys: for each that is declared, Arrow notes in each row that it is absent."""
    kept = pa.struct([field for field in _TRANSFORMATION if field.name not in left_out])
    schema = _LINE.set(_LINE.get_field_index(_NESTED), pa.field(_NESTED, pa.list_(kept)))
    return json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")


def _without_surprises(line: bytes) -> bool:
    text = line.strip(_SPACES)
    return text[:1] == b"{" and text[-1:] == b"}" and not any(surprise in text for surprise in _SURPRISES)


def _read_pieces(
    lines: Sequence[bytes], places: Ints, sizes: Sequence[int], options: json.ParseOptions
) -> Iterator[tuple[Ints, pa.Table]]:
    """The pieces of the first size that are read, those of the next size of the others, and so on."""
    size, *smaller = sizes
    for first in range(0, len(places), size):
        piece = places[first : first + size]
        rows = _read([lines[place] for place in piece.tolist()], options)
        if rows is not None:
            yield piece, rows
        elif smaller:
            yield from _read_pieces(lines, piece, smaller, options)


def _read(lines: Sequence[bytes], options: json.ParseOptions) -> pa.Table | None:
    """One row per line; None if Arrow cannot read one of them.

    Nothing that spans lines is JSON where each line begins and ends with a brace: so each holds one object
    if there are as many as lines.
    """
    data = b"\n".join(lines)
    if not data or len(data) > _LONGEST or _END in data or not _is_utf8(data):
        return None
    at_once = json.ReadOptions(use_threads=False, block_size=len(data))
    try:
        rows = json.read_json(pa.BufferReader(data), at_once, options)
    except pa.ArrowException:
        return None
    return rows if len(rows) == len(lines) else None


def _is_utf8(data: bytes) -> bool:
    """Arrow's JSON reader does not look."""
    bounds = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.StringArray.from_buffers(1, bounds, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
