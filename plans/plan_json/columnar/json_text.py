"""JSON as expressions over columns, and parts of lines put together."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

import polars as pl

from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.tables.column_types import TOPOLOGY

_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(0x20)} | {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_ROWS_OF_A_PIECE = 8_192
_VALUES_AT_ONCE = 131_072
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def quoted(text: pl.Expr) -> pl.Expr:
    """Strings as JSON strings: Jackson escapes control characters, quotes and backslashes, no others."""
    return pl.concat_str(pl.lit('"'), text.str.replace_many(_ESCAPES), pl.lit('"'))


def values(rows: pl.DataFrame, *names: str, **renamed: str) -> dict[str, pl.Expr]:
    """JSON values of columns of `rows` that are strings, numbers or booleans; those renamed come first."""
    columns = renamed | {name: name for name in names}
    return {
        key: quoted(pl.col(name)) if rows.schema[name] == pl.String else pl.col(name).cast(pl.String)
        for key, name in columns.items()
    }


def json_object(members: Mapping[str, pl.Expr], keep_nulls: bool = False) -> pl.Expr:
    """A JSON object of `members`, which are JSON values; those that are null are left out, or written."""
    texts = [
        pl.concat_str(pl.lit(f'"{key}":'), value.fill_null("null") if keep_nulls else value)
        for key, value in members.items()
    ]
    listed = pl.concat_str(texts, separator=",", ignore_nulls=True)
    return pl.concat_str(pl.lit("{"), listed, pl.lit("}"))


def json_lists(rows: pl.DataFrame, keys: list[str], order: list[str], value: pl.Expr) -> pl.DataFrame:
    """(keys, json): for each key a JSON list of the JSON values `value` of its rows, sorted by `order`."""
    ordered = rows.select(*keys, *order, value.alias("json")).sort(*keys, *order)
    joined = ordered.group_by(keys, maintain_order=True).agg(pl.col("json").str.join(","))
    return joined.with_columns(in_list(pl.col("json")).alias("json"))


def in_list(joined: pl.Expr) -> pl.Expr:
    """JSON values joined by commas as one JSON list."""
    return pl.concat_str(pl.lit("["), joined, pl.lit("]"))


def double_maps(rows: pl.DataFrame, name: str) -> pl.Series:
    """The map column `name` of strings to doubles as JSON objects, row by row."""
    entries = (
        rows.select(pl.int_range(pl.len()).alias("row"), pl.col(name).map.entries().alias("entry"))
        .filter(pl.col("entry").list.len() > 0)
        .explode("entry")
        .unnest("entry")
    )
    # Java and Python both write the shortest digits, but not in the same notation.
    doubles = entries.select(pl.col("value").unique(maintain_order=True))
    texts = doubles.with_columns(pl.Series("text", map(double_text, doubles["value"]), pl.String))
    member = pl.concat_str(quoted(pl.col("key")), pl.lit(":"), "text")
    objects = (
        entries.join(texts, on="value", how="left", maintain_order="left")
        .group_by("row", maintain_order=True)
        .agg(member.str.join(",").alias("joined"))
    )
    listed = rows.select(pl.int_range(pl.len()).alias("row")).join(
        objects, on="row", how="left", maintain_order="left"
    )
    return listed.select(
        pl.concat_str(pl.lit("{"), pl.col("joined").fill_null(""), pl.lit("}")).alias(name)
    ).to_series()


def double_text(value: float) -> str:
    """A normal double as Java writes it. Source: java.lang.Double.toString."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:]))
    return f"{'-' * sign}{first}.{rest or '0'}E{number.adjusted()}"


Tables = Mapping[str, pl.DataFrame]
Parts = Iterable[str | pl.DataFrame]
"""Consecutive parts of a text: the same for all topologies, or rows (topology_id, json) in order."""


def parts_of_topologies(parts: Parts, topologies: pl.DataFrame) -> list[pl.DataFrame]:
    """The parts of those topologies as rows (place, json)."""
    places = topologies.select(TOPOLOGY, "place")
    return [
        places.select("place", pl.lit(part).alias("json"))
        if isinstance(part, str)
        else join_topology(part, places, {}).select("place", "json")
        for part in parts
    ]


def text_of_parts(parts: Parts) -> Iterator[str]:
    """The parts of one topology, piece by piece."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        for piece in part.iter_slices(_ROWS_OF_A_PIECE):
            yield "".join(piece["json"])


def join_parts(texts: list[pl.DataFrame]) -> pl.Series:
    """The line of each place, joined once: what polars does to columns of long texts takes quadratic time."""
    rows = pl.concat([text.with_columns(pl.lit(part).alias("part")) for part, text in enumerate(texts)])
    in_order = rows.sort("place", "part", maintain_order=True)
    return in_order.group_by("place", maintain_order=True).agg(pl.col("json").str.join(""))["json"]


def listed(rows: pl.DataFrame, order: list[str], value: pl.Expr) -> Iterator[pl.DataFrame]:
    """(topology_id, json): the JSON values `value` in `order`, with commas between those of one topology.

    In frames that follow one another, as the values may be long.
    """
    comma = pl.when(pl.col(TOPOLOGY) == pl.col(TOPOLOGY).shift()).then(pl.lit(",")).otherwise(pl.lit(""))
    ordered = rows.sort(TOPOLOGY, *order).with_columns(comma.alias("comma"))
    for piece in ordered.iter_slices(_VALUES_AT_ONCE):
        yield piece.select(TOPOLOGY, pl.concat_str("comma", value).alias("json"))
