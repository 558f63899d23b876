"""Canonical texts and fingerprints of topologies of transformations. As plans.topology.fingerprint."""

import numpy as np
import polars as pl
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StringType, StructType

from plans.arrow_walks import Ints
from plans.schema import TRANSFORMATIONS
from plans.topology.fingerprint import transformations_fingerprints
from plans.vocabulary import TopologyForm

_ROWS_AT_ONCE = 2**17
_CONFIG = pl.col("config").map.entries()
_ITEM = pl.element()


def fingerprints(
    headers: list[bytes], texts: pl.Series, order: Ints | None, starts: Ints, lengths: Ints
) -> list[str]:
    """Hex digests of topologies whose TRANSFORMATIONS are right; `texts` are their canonical_rows.

    Those of a topology are `lengths` rows from `starts` (ascending) on in id order, where texts are taken in
    `order`, if one is given: moving rows with lists, maps and structs costs more than making the text.
    """
    if not headers:
        return []
    digests: list[str] = []
    first = 0
    while first < len(headers):
        end = max(first + 1, int(starts.searchsorted(starts[first] + _ROWS_AT_ONCE)))
        sizes = lengths[first:end]
        skipped = starts[first:end] - (np.cumsum(sizes) - sizes)
        places = np.arange(sizes.sum()) + np.repeat(skipped, sizes)
        part = texts.gather(places if order is None else order[places])
        arrow = part.to_arrow(compat_level=pl.CompatLevel.oldest())
        digests += transformations_fingerprints(headers[first:end], arrow, sizes.tolist())
        first = end
    return digests


def canonical_headers(topologies: pl.DataFrame) -> list[bytes]:
    """The canonical header of each TOPOLOGIES row of transformations, with its newline."""
    text = pl.concat_str(
        pl.lit(str(TopologyForm.TRANSFORMATIONS)),
        _string(pl.col("name")),
        pl.col("parallelism").cast(pl.String),
        pl.col("max_parallelism").cast(pl.String).fill_null(""),
        pl.when("chaining").then(pl.lit("true")).otherwise(pl.lit("false")),
        config_text().list.sort().list.join(","),
        separator="|",
    )
    lines = topologies.select(pl.concat_str(text, pl.lit("\n"))).to_series()
    return [line.encode() for line in lines]


def config_text() -> pl.Expr:
    """The list of a config's entries in the order given, each as its canonical text."""
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return _CONFIG.list.eval(pl.concat_str(*fields, separator="="))


def canonical_rows(rows: pl.DataFrame) -> pl.Series:
    """The canonical line of each TRANSFORMATIONS row, with its newline; no error if its values are wrong."""
    parts: list[pl.Series | pl.Expr] = []
    between = ""
    for field in TRANSFORMATIONS.fields[1:]:
        column = rows[field.name]
        if column.null_count() < len(column):
            parts += [pl.lit(between), _text(column, field.dataType)]
            between = ""
        between += "|"
    ends = pl.lit(between[:-1] + "\n")
    return pl.select(pl.concat_str(*parts, ends, ignore_nulls=True).alias("line")).to_series()


def _text(column: pl.Series, kind: DataType) -> pl.Series:
    """The texts of a column; null for nothing."""
    values = pl.col(column.name)
    match kind:
        case StringType():
            return column.to_frame().select(_string(values)).to_series()
        case IntegerType() | LongType():
            return column.cast(pl.String)
        case MapType():
            pairs = (_ITEM.struct.field("key"), _ITEM.struct.field("value").cast(pl.String))
            weights = values.map.entries().list.eval(pl.concat_str(*pairs, separator="="))
            return _where(column, column.map.len() > 0, weights.list.sort().list.join(","))
        case StructType():
            cores = (values.struct.field("cpu_cores") * 1e9 + 0.5).floor().cast(pl.Int64, strict=False)
            sizes = (values.struct.field(f.name) for f in kind.fields[1:])
            texts = pl.concat_str(*(n.cast(pl.String) for n in (cores, *sizes)), separator=",")
            return _where(column, column.is_not_null(), texts)
        case ArrayType(elementType=IntegerType()):
            first = column.list.first().cast(pl.String)
            several = _where(column, column.list.len() > 1, values.cast(pl.List(pl.String)).list.join(","))
            return several.zip_with(several.is_not_null(), first)
        case ArrayType():
            items = values.list.sort() if column.name == "slot_scope" else values.list.eval(_string(_ITEM))
            return _where(column, column.list.len() > 0, items.list.join(","))
    raise TypeError(f"no canonical text for {column.name}")


def _where(column: pl.Series, there: pl.Series, text: pl.Expr) -> pl.Series:
    """`text` of the values that are there, which are few, null elsewhere."""
    there = there.fill_null(False)
    texts = column.filter(there).to_frame().select(text).to_series()
    return texts.gather(pl.select(pl.when(there).then(there.cum_sum() - 1)).to_series())


def _string(value: pl.Expr) -> pl.Expr:
    """A string behind its length in bytes and a colon."""
    return pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
