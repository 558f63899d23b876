"""Canonical headers of topologies. As joins.fingerprint."""

import polars as pl

from penstock.plans.topology.fingerprint import CAPTURE_NOTES
from penstock.plans.vocabulary import TopologyForm

_CONFIG = pl.col("config").map.entries()
_ITEM = pl.element()


def canonical_headers(topologies: pl.DataFrame) -> list[bytes]:
    """The canonical header of each TOPOLOGIES row of transformations, with its newline."""
    text = pl.concat_str(
        pl.lit(str(TopologyForm.TRANSFORMATIONS)),
        _string(pl.col("name")),
        pl.col("parallelism").cast(pl.String),
        pl.col("max_parallelism").cast(pl.String).fill_null(""),
        pl.when("chaining").then(pl.lit("true")).otherwise(pl.lit("false")),
        _kept_entries().list.sort().list.join(","),
        separator="|",
    )
    lines = topologies.select(pl.concat_str(text, pl.lit("\n"))).to_series()
    return [line.encode() for line in lines]


def config_text() -> pl.Expr:
    """The list of a config's entries in the order given, each as its canonical text."""
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return _CONFIG.list.eval(pl.concat_str(*fields, separator="="))


def _kept_entries() -> pl.Expr:
    """`config_text` without what `penstock capture` notes of itself."""
    kept = _CONFIG.list.filter(~_ITEM.struct.field("key").str.starts_with(CAPTURE_NOTES))
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return kept.list.eval(pl.concat_str(*fields, separator="="))


def _string(value: pl.Expr) -> pl.Expr:
    """Length in bytes, a colon, and the string."""
    return pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
