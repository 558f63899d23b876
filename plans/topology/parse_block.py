"""Parse a block of topology lines as PARSED, plain lines together and others one by one."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.compiled import compiled, is_worth_compiling
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.canonical_texts import (
    COLUMNS,
    JSON_COLUMNS,
    RESOURCES_TYPE,
    canonical_texts,
    json_of_keys,
)
from penstock.plans.topology.fingerprint import config_text, header_text, transformations_fingerprints
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.job_settings import FlinkRefusal, may_run_as_batch, read_job_settings
from penstock.plans.topology.json_documents import may_have_duplicate_keys
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.operator_rules import (
    NOT_BESIDE_WRITER,
    OPERATOR_SCOPE,
    SINK_TOPOLOGY,
    sink_errors,
)
from penstock.plans.topology.parse_lines import NESTED_COLUMNS, ROW_TYPES, SETTINGS, as_arrow, parse_lines
from penstock.plans.topology.suspicious_transformation import PHYSICAL, suspicious_transformation
from penstock.plans.topology.topologies_of_lines import topology_holds
from penstock.plans.topology.validate_topology import CONFIG
from penstock.plans.topology.validate_transformations import reads_unbounded_source
from penstock.plans.vocabulary import Kind, TopologyForm

# The parts of plain lines besides transformations: their own values, headers and job settings.


FORM = str(TopologyForm.TRANSFORMATIONS)

_OWN_VALUES = ("name", "parallelism", "max_parallelism", "chaining")
_CONFIGS = pa.map_(pa.string(), pa.string())


class PlainTopologies(NamedTuple):
    """One row per line. config: its index in `configs` (distinct; None for wrong ones)."""

    names: pa.StringArray
    parallelism: pa.Array
    max_parallelism: pa.Array
    chaining: pa.Array
    config: Ints
    configs: list[dict[str, str] | None]

    def config_column(self) -> pa.MapArray:
        """Return the configuration of each row."""
        entries = [list((config or {}).items()) for config in self.configs]
        return pa.array(entries, _CONFIGS).take(pa.array(self.config))

    def headers(self) -> list[bytes]:
        """Return the first line of each row's canonical text."""
        texts = [config_text(config or {}) for config in self.configs]
        values = (self.names, self.parallelism, self.max_parallelism, self.chaining)
        rows = zip(
            repeat(FORM),
            *(column.to_pylist() for column in values),
            map(texts.__getitem__, self.config),
            strict=False,
        )
        return [header_text(*row) for row in rows]

    def at(self, places: Ints) -> "PlainTopologies":
        names, parallelism, limits, chaining = (column.take(pa.array(places)) for column in self[:4])
        return PlainTopologies(names, parallelism, limits, chaining, self.config[places], self.configs)


def _parallelism(own: pa.Array, job_defaults: JobDefaults) -> pa.Array:
    """Replace the parallelism that topologies set by the requested one; wrong values stay, to be rejected."""
    if job_defaults.asked_parallelism is None:
        return own
    return pc.if_else(pc.greater(own, 0), pa.scalar(job_defaults.asked_parallelism, own.type), own)


def _plain_topologies(
    rows: pa.Table, config_texts: Sequence[bytes], job_defaults: JobDefaults = NO_DEFAULTS
) -> tuple[PlainTopologies, Flags]:
    """Return the values of each row of `lines_as_arrow`, defaults filled in, and a flag for
    each wrong row.
    """
    numbers: dict[bytes, int] = {}
    config = [numbers.setdefault(text, len(numbers)) for text in config_texts]
    columns = {name: rows[name].combine_chunks() for name in _OWN_VALUES}
    topologies = PlainTopologies(
        columns["name"],
        _parallelism(pc.fill_null(columns["parallelism"], job_defaults.parallelism), job_defaults),
        columns["max_parallelism"],
        pc.fill_null(columns["chaining"], True),
        np.array(config, np.int64),
        [_config(text, job_defaults) for text in numbers],
    )
    own_values = pa.table([*topologies[:4], topologies.config_column()], [*_OWN_VALUES, "config"])
    holds = from_arrow(own_values).select(topology_holds()).to_series().to_numpy()
    config_is_wrong = np.array([config is None for config in topologies.configs], bool)
    return topologies, ~holds | config_is_wrong[topologies.config]


