"""A block of topology lines as PARSED: plain lines all at once, others one by one."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.arrow_walks import Ints
from plans.columnar.topology.canonical_texts import canonical_texts
from plans.columnar.topology.lines_batch import lines_batch
from plans.columnar.topology.plain_topologies import FORM, plain_topologies, settings_of_plain_topologies
from plans.columnar.topology.scan_lines import scan_lines
from plans.columnar.topology.scanned_columns import Flags, scanned_transformations
from plans.compiled import is_worth_compiling
from plans.topology.fingerprint import transformations_fingerprints
from plans.topology.parse_lines import NESTED_COLUMNS, ROW_TYPES, parse_lines

_BYTES_OF_A_ROW = 64
_LONGEST_BLOCK = 2**31 - 1
_NESTED = tuple(NESTED_COLUMNS)[1:]


class Block(NamedTuple):
    """Whole lines of a file, each with its newline, and the ordinal of the first."""

    data: bytes
    file: str
    first: int


def parse_block(block: Block) -> list[pa.RecordBatch]:
    """What `parse_lines` gives for the lines of a block, in their order.

    Lines that are right and plain (see `line_automaton`) are read all at once, if there are many; the others,
    or all, go through `parse_lines`.
    """
    data, file, first = block
    many = is_worth_compiling(len(data) // _BYTES_OF_A_ROW)
    if not (many and len(data) <= _LONGEST_BLOCK and _is_utf8(data)):
        values = data.split(b"\n")[:-1]
        return list(parse_lines([lines_batch(values, file, range(first, first + len(values)))]))
    plain, lines, starts = _plain_lines(data, file, first)
    others = np.setdiff1d(np.arange(len(starts) - 1), lines)
    if not len(others):
        return [plain]
    values = [data[starts[line] : starts[line + 1] - 1] for line in others.tolist()]
    one_by_one = parse_lines([lines_batch(values, file, (first + others).tolist())])
    rows = pa.Table.from_batches([plain, *one_by_one])
    batches: list[pa.RecordBatch] = rows.take(pc.sort_indices(rows["ordinal"])).combine_chunks().to_batches()
    return batches


def _is_utf8(data: bytes) -> bool:
    bounds = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.StringArray.from_buffers(1, bounds, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _plain_lines(data: bytes, file: str, first: int) -> tuple[pa.RecordBatch, Ints, Ints]:
    """PARSED of the plain lines; which lines they are; and where each line starts."""
    scanned = scan_lines(data)
    rows, wrong_rows = scanned_transformations(scanned)
    topologies, wrong = plain_topologies(scanned)
    of_rows = np.repeat(np.arange(len(wrong)), scanned.sizes)
    wrong[of_rows[wrong_rows]] = True
    lines = np.flatnonzero(scanned.taken & ~wrong)
    rows = _of_lines(rows, of_rows, ~wrong)
    sizes = scanned.sizes[lines]
    settings, refused = settings_of_plain_topologies(
        topologies.at(lines), rows.field("kind"), rows.field("inputs"), sizes
    )
    if refused.any():
        rows = _of_lines(rows, np.repeat(np.arange(len(lines)), sizes), ~refused)
        lines, sizes, settings = lines[~refused], sizes[~refused], settings.filter(pa.array(~refused))
    taken = topologies.at(lines)
    starts = np.cumsum(sizes) - sizes
    digests = transformations_fingerprints(taken.headers(), canonical_texts(rows), starts, sizes)
    found = {
        "source_file": pa.array([file] * len(lines), pa.string()),
        "block_start": pa.array(np.zeros(len(lines), np.int64)),
        "ordinal": pa.array(lines + first),
        "name": taken.names,
        "form": pa.array([FORM] * len(lines), pa.string()),
        "parallelism": taken.parallelism,
        "max_parallelism": taken.max_parallelism,
        "chaining": taken.chaining,
        "config": taken.config_column(),
        "fingerprint": pa.array(digests, pa.string()),
        "settings": settings,
    }
    columns = {name: found.get(name, pa.nulls(len(lines), kind)) for name, kind in ROW_TYPES.items()}
    bounds = np.append(starts, len(rows)).astype(np.int32)
    columns["transformations"] = pa.ListArray.from_arrays(pa.array(bounds), rows)
    for name in _NESTED:
        columns[name] = pa.ListArray.from_arrays(pa.array(np.zeros_like(bounds)), NESTED_COLUMNS[name]([]))
    return pa.RecordBatch.from_pydict(columns), lines, scanned.starts


def _of_lines(rows: pa.StructArray, of_rows: Ints, wanted: Flags) -> pa.StructArray:
    return rows if wanted[of_rows].all() else rows.filter(pa.array(wanted[of_rows]))
