"""Canonical texts and fingerprints of topologies of transformations. As plans.topology.fingerprint."""

import numpy as np
import polars as pl
import pyarrow as pa

from plans.arrow_walks import Ints
from plans.topology.fingerprint import transformations_fingerprints
from plans.vocabulary import TopologyForm

_ROWS_AT_ONCE = 2**17
_CONFIG = pl.col("config").map.entries()
_ITEM = pl.element()


def fingerprints(
    headers: list[bytes], texts: pa.LargeStringArray, order: Ints | None, starts: Ints, lengths: Ints
) -> list[str]:
    """Hex digests of topologies whose TRANSFORMATIONS are right; `texts` are their canonical_texts.

    Those of a topology are `lengths` rows from `starts` (ascending) on in id order, where texts are taken in
    `order`, if one is given: moving rows with lists, maps and structs costs more than making the text.
    """
    if order is None:
        return transformations_fingerprints(headers, texts, starts, lengths)
    digests: list[str] = []
    first = 0
    while first < len(headers):
        end = max(first + 1, int(starts.searchsorted(starts[first] + _ROWS_AT_ONCE)))
        sizes = lengths[first:end]
        new_starts = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(starts[first:end] - new_starts, sizes)
        part = texts.take(pa.array(order[places]))
        digests += transformations_fingerprints(headers[first:end], part, new_starts, sizes)
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


def _string(value: pl.Expr) -> pl.Expr:
    """A string behind its length in bytes and a colon."""
    return pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
