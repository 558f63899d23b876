"""Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, defaults filled in."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.errors import SchemaError
from penstock.plans.printable import first_and_count, limited
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY, type_name
from penstock.plans.tables.plain_columns import plain_column, plain_type, require_unique_columns
from penstock.plans.topology.canonical_texts import RESOURCES_OF_ZERO
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.operator_rules import DEFAULTS
from penstock.plans.topology.topologies_of_lines import XXHASH64_SEED, topology_id
from penstock.plans.vocabulary import TopologyForm

# The allowed and the required columns of given tables of topologies and transformations.


REQUIRED = {
    "topologies": ("name",),
    "transformations": ("topology_id", "id", "kind", "inputs"),
}
"""Table to required columns; others get defaults."""


_INTEGERS = re.compile(r"\b(?:tinyint|smallint|int|bigint|u?int(?:8|16|32|64))\b")


def is_other_integer(kind: str, declared: str) -> bool:
    """Return whether two type names differ only in the width of integers, including those in
    lists and maps.
    """
    return kind != declared and _INTEGERS.sub("int", kind) == _INTEGERS.sub("int", declared)


def integers_too_large(table: str, column: str, declared: str) -> SchemaError:
    """Return the error for a value that exceeds the declared integer type."""
    return SchemaError(f"table {table}, column {column}: integers exceed the type {declared}")


def require_given_columns(types: Mapping[str, str], table: str) -> None:
    """Raise SchemaError if `types` (column to type name, see type_name) are not columns of `table`.

    Integers may have any width. The message names every missing column, column of another type, and unknown
    column.
    """
    allowed = {column.name: type_name(column.type) for column in TABLES[table]}
    problems = [
        f"column {name} ({allowed[name]}) is missing" for name in REQUIRED[table] if name not in types
    ]
    problems += [
        f"{name} must be {allowed[name]}, got {kind}"
        for name, kind in types.items()
        if name in allowed and kind != allowed[name] and not is_other_integer(kind, allowed[name])
    ]
    problems += [f"{name} is not a column of {table}" for name in types if name not in allowed]
    if problems:
        listed = first_and_count(problems, "; ")
        raise SchemaError(f"table {table} does not have its declared schema: {listed}")


# Given tables one column at a time, so that a column is freed as soon as it has been converted.


class GivenColumns(NamedTuple):
    """A given table: `columns` contains those with values, `types` the types of all columns."""

    types: dict[str, str]  #: column to type name (see type_name), in order
    columns: dict[str, pa.ChunkedArray]
    rows: int


def given_columns(schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> GivenColumns:
    """Return the columns of batches that all have `schema`.

    A column that is null throughout a batch, as rare columns are, takes no memory until another batch has
    values.
    """
    require_unique_columns(schema.names, "a table of topologies")
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in schema])
    rows, chunks = 0, [list[pa.Array | int]() for _ in schema]
    for batch in batches:
        rows += len(batch)
        for column_chunks, column in zip(chunks, batch.columns, strict=True):
            pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            column_chunks += [
                len(piece) if piece.null_count == len(piece) else plain_column(piece) for piece in pieces
            ]
    columns = {}
    for field in schema:
        column_chunks = chunks.pop(0)
        if any(isinstance(piece, pa.Array) for piece in column_chunks):
            arrays = [
                pa.nulls(piece, field.type) if isinstance(piece, int) else piece for piece in column_chunks
            ]
            columns[field.name] = pa.chunked_array(arrays, field.type)
    return GivenColumns({field.name: type_name(field.type) for field in schema}, columns, rows)


# The two tables.


WITH_ZEROS = ("min_resources", "preferred_resources")
"""Columns of resources, whose fields RESOURCES_OF_ZERO are 0 by default."""


def normalized_topologies(topologies: GivenColumns, job_defaults: JobDefaults = NO_DEFAULTS) -> pl.DataFrame:
    """Return TOPOLOGIES columns; only name is required. `topologies` are emptied.

    `job_defaults` fill in settings that a topology leaves unset.
    """
    missing = {
        "form": str(TopologyForm.TRANSFORMATIONS),
        "parallelism": job_defaults.parallelism,
        "chaining": True,
        "config": [],
    }
    table = _normalized(topologies, "topologies", missing)
    if job_defaults.asked_parallelism is not None:
        asked = pl.when(pl.col("parallelism") > 0).then(job_defaults.asked_parallelism)
        table = table.with_columns(parallelism=asked.otherwise("parallelism").cast(pl.Int32))
    table = table.with_columns(pl.lit(None, pl.String).alias("stream_graph_settings"))
    if job_defaults.config:
        table = table.with_columns(_under(table["config"], job_defaults.config))
    without_id = table["name"].filter(table[TOPOLOGY].is_null())
    if without_id.is_empty():
        return table
    hashes = [XXHASH64_SEED if name is None else topology_id(name) for name in without_id]
    ids = table[TOPOLOGY].to_list()
    hashes_in_order = iter(hashes)
    filled = [next(hashes_in_order) if i is None else i for i in ids]
    return table.with_columns(pl.Series(TOPOLOGY, filled, pl.Int64))


def _under(configs: pl.Series, config: Mapping[str, str]) -> pl.Series:
    """Add the entries of `config` to maps that lack their keys."""
    own = configs.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist()
    keys = [{key for key, _ in entries or ()} for entries in own]
    filled = [
        [*((key, text) for key, text in config.items() if key not in own_keys), *(entries or ())]
        for own_keys, entries in zip(keys, own, strict=True)
    ]
    return _own_column(configs.name, pa.array(filled, _nullable(TABLES["topologies"].field("config").type)))


def normalized_transformations(transformations: GivenColumns) -> pl.DataFrame:
    """Return TRANSFORMATIONS columns; topology_id, id, kind and inputs are required. The input is emptied."""
    normalized = _normalized(transformations, "transformations", DEFAULTS)
    resource_columns = [name for name in WITH_ZEROS if normalized[name].null_count() < len(normalized)]
    return normalized.with_columns(map(_with_zeros, resource_columns))


def _with_zeros(name: str) -> pl.Expr:
    zeros = (pl.field(field).fill_null(0) for field in RESOURCES_OF_ZERO)
    return pl.when(pl.col(name).is_not_null()).then(pl.col(name).struct.with_fields(*zeros)).alias(name)


def to_nullable_arrow(rows: pl.DataFrame, table: str) -> pa.Table:
    """Return rows of a normalized table as Arrow, in which every column may be null."""
    schema = TABLES[table]
    nullable = pa.schema([(field.name, _nullable(field.type)) for field in schema])
    return rows.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(nullable)


def _normalized(source: GivenColumns, table: str, missing: Mapping[str, Any]) -> pl.DataFrame:
    require_given_columns(source.types, table)
    for name, column in source.columns.items():
        _require_utf8(column, table, name)
    return pl.DataFrame(
        [_normalized_column(source, table, field, missing.get(field.name)) for field in TABLES[table]]
    )


def _normalized_column(source: GivenColumns, table: str, field: pa.Field, default: Any) -> pl.Series:
    """Return a column with the declared type, removed from the given columns."""
    kind = _nullable(field.type)
    if field.name not in source.columns:
        # Arrow cannot repeat a map zero times.
        with_default = default is not None and source.rows
        nothing = (
            pa.repeat(pa.scalar(default, kind), source.rows) if with_default else pa.nulls(source.rows, kind)
        )
        return _own_column(field.name, nothing)
    column = source.columns.pop(field.name)
    if is_other_integer(type_name(column.type), type_name(field.type)):
        column = _narrowed(column, kind, table, field)
    elif not _taken_by_polars(column.type):
        column = column.cast(kind)
    if default is not None and column.null_count:
        column = pc.coalesce(column.cast(kind), pa.scalar(default, kind))
    return _own_column(field.name, column)


def _narrowed(column: pa.ChunkedArray, kind: pa.DataType, table: str, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        raise integers_too_large(table, field.name, type_name(field.type)) from None


def _own_column(name: str, column: pa.Array | pa.ChunkedArray) -> pl.Series:
    """Convert a single column, because columns that are passed together are freed together."""
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    if series.null_count() == len(series):
        # Without the memory for absent values.
        return series.clear(len(series)).rename(name)
    # In one piece, because gathering and filtering several chunks is many times slower.
    return series.rename(name).rechunk()


def _taken_by_polars(kind: pa.DataType) -> bool:
    """Return whether polars converts this variant to the declared type itself; casts are the largest cost."""
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind) or pa.types.is_dictionary(kind):
        return False
    return all(_taken_by_polars(kind.field(i).type) for i in range(kind.num_fields))


def _require_utf8(column: pa.ChunkedArray, table: str, name: str) -> None:
    """Raise SchemaError if a text is not UTF-8. Parquet files may contain any bytes, and some make polars
    panic.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"table {table}, column {name}: {limited(str(error))}") from None


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """Return a declared type that allows nulls inside, as the input may have."""
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, data_type.item_type)
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, field.type) for field in data_type])
    return data_type
