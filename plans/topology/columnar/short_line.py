"""A topology that may be wrong as a JSON line in which rows that are right by themselves are short."""

from typing import Any

import polars as pl

from plans.topology.columnar.lines_of_tables import texts_of_rows, topology_line
from plans.topology.columnar.normalized_tables import to_nullable_arrow
from plans.topology.columnar.suspicious_transformation import suspicious_transformation
from plans.vocabulary import Kind

_ROWS_AT_ONCE = 2**20


def short_line(topology: dict[str, Any], rows: pl.DataFrame) -> bytes | None:
    """The line in which validate_topology finds the same errors as in that of lines_of_tables.

    In: name, parallelism, max_parallelism, chaining, config; and the TRANSFORMATIONS rows of that topology,
    defaults filled in. A row that is right becomes a source, or a union of its inputs where some row reads a
    later one, so that there may be a cycle: a sixth of its text, and of what that takes once it is parsed.
    Errors can be read from the line, and nothing else. None if ids are not 1..n: what rows say then decides
    their order.
    """
    ids = rows["id"]
    if ids.null_count() or (ids.min(), ids.max()) != (1, len(ids)) or ids.n_unique() < len(ids):
        return None
    pieces = (rows.slice(start, _ROWS_AT_ONCE) for start in range(0, len(rows), _ROWS_AT_ONCE))
    suspicious = pl.concat(list(map(suspicious_transformation, pieces)))
    wrong = rows.filter(suspicious)
    written = [text for _, text in texts_of_rows(to_nullable_arrow(wrong, "transformations"))]
    reads_later = (wrong["inputs"].list.max() >= wrong["id"]).any()
    texts = pl.concat(
        [
            rows.filter(~suspicious).select("id", text=_union() if reads_later else _source()),
            wrong.select("id", text=pl.Series(written, dtype=pl.Binary).cast(pl.String)),
        ]
    ).sort("id")
    return topology_line(topology, texts["text"].str.join(",").item().encode())


def _source() -> pl.Expr:
    return pl.concat_str(pl.lit('{"id":'), "id", pl.lit(f',"kind":"{Kind.SOURCE}"}}'))


def _union() -> pl.Expr:
    inputs = pl.col("inputs").cast(pl.List(pl.String)).list.join(",")
    union = pl.concat_str(
        pl.lit('{"id":'), "id", pl.lit(f',"kind":"{Kind.UNION}","inputs":['), inputs, pl.lit("]}")
    )
    return pl.when(pl.col("inputs").list.len() > 0).then(union).otherwise(_source())