def _settings_of_plain_topologies(
    topologies: PlainTopologies, kinds: pa.StringArray, inputs: pa.ListArray, sizes: Ints
) -> tuple[pa.StructArray, Flags]:
    """Return SETTINGS of valid topologies, and a flag, set if Flink refuses them.

    In: kind and inputs of all their transformations, with `sizes` per topology. Settings are derived once per
    combination of the values they depend on; the name only matters as the job's name, if the configuration
    sets none.
    """
    may_be_batch = [config is not None and may_run_as_batch(config) for config in topologies.configs]
    ends = np.cumsum(sizes)
    unbounded = [
        may_be_batch[config] and _reads_unbounded_source(kinds, inputs, int(end - size), int(size))
        for config, end, size in zip(topologies.config, ends, sizes, strict=True)
    ]
    combinations: dict[tuple[Any, ...], int] = {}
    columns = (topologies.parallelism, topologies.max_parallelism, topologies.chaining)
    rows = zip(
        topologies.config.tolist(), *(column.to_pylist() for column in columns), unbounded, strict=True
    )
    row_combinations = np.array([combinations.setdefault(row, len(combinations)) for row in rows], np.int64)
    derived = [_settings(topologies.configs[config] or {}, *others) for config, *others in combinations]
    refused = np.array([settings is None for settings in derived], bool)[row_combinations]
    columns_of_settings = pa.array(derived, SETTINGS).take(pa.array(row_combinations)).flatten()
    name = SETTINGS.get_field_index("job_name")
    unnamed = pc.equal(columns_of_settings[name], "")
    columns_of_settings[name] = pc.if_else(unnamed, topologies.names, columns_of_settings[name])
    return pa.StructArray.from_arrays(columns_of_settings, fields=list(SETTINGS)), refused


def _config(text: bytes, job_defaults: JobDefaults) -> dict[str, str] | None:
    try:
        config: dict[str, str] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not CONFIG.accepts(config) or may_have_duplicate_keys(text, config):
        return None
    return {**job_defaults.config, **config}


def _reads_unbounded_source(kinds: pa.StringArray, inputs: pa.ListArray, first: int, size: int) -> bool:
    own_rows = (column.slice(first, size).to_pylist() for column in (kinds, inputs))
    return reads_unbounded_source(zip(*own_rows, strict=True))


def _settings(
    config: dict[str, str], parallelism: int, max_parallelism: int | None, chaining: bool, unbounded: bool
) -> dict[str, Any] | None:
    """Return settings without the topology's name; None if Flink refuses them."""
    try:
        settings = read_job_settings(
            config,
            topology_name="",
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            chaining=chaining,
            transformations_have_unbounded_source=unbounded,
        )
    except FlinkRefusal:
        return None
    return as_arrow(settings)


# The keys of sinks, as Arrow's JSON reader returns them, become the column sink_topology.


_READ_BY_ARROW: dict[str, pa.DataType] = {
    "writer": pa.struct([("uid_hash", pa.string()), ("supports_concurrent_execution_attempts", pa.bool_())]),
    "committer": pa.struct([("uid_hash", pa.string())]),
    "global_committer": pa.bool_(),
}
"""Keys of SINK_TOPOLOGY to their types. The others are lists of steps; their lines are read one by one."""

_BESIDE = "beside_writer"
_IS_SINK = "is_sink"


