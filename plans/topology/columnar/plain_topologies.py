"""The parts of plain lines besides transformations: their own values, headers and job settings."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.topology.columnar.canonical_texts import sink_topology
from penstock.plans.topology.columnar.topology_tables import topology_holds
from penstock.plans.topology.duplicate_keys import may_have_duplicate_keys
from penstock.plans.topology.fingerprint import config_text, header_text
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.job_settings import may_run_as_batch, read_job_settings
from penstock.plans.topology.operator_rules import NOT_BESIDE_WRITER, SINK_TOPOLOGY, sink_errors
from penstock.plans.topology.parse_lines import SETTINGS, as_arrow
from penstock.plans.topology.reads_unbounded_source import reads_unbounded_source
from penstock.plans.topology.setting_refusals import FlinkRefusal
from penstock.plans.topology.validate_topology import CONFIG
from penstock.plans.vocabulary import Kind, TopologyForm

FORM = str(TopologyForm.TRANSFORMATIONS)

_OWN_VALUES = ("name", "parallelism", "max_parallelism", "chaining")
_CONFIGS = pa.map_(pa.string(), pa.string())


class PlainTopologies(NamedTuple):
    """One row per line. config: its place in `configs` (distinct; None for those that are wrong)."""

    names: pa.StringArray
    parallelism: pa.Array
    max_parallelism: pa.Array
    chaining: pa.Array
    config: Ints
    configs: list[dict[str, str] | None]

    def config_column(self) -> pa.MapArray:
        """The configuration of each."""
        entries = [list((config or {}).items()) for config in self.configs]
        return pa.array(entries, _CONFIGS).take(pa.array(self.config))

    def headers(self) -> list[bytes]:
        """The first line of each one's canonical text."""
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
    """Requested values in place of those that topologies set; wrong values stay, to be rejected."""
    if job_defaults.asked_parallelism is None:
        return own
    return pc.if_else(pc.greater(own, 0), pa.scalar(job_defaults.asked_parallelism, own.type), own)


def plain_topologies(
    rows: pa.Table, config_texts: Sequence[bytes], job_defaults: JobDefaults = NO_DEFAULTS
) -> tuple[PlainTopologies, Flags]:
    """Values of each row of `lines_as_arrow`, with defaults filled in, and a flag for each wrong row."""
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
    looked_at = pa.table([*topologies[:4], topologies.config_column()], [*_OWN_VALUES, "config"])
    holds = from_arrow(looked_at).select(topology_holds()).to_series().to_numpy()
    config_is_wrong = np.array([config is None for config in topologies.configs], bool)
    return topologies, ~holds | config_is_wrong[topologies.config]


def settings_of_plain_topologies(
    topologies: PlainTopologies, kinds: pa.StringArray, inputs: pa.ListArray, sizes: Ints
) -> tuple[pa.StructArray, Flags]:
    """SETTINGS of right topologies, and which of them Flink refuses.

    In: kind and inputs of all their transformations, `sizes` of each. What settings follow from is read once
    for each combination; a name gives nothing but the job's name where the configuration has none.
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
    of_rows = np.array([combinations.setdefault(row, len(combinations)) for row in rows], np.int64)
    derived = [_settings(topologies.configs[config] or {}, *others) for config, *others in combinations]
    refused = np.array([settings is None for settings in derived], bool)[of_rows]
    columns_of_settings = pa.array(derived, SETTINGS).take(pa.array(of_rows)).flatten()
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
    of_topology = (column.slice(first, size).to_pylist() for column in (kinds, inputs))
    return reads_unbounded_source(zip(*of_topology, strict=True))


def _settings(
    config: dict[str, str], parallelism: int, max_parallelism: int | None, chaining: bool, unbounded: bool
) -> dict[str, Any] | None:
    """Settings without the topology's name; None if Flink refuses them."""
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


# The keys of sinks, as Arrow's JSON reader gives them, become the column sink_topology.


READ_BY_ARROW: dict[str, pa.DataType] = {
    "writer": pa.struct([("uid_hash", pa.string()), ("supports_concurrent_execution_attempts", pa.bool_())]),
    "committer": pa.struct([("uid_hash", pa.string())]),
    "global_committer": pa.bool_(),
}
"""Keys of SINK_TOPOLOGY to their types. The others are lists of steps, in lines that are read one by one."""

_BESIDE = "beside_writer"
_IS_SINK = "is_sink"


def plain_sinks(transformations: pa.StructArray) -> tuple[pa.Array, Flags]:
    """The column sink_topology, and a flag for each row with wrong values or keys that exclude each other.

    In: transformations as `lines_as_arrow` gives them, null for keys that are not there.
    """
    keys = [field.name for field in transformations.type if field.name in READ_BY_ARROW]
    has_keys = np.zeros(len(transformations), bool)
    for key in keys:
        has_keys |= _is_there(transformations, key)
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
    of_rows = column.take(pa.array(places, mask=~has_keys))
    return of_rows, has_keys & of_rows.is_null().to_numpy(zero_copy_only=False)


def _values(sinks: pa.StructArray, keys: list[str]) -> pl.DataFrame:
    """The columns that decide each sink's text: for each key its presence and its values."""
    there = {field.name for field in sinks.type}
    beside = np.zeros(len(sinks), bool)
    for key in NOT_BESIDE_WRITER:
        if key in there:
            beside |= _is_there(sinks, key)
    columns: dict[str, Any] = {
        _BESIDE: beside,
        _IS_SINK: (pl.Series(sinks.field("kind")) == str(Kind.SINK)).fill_null(value=False),
    }
    for key in keys:
        columns[key] = _is_there(sinks, key)
        column = sinks.field(key)
        if pa.types.is_struct(column.type):
            for field, values in zip(column.type, column.flatten(), strict=True):
                columns[f"{key}.{field.name}"] = pl.Series(values)
        else:
            columns[f"{key}."] = pl.Series(column)
    return pl.DataFrame(columns)


def _text(values: dict[str, Any]) -> str | None:
    """The cell of sink_topology; None if the keys are wrong."""
    entry: dict[str, Any] = {"kind": str(Kind.SINK)}
    for key in READ_BY_ARROW:
        if values.get(key):
            inner = {
                name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{key}.")
            }
            entry[key] = inner[""] if "" in inner else {k: v for k, v in inner.items() if v is not None}
    right = values[_IS_SINK] and not values[_BESIDE] and not sink_errors(entry, "")
    right = right and all(SINK_TOPOLOGY[key].accepts(entry[key]) for key in READ_BY_ARROW if key in entry)
    return sink_topology(entry) if right else None


def _is_there(rows: pa.StructArray, key: str) -> Flags:
    there: Flags = rows.field(key).is_valid().to_numpy(zero_copy_only=False)
    return there
