"""A block of topology lines as PARSED: plain lines all at once, others one by one."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.compiled import compiled, is_worth_compiling
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.columnar.canonical_texts import COLUMNS, RESOURCES_TYPE, canonical_texts
from penstock.plans.topology.columnar.lines_batch import lines_batch
from penstock.plans.topology.columnar.plain_topologies import (
    FORM,
    READ_BY_ARROW,
    plain_sinks,
    plain_topologies,
    settings_of_plain_topologies,
)
from penstock.plans.topology.columnar.suspicious_transformation import PHYSICAL, suspicious_transformation
from penstock.plans.topology.fingerprint import transformations_fingerprints
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.operator_rules import OPERATOR_SCOPE
from penstock.plans.topology.parse_lines import NESTED_COLUMNS, ROW_TYPES, parse_lines

# Finds the lines of a text, and those that can be read all at once.


Bytes = npt.NDArray[np.uint8]

_NEVER_PLAIN = ("stream_graph", "pre_write", "pre_commit", "post_commit")


class FoundLines(NamedTuple):
    """The lines of a text. One value per line, except `text` and `keys`.

    text: the text, with spaces in place of configurations. starts, ends: where a line begins, and where its
    newline is. is_plain: see find_plain_lines. config_starts, config_ends: the bounds of the configuration,
    an object; both 0 if there is none. keys: the requested keys that occur in the text.
    """

    text: Bytes
    starts: Ints
    ends: Ints
    is_plain: Flags
    config_starts: Ints
    config_ends: Ints
    keys: frozenset[str]


def find_plain_lines(data: bytes, keys: Sequence[str]) -> FoundLines:
    """The lines of `data`, each of which has its newline, and which of `keys` are somewhere in it.

    A plain line begins and ends with a brace, has no zero byte, no stream graph, no steps of a sink, no
    `null` outside its configuration, and at most one configuration, an object. Plain lines may be wrong. The
    part taken as the configuration is one if the rest of the line, with an empty object in its place, turns
    out right, since only a key can stand before a colon. It may itself be wrong.
    """
    text = np.frombuffer(data, np.uint8).copy()
    count = data.count(b"\n")
    ends, config_starts, config_ends = (np.zeros(count, np.int64) for _ in range(3))
    is_plain = np.ones(count, np.bool_)
    compiled(_cut_configs)(text, _quoted(["config"])[0], ends, config_starts, config_ends, is_plain)
    starts = np.append(0, ends + 1)[:-1]
    characters = _quoted([*_NEVER_PLAIN, *keys])
    has_key = np.zeros(len(characters), np.bool_)
    not_plain = len(_NEVER_PLAIN)
    compiled(_look_for_surprises)(text, starts, ends, characters, not_plain, is_plain, has_key)
    present_keys = frozenset(key for key, has in zip(keys, has_key[not_plain:].tolist(), strict=True) if has)
    return FoundLines(text, starts, ends, is_plain, config_starts, config_ends, present_keys)


def _quoted(keys: Sequence[str]) -> Bytes:
    """Each key in quotes, newlines after it."""
    width = max(map(len, keys)) + 3
    return np.frombuffer(b"".join(f'"{key}"'.ljust(width, "\n").encode() for key in keys), np.uint8).reshape(
        len(keys), width
    )


def _cut_configs(
    text: Bytes, key: Bytes, ends: Ints, config_starts: Ints, config_ends: Ints, is_plain: Flags
) -> None:
    """The loop that finds lines and configurations. Neither loop checks bounds: the last character is a
    newline, which stops them. A line found not to be plain is skipped, because each further configuration
    could be searched for up to its end."""
    at = line = 0
    while at < len(text):
        if text[at] == 0x0A:
            ends[line] = at
            line += 1
        elif text[at] == 0x22 and is_plain[line]:
            place = 1
            while text[at + place] == key[place] != 0x0A:
                place += 1
            if key[place] == 0x0A:
                end = at + place
                while text[end] == 0x20 or text[end] == 0x09 or text[end] == 0x0D:
                    end += 1
                if text[end] == 0x3A:
                    end += 1
                    while text[end] == 0x20 or text[end] == 0x09 or text[end] == 0x0D:
                        end += 1
                    first, depth, in_string = end, 1, False
                    end += text[first] == 0x7B
                    while depth and text[end] != 0x0A:
                        if text[end] == 0x22:
                            in_string = not in_string
                        elif text[end] == 0x5C and text[end + 1] != 0x0A:
                            end += 1
                        elif not in_string:
                            depth += (text[end] == 0x7B) - (text[end] == 0x7D)
                        end += 1
                    if depth or text[first] != 0x7B or config_ends[line]:
                        is_plain[line] = False
                    else:
                        config_starts[line], config_ends[line] = first, end
                        text[first + 1 : end - 1] = 0x20
                        at = end - 1
        at += 1


def _look_for_surprises(
    text: Bytes, starts: Ints, ends: Ints, keys: Bytes, not_plain: int, is_plain: Flags, has_key: Flags
) -> None:
    """The loop that looks at what is left. Lines with one of the first keys, `not_plain`, are not plain."""
    for line in range(len(ends)):
        for at in range(starts[line], ends[line]):
            if text[at] == 0x22:
                for key in range(len(keys)):
                    place = 1
                    while text[at + place] == keys[key, place] != 0x0A:
                        place += 1
                    if keys[key, place] == 0x0A:
                        has_key[key] = True
                        is_plain[line] &= key >= not_plain
            elif text[at] == 0x6E:
                if text[at + 1] == 0x75 and text[at + 2] == 0x6C and text[at + 3] == 0x6C:
                    is_plain[line] = False
            elif text[at] == 0:
                is_plain[line] = False
        first, last = starts[line], ends[line] - 1
        while text[first] == 0x20 or text[first] == 0x09 or text[first] == 0x0D:
            first += 1
        while first < last and (text[last] == 0x20 or text[last] == 0x09 or text[last] == 0x0D):
            last -= 1
        is_plain[line] &= first < last and text[first] == 0x7B and text[last] == 0x7D


# Topology lines as Arrow's JSON reader reads them, many at once.


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
_NESTED_LINE = "transformations"
_LINE = pa.schema(
    [
        ("name", pa.string()),
        ("parallelism", pa.int32()),
        ("max_parallelism", pa.int32()),
        ("chaining", pa.bool_()),
        ("config", pa.struct([])),
        (_NESTED_LINE, pa.list_(_TRANSFORMATION)),
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
    schema = _LINE.set(_LINE.get_field_index(_NESTED_LINE), pa.field(_NESTED_LINE, pa.list_(kept)))
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
