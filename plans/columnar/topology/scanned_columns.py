"""What `scan_lines` found as Arrow columns."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from plans.arrow_walks import Ints
from plans.columnar.topology.line_automaton import CODES, ENUMS, INPUTS, KEYS, NESTED, NUMBERS, STRINGS, TEXTS
from plans.columnar.topology.scan_lines import Cells, Ints32, Scanned
from plans.compiled import compiled
from plans.topology.operator_rules import MAX_PARALLELISM, TRANSFORMATION_RULES
from plans.topology.transformation_columns import COLUMNS
from plans.topology.validate_transformations import resource_errors

Flags = npt.NDArray[np.bool_]

_STRING = pa.string()
_ABSENT_IS_EMPTY = "name"
_RESOURCES = ("min_resources", "preferred_resources")


class Nested(NamedTuple):
    """Distinct values of a column of texts in brackets, None for those that are wrong; per cell which one it
    has, behind the last where it has none."""

    values: list[Any]
    of_cells: Ints


def scanned_transformations(scanned: Scanned) -> tuple[pa.StructArray, Flags]:
    """The rows as columns of TRANSFORMATIONS behind topology_id, and which of them are wrong after all."""
    rows = scanned.rows
    has = {key: rows.has(KEYS.index(key)) for key in COLUMNS}
    nested = {
        name: nested_values(
            scanned.data, rows, TEXTS.index(name), has[name], TRANSFORMATION_RULES[name].accepts
        )
        for name in NESTED
    }
    max_parallelism = rows.codes[CODES.index("max_parallelism")]
    wrong = has["max_parallelism"] & (max_parallelism > MAX_PARALLELISM) | _wrong_resources(
        *(nested[name] for name in _RESOURCES)
    )
    columns: dict[str, pa.Array] = {}
    for name, build in COLUMNS.items():
        if name in ENUMS:
            columns[name] = _words(rows.codes[CODES.index(name)], has[name], ENUMS[name])
        elif name in NUMBERS:
            kind = pa.int64() if name == "buffer_timeout" else pa.int32()
            columns[name] = numbers(rows.codes[CODES.index(name)], has[name], kind)
        elif name in STRINGS:
            columns[name], undecodable = strings(scanned.data, rows, TEXTS.index(name), has[name])
            wrong |= undecodable
        elif name in NESTED:
            values, of_cells = nested[name]
            wrong |= np.array([value is None for value in (*values, ())])[of_cells]
            columns[name] = build([*values, None]).take(pa.array(of_cells))
        elif name == INPUTS:
            columns[name] = pa.ListArray.from_arrays(pa.array(scanned.bounds), pa.array(scanned.inputs))
    columns["name"] = pc.fill_null(columns["name"], "")
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns)), wrong


def numbers(codes: Ints32, there: Flags, kind: pa.DataType) -> pa.Array:
    """A column of numbers, null where there is none."""
    return pa.array(codes.astype(kind.to_pandas_dtype()), mask=None if there.all() else ~there)


def strings(data: bytes, cells: Cells, column: int, there: Flags) -> tuple[pa.StringArray, Flags]:
    """A column of texts in quotes, null where there is none; and which are no strings for their escapes."""
    wrong = np.zeros(len(there), bool)
    if not there.any():
        return pa.nulls(len(there), _STRING), wrong
    begins = cells.begins[column]
    bounds = np.zeros(len(there) + 1, np.int32)
    np.cumsum(np.where(there, cells.ends[column] - begins, 0), out=bounds[1:])
    text = np.empty(bounds[-1], np.uint8)
    compiled(_copy)(np.frombuffer(data, np.uint8), begins, bounds, text)
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    raw = pa.StringArray.from_buffers(len(there), pa.py_buffer(bounds), pa.py_buffer(text), valid)
    if not (text == ord("\\")).any():
        return raw, wrong
    return _unescaped(raw, wrong), wrong


def nested_values(
    data: bytes, cells: Cells, column: int, there: Flags, accepts: Callable[[Any], bool]
) -> Nested:
    """The values of a column of texts in brackets, each parsed once."""
    places = np.flatnonzero(there)
    begins, ends = (of_cells[column][places].tolist() for of_cells in (cells.begins, cells.ends))
    numbers_of: dict[bytes, int] = {}
    found = [numbers_of.setdefault(data[b:e], len(numbers_of)) for b, e in zip(begins, ends, strict=True)]
    of_cells = np.full(len(there), len(numbers_of))
    of_cells[places] = found
    return Nested([_value(text, accepts) for text in numbers_of], of_cells)


def _value(text: bytes, accepts: Callable[[Any], bool]) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if accepts(value) else None


def _words(codes: Ints32, there: Flags, words: Sequence[str]) -> pa.StringArray:
    if not there.any():
        return pa.nulls(len(there), _STRING)
    return pa.array(words, _STRING).take(numbers(codes, there, pa.int32()))


def _unescaped(raw: pa.StringArray, wrong: Flags) -> pa.StringArray:
    """Strings with escapes, decoded as all JSON is; `wrong` is set where that fails."""
    escaped = pc.fill_null(pc.match_substring(raw, "\\"), False)
    places = np.flatnonzero(escaped.to_numpy(zero_copy_only=False))
    decoded = []
    for place, text in zip(places.tolist(), raw.filter(escaped).to_pylist(), strict=True):
        try:
            decoded.append(orjson.loads(f'"{text}"'))
        except orjson.JSONDecodeError:
            wrong[place] = True
            decoded.append("")
    return pc.replace_with_mask(raw, escaped, pa.array(decoded, _STRING))


def _wrong_resources(low: Nested, high: Nested) -> Flags:
    """Rows with one of both resources, or with a minimum above what is preferred."""
    alone: Flags = (low.of_cells == len(low.values)) != (high.of_cells == len(high.values))
    places = np.flatnonzero((low.of_cells < len(low.values)) & ~alone)
    pairs = list(zip(low.of_cells[places].tolist(), high.of_cells[places].tolist(), strict=True))
    above = {
        (least, most)
        for least, most in set(pairs)
        if resource_errors({"min_resources": low.values[least], "preferred_resources": high.values[most]}, "")
    }
    alone[places] = [pair in above for pair in pairs]
    return alone


def _copy(data: npt.NDArray[np.uint8], begins: Ints32, bounds: Ints32, text: npt.NDArray[np.uint8]) -> None:
    """The loop: text from `begins` on, into `bounds`."""
    for cell in range(len(begins)):
        shift = begins[cell] - bounds[cell]
        for at in range(bounds[cell], bounds[cell + 1]):
            text[at] = data[at + shift]