def _plain_sinks(transformations: pa.StructArray) -> tuple[pa.Array, Flags]:
    """Return the column sink_topology, and a flag for rows with wrong values or incompatible keys.

    In: transformations as `lines_as_arrow` returns them, null for absent keys.
    """
    keys = [field.name for field in transformations.type if field.name in _READ_BY_ARROW]
    has_keys = np.zeros(len(transformations), bool)
    for key in keys:
        has_keys |= _is_present(transformations, key)
    if not has_keys.any():
        return pa.nulls(len(transformations), pa.string()), has_keys
    values = _values(transformations.filter(pa.array(has_keys)), keys)
    distinct = values.unique(maintain_order=True)
    texts = [_text(row) for row in distinct.iter_rows(named=True)]
    row_texts = values.join(
        distinct.with_columns(text=pl.Series(texts, dtype=pl.String)),
        on=values.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["text"]
    places = np.cumsum(has_keys) - 1
    column = row_texts.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
    sinks = column.take(pa.array(places, mask=~has_keys))
    return sinks, has_keys & sinks.is_null().to_numpy(zero_copy_only=False)


def _values(sinks: pa.StructArray, keys: list[str]) -> pl.DataFrame:
    """Return the columns that determine each sink's text, for each key its presence and its values."""
    present_keys = {field.name for field in sinks.type}
    beside = np.zeros(len(sinks), bool)
    for key in NOT_BESIDE_WRITER:
        if key in present_keys:
            beside |= _is_present(sinks, key)
    columns: dict[str, Any] = {
        _BESIDE: beside,
        _IS_SINK: (pl.Series(sinks.field("kind")) == str(Kind.SINK)).fill_null(value=False),
    }
    for key in keys:
        columns[key] = _is_present(sinks, key)
        column = sinks.field(key)
        if pa.types.is_struct(column.type):
            for field, values in zip(column.type, column.flatten(), strict=True):
                columns[f"{key}.{field.name}"] = pl.Series(values)
        else:
            columns[f"{key}."] = pl.Series(column)
    return pl.DataFrame(columns)


def _text(values: dict[str, Any]) -> str | None:
    """Return the cell of sink_topology; None if the keys are wrong."""
    entry: dict[str, Any] = {"kind": str(Kind.SINK)}
    for key in _READ_BY_ARROW:
        if values.get(key):
            inner = {
                name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{key}.")
            }
            entry[key] = inner[""] if "" in inner else {k: v for k, v in inner.items() if v is not None}
    right = values[_IS_SINK] and not values[_BESIDE] and not sink_errors(entry, "")
    right = right and all(SINK_TOPOLOGY[key].accepts(entry[key]) for key in _READ_BY_ARROW if key in entry)
    return json_of_keys(entry, SINK_TOPOLOGY) if right else None


def _is_present(rows: pa.StructArray, key: str) -> Flags:
    present: Flags = rows.field(key).is_valid().to_numpy(zero_copy_only=False)
    return present


# Search for the lines of a text, and for those that can be read together.


Bytes = npt.NDArray[np.uint8]

_NEVER_PLAIN = ("stream_graph", "pre_write", "pre_commit", "post_commit")


class LineBounds(NamedTuple):
    """The lines of a text. One value per line, except `text` and `keys`.

    text: the text, with spaces in place of configurations. starts, ends: positions of a line's first byte and
    of its newline. is_plain: see find_plain_lines. config_starts, config_ends: the bounds of the
    configuration, an object; both 0 if there is none. keys: the requested keys that occur in the text.
    """

    text: Bytes
    starts: Ints
    ends: Ints
    is_plain: Flags
    config_starts: Ints
    config_ends: Ints
    keys: frozenset[str]


def find_plain_lines(data: bytes, keys: Sequence[str]) -> LineBounds:
    """Return the lines of `data`, each with its newline, and the `keys` that occur anywhere in it.

    A plain line begins and ends with a brace, has no zero byte, no stream graph, no steps of a sink, no
    `null` outside its configuration, and at most one configuration, an object. Plain lines may be wrong. The
    part taken as the configuration is one if the rest of the line, with an empty object in its place, proves
    valid, since only a key can precede a colon. The configuration itself may be wrong.
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
    compiled(_search_exclusions)(text, starts, ends, characters, not_plain, is_plain, has_key)
    present_keys = frozenset(key for key, has in zip(keys, has_key[not_plain:].tolist(), strict=True) if has)
    return LineBounds(text, starts, ends, is_plain, config_starts, config_ends, present_keys)


def _quoted(keys: Sequence[str]) -> Bytes:
    """Return each key in quotes, padded with newlines."""
    width = max(map(len, keys)) + 3
    return np.frombuffer(b"".join(f'"{key}"'.ljust(width, "\n").encode() for key in keys), np.uint8).reshape(
        len(keys), width
    )


def _cut_configs(
    text: Bytes, key: Bytes, ends: Ints, config_starts: Ints, config_ends: Ints, is_plain: Flags
) -> None:
    """The loop that finds lines and configurations.

    Neither loop checks bounds: the last character is a newline, which stops them. After a line proves not
    plain, the rest of it is skipped, because each further configuration could require a search up to the
    line's end.
    """
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


def _search_exclusions(
    text: Bytes, starts: Ints, ends: Ints, keys: Bytes, not_plain: int, is_plain: Flags, has_key: Flags
) -> None:
    """The loop that searches the remaining text. Lines with one of the first `not_plain` keys
    are not plain.
    """
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
            if name not in JSON_COLUMNS  # not keys: they are assembled from several
        ),
        *_READ_BY_ARROW.items(),
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
# Nested: together they make up a third of the absent values that Arrow would record in each row.
RARE_KEYS = ("min_resources", "preferred_resources", "names", *_READ_BY_ARROW)
"""Keys of transformations that are seldom used."""

_LONGEST = 2**31 - 1
_LINES_AT_ONCE = (256, 16)


def lines_as_arrow(lines: LineBounds) -> tuple[Ints, pa.Table]:
    """Return the indices of lines that Arrow can read, and one row for each, with null for absent keys.

    In: lines found with RARE_KEYS; only plain ones are read. Lines that are read are JSON, one object each,
    with keys of transformations only, none repeated, and values of the right types. Others may be valid or
    not: one invalid line makes Arrow refuse its whole piece, so a few neighbouring lines are not read either.
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
    """Return options for lines without some keys, whose absence Arrow would otherwise record in every row."""
    transformation = pa.struct([field for field in _TRANSFORMATION if field.name not in left_out])
    schema = _LINE.set(_LINE.get_field_index(_NESTED_LINE), pa.field(_NESTED_LINE, pa.list_(transformation)))
    return json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")


def _read_pieces(
    text: Bytes, bounds: Ints, begin: int, end: int, sizes: Sequence[int], options: json.ParseOptions
) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield the readable pieces of the lines from `begin` to `end`.

    Pieces have the first size; an unreadable piece is divided into pieces of the next size, and so on.
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
    """Return one row per line; None if Arrow cannot read one of them.

    If each line begins and ends with a brace, no JSON value spans lines. So each line contains one object if
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
    """Return whether the text is UTF-8, which Arrow's JSON reader does not check."""
    bounds = pa.py_buffer(np.array([0, len(text)], np.int32))
    try:
        pa.StringArray.from_buffers(1, bounds, pa.py_buffer(text)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


BYTES_PER_ROW = 64
"""Approximate size of a transformation in a topology file."""

_NESTED = tuple(NESTED_COLUMNS)[1:]


class LineBlock(NamedTuple):
    """Whole lines of a file, each with its newline, and the ordinal of the first."""

    data: bytes
    file: str
    first: int


def parse_block(block: LineBlock, job_defaults: JobDefaults = NO_DEFAULTS) -> list[pa.RecordBatch]:
    """Return the result of `parse_lines` for the lines of a block, in their order.

    Valid plain lines (see `lines_as_arrow`) are read together if there are many; the others, or all, go
    through `parse_lines`.
    """
    data, file, first = block
    if not is_worth_compiling(len(data) // BYTES_PER_ROW):
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
    block: LineBlock, line_bounds: LineBounds, job_defaults: JobDefaults = NO_DEFAULTS
) -> tuple[pa.RecordBatch, Ints]:
    """Return PARSED of the valid plain lines, and the numbers of these lines."""
    data, file, first = block
    lines, read = lines_as_arrow(line_bounds)
    configs = [
        text or b"{}"
        for text in _texts(data, line_bounds.config_starts[lines], line_bounds.config_ends[lines])
    ]
    topologies, wrong = _plain_topologies(read, configs, job_defaults)
    nested = read["transformations"].combine_chunks()
    sizes = np.diff(nested.offsets.to_numpy()).astype(np.int64)
    rows, wrong_rows = plain_transformations(nested.flatten())
    line_of_row = np.repeat(np.arange(len(lines)), sizes)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    wrong_rows = wrong_rows | (rows.field("id").fill_null(0).to_numpy() != places + 1)
    right = ~wrong & (sizes > 0)
    right[line_of_row[wrong_rows]] = False
    rows = _keep_lines(rows, line_of_row, right)
    topologies, lines, sizes = topologies.at(np.flatnonzero(right)), lines[right], sizes[right]
    settings, refused = _settings_of_plain_topologies(
        topologies, rows.field("kind"), rows.field("inputs"), sizes
    )
    if refused.any():
        rows = _keep_lines(rows, np.repeat(np.arange(len(lines)), sizes), ~refused)
        lines, sizes, settings = lines[~refused], sizes[~refused], settings.filter(pa.array(~refused))
        topologies = topologies.at(np.flatnonzero(~refused))
    starts = np.cumsum(sizes) - sizes
    digests = transformations_fingerprints(topologies.headers(), canonical_texts(rows), starts, sizes)
    values = {
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
    columns = {name: values.get(name, pa.nulls(len(lines), kind)) for name, kind in ROW_TYPES.items()}
    bounds = np.append(starts, len(rows)).astype(np.int32)
    columns["transformations"] = pa.ListArray.from_arrays(pa.array(bounds), rows)
    for name in _NESTED:
        columns[name] = pa.ListArray.from_arrays(pa.array(np.zeros_like(bounds)), NESTED_COLUMNS[name]([]))
    return pa.RecordBatch.from_pydict(columns), lines


def _keep_lines(rows: pa.StructArray, line_of_row: Ints, wanted: Flags) -> pa.StructArray:
    return rows if wanted[line_of_row].all() else rows.filter(pa.array(wanted[line_of_row]))


# Transformations as Arrow's JSON reader returns them, as columns of TRANSFORMATIONS.


_ABSENT_IS_EMPTY = ("inputs", "slot_scope")
_ABSENT_IS_ZERO = ("task_off_heap_memory_bytes", "managed_memory_bytes")


def plain_transformations(transformations: pa.StructArray) -> tuple[pa.StructArray, Flags]:
    """Return the columns after topology_id, defaults filled in, and a flag for rows that may be wrong.

    In: transformations as `lines_as_arrow` returns them, null for absent keys. Ids are not checked.
    """
    present_keys = {field.name for field in transformations.type}
    columns = {
        name: transformations.field(name)
        if name in present_keys
        else pa.nulls(len(transformations), TRANSFORMATIONS.field(name).type)
        for name in COLUMNS
    }
    misplaced = _has_operator_columns(columns)
    columns["name"] = pc.fill_null(columns["name"], "")
    columns["managed_memory"] = _weights(columns["managed_memory"])
    for name in _ABSENT_IS_EMPTY:
        columns[name] = pa.ListArray.from_arrays(columns[name].offsets, columns[name].values)
    for name in ("min_resources", "preferred_resources"):
        columns[name] = _resources(columns[name])
    rows = pa.RecordBatch.from_pydict(columns)
    suspicious = suspicious_transformation(from_arrow(rows)).to_numpy() | misplaced
    sinks, wrong_sinks = _plain_sinks(transformations)
    rows = rows.set_column(rows.schema.get_field_index("sink_topology"), "sink_topology", sinks)
    return rows.to_struct_array(), suspicious | wrong_sinks


def _has_operator_columns(columns: dict[str, pa.Array]) -> Flags:
    """Flag virtual kinds with a map or list that only operators may have; an empty one counts, too."""
    present = pc.or_(columns["managed_memory"].is_valid(), columns["slot_scope"].is_valid())
    kinds = pl.Series(columns["kind"].filter(present))
    wrong = np.zeros(len(present), bool)
    wrong[present.to_numpy(zero_copy_only=False)] = ~kinds.is_in(PHYSICAL).fill_null(False).to_numpy()
    return wrong


def _weights(structs: pa.StructArray) -> pa.MapArray:
    """Convert structs of operators' single use case to maps."""
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
