"""A block of topology lines as PARSED: plain lines all at once, others one by one."""

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.compiled import is_worth_compiling
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.columnar.canonical_texts import canonical_texts
from penstock.plans.topology.columnar.find_plain_lines import FoundLines, find_plain_lines
from penstock.plans.topology.columnar.lines_as_arrow import RARE_KEYS, lines_as_arrow
from penstock.plans.topology.columnar.lines_batch import lines_batch
from penstock.plans.topology.columnar.plain_topologies import (
    FORM,
    plain_sinks,
    plain_topologies,
    settings_of_plain_topologies,
)
from penstock.plans.topology.columnar.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.fingerprint import transformations_fingerprints
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.parsed_batches import NESTED_COLUMNS, ROW_TYPES
from penstock.plans.topology.suspicious_transformation import PHYSICAL
from penstock.plans.topology.transformation_columns import COLUMNS, RESOURCES_TYPE

BYTES_OF_A_ROW = 64
"""Of a transformation in a topology file, about."""

_NESTED = tuple(NESTED_COLUMNS)[1:]


class LineBlock(NamedTuple):
    """Whole lines of a file, each with its newline, and the ordinal of the first."""

    data: bytes
    file: str
    first: int


def parse_block(block: LineBlock, job_defaults: JobDefaults = NO_DEFAULTS) -> list[pa.RecordBatch]:
    """The result of `parse_lines` for the lines of a block, in their order.

    Lines that are right and plain (see `lines_as_arrow`) are read all at once, if there are many; the others,
    or all, go through `parse_lines`.
    """
    data, file, first = block
    if not is_worth_compiling(len(data) // BYTES_OF_A_ROW):
        values = data.split(b"\n")[:-1]
        whole = lines_batch(values, file, range(first, first + len(values)))
        return list(parse_lines([whole], job_defaults=job_defaults))
    line_bounds = find_plain_lines(data, RARE_KEYS)
    plain, lines = _plain_lines(block, line_bounds, job_defaults)
    others = np.setdiff1d(np.arange(len(line_bounds.starts)), lines)
    if not len(others):
        return [plain]
    other_texts = _texts(data, line_bounds.starts[others], line_bounds.ends[others])
    batch = lines_batch(other_texts, file, (first + others).tolist())
    one_by_one = parse_lines([batch], job_defaults=job_defaults)
    rows = pa.Table.from_batches([plain, *one_by_one])
    batches: list[pa.RecordBatch] = rows.take(pc.sort_indices(rows["ordinal"])).combine_chunks().to_batches()
    return batches


def _texts(data: bytes, starts: Ints, ends: Ints) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _plain_lines(
    block: LineBlock, line_bounds: FoundLines, job_defaults: JobDefaults = NO_DEFAULTS
) -> tuple[pa.RecordBatch, Ints]:
    """PARSED of the plain lines that are right, and the numbers of these lines."""
    data, file, first = block
    lines, read = lines_as_arrow(line_bounds)
    configs = [
        text or b"{}"
        for text in _texts(data, line_bounds.config_starts[lines], line_bounds.config_ends[lines])
    ]
    topologies, wrong = plain_topologies(read, configs, job_defaults)
    nested = read["transformations"].combine_chunks()
    sizes = np.diff(nested.offsets.to_numpy()).astype(np.int64)
    rows, wrong_rows = plain_transformations(nested.flatten())
    of_rows = np.repeat(np.arange(len(lines)), sizes)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    wrong_rows = wrong_rows | (rows.field("id").fill_null(0).to_numpy() != places + 1)
    right = ~wrong & (sizes > 0)
    right[of_rows[wrong_rows]] = False
    rows = _keep_lines(rows, of_rows, right)
    topologies, lines, sizes = topologies.at(np.flatnonzero(right)), lines[right], sizes[right]
    settings, refused = settings_of_plain_topologies(
        topologies, rows.field("kind"), rows.field("inputs"), sizes
    )
    if refused.any():
        rows = _keep_lines(rows, np.repeat(np.arange(len(lines)), sizes), ~refused)
        lines, sizes, settings = lines[~refused], sizes[~refused], settings.filter(pa.array(~refused))
        topologies = topologies.at(np.flatnonzero(~refused))
    starts = np.cumsum(sizes) - sizes
    digests = transformations_fingerprints(topologies.headers(), canonical_texts(rows), starts, sizes)
    columns_found = {
        "source_file": pa.array([file] * len(lines), pa.string()),
        "block_start": pa.array(np.zeros(len(lines), np.int64)),
        "ordinal": pa.array(lines + first),
        "name": topologies.names,
        "form": pa.array([FORM] * len(lines), pa.string()),
        "parallelism": topologies.parallelism,
        "max_parallelism": topologies.max_parallelism,
        "chaining": topologies.chaining,
        "config": topologies.config_column(),
        "fingerprint": pa.array(digests, pa.string()),
        "settings": settings,
    }
    columns = {name: columns_found.get(name, pa.nulls(len(lines), kind)) for name, kind in ROW_TYPES.items()}
    bounds = np.append(starts, len(rows)).astype(np.int32)
    columns["transformations"] = pa.ListArray.from_arrays(pa.array(bounds), rows)
    for name in _NESTED:
        columns[name] = pa.ListArray.from_arrays(pa.array(np.zeros_like(bounds)), NESTED_COLUMNS[name]([]))
    return pa.RecordBatch.from_pydict(columns), lines


def _keep_lines(rows: pa.StructArray, of_rows: Ints, wanted: Flags) -> pa.StructArray:
    return rows if wanted[of_rows].all() else rows.filter(pa.array(wanted[of_rows]))


# Transformations as Arrow's JSON reader gives them, as columns of TRANSFORMATIONS.


_ABSENT_IS_EMPTY = ("inputs", "slot_scope")
_ABSENT_IS_ZERO = ("task_off_heap_memory_bytes", "managed_memory_bytes")


def plain_transformations(transformations: pa.StructArray) -> tuple[pa.StructArray, Flags]:
    """The columns after topology_id, with defaults filled in, and a flag for rows that may be wrong.

    In: transformations as `lines_as_arrow` gives them, null for keys that are not there. Ids are not checked.
    """
    there = {field.name for field in transformations.type}
    columns = {
        name: transformations.field(name)
        if name in there
        else pa.nulls(len(transformations), TRANSFORMATIONS.field(name).type)
        for name in COLUMNS
    }
    misplaced = _has_what_operators_have(columns)
    columns["name"] = pc.fill_null(columns["name"], "")
    columns["managed_memory"] = _weights(columns["managed_memory"])
    for name in _ABSENT_IS_EMPTY:
        columns[name] = pa.ListArray.from_arrays(columns[name].offsets, columns[name].values)
    for name in ("min_resources", "preferred_resources"):
        columns[name] = _resources(columns[name])
    rows = pa.RecordBatch.from_pydict(columns)
    suspicious = suspicious_transformation(from_arrow(rows)).to_numpy() | misplaced
    sinks, wrong_sinks = plain_sinks(transformations)
    rows = rows.set_column(rows.schema.get_field_index("sink_topology"), "sink_topology", sinks)
    return rows.to_struct_array(), suspicious | wrong_sinks


def _has_what_operators_have(columns: dict[str, pa.Array]) -> Flags:
    """A virtual kind with a map or list that only operators may have: empty is there, too."""
    there = pc.or_(columns["managed_memory"].is_valid(), columns["slot_scope"].is_valid())
    kinds = pl.Series(columns["kind"].filter(there))
    wrong = np.zeros(len(there), bool)
    wrong[there.to_numpy(zero_copy_only=False)] = ~kinds.is_in(PHYSICAL).fill_null(False).to_numpy()
    return wrong


def _weights(structs: pa.StructArray) -> pa.MapArray:
    """Structs of the one use case of operators as maps."""
    (use_case,) = (field.name for field in structs.type)
    (weights,) = structs.flatten()
    bounds = np.append(0, np.cumsum(weights.is_valid().to_numpy(zero_copy_only=False)))
    items = weights.drop_null()
    return pa.MapArray.from_arrays(
        pa.array(bounds, pa.int32()), pa.repeat(pa.scalar(use_case), len(items)), items
    )


def _resources(structs: pa.StructArray) -> pa.StructArray:
    if structs.null_count == len(structs):
        return pa.nulls(len(structs), RESOURCES_TYPE)
    fields = [
        pc.fill_null(structs.field(field.name), 0)
        if field.name in _ABSENT_IS_ZERO
        else structs.field(field.name)
        for field in RESOURCES_TYPE
    ]
    return pa.StructArray.from_arrays(fields, fields=list(RESOURCES_TYPE), mask=structs.is_null())
