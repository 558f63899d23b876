"""Costs of operators, from topologies, files or assumptions."""

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.plans.errors import InputError
from penstock.plans.frames.arrays import Ints, positions
from penstock.plans.frames.polars_frames import look_up
from penstock.plans.importing.bounds import (
    MOST_BYTES,
    BoundError,
    bounded_file,
    bounded_text,
    require_at_most,
)
from penstock.plans.printable import MOST_OF_A_NAME, limited, reason_of
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

# The rows of a file of costs, read within bounds, because a small compressed file may expand to a large one.


MOST_ROWS = 20_000_000
_LONGEST_ROW_BYTES = 64 << 10
_LINES_FOR_COLUMNS = 100
"""polars infers the columns of JSON lines from this many."""


def rows_of_costs(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    """Return the rows of a .parquet, .csv or (else) JSON lines file, possibly compressed.

    Raises InputError for a file that is too large, malformed, or has other columns than `allowed`.
    """
    with bounded_file(str(path)):
        try:
            return _read_parquet(path, allowed) if _ending(path) == ".parquet" else _read_text(path, allowed)
        except (pl.exceptions.PolarsError, pa.ArrowException, csv.Error, ValueError) as error:
            if isinstance(error, BoundError):
                raise
            raise InputError(
                f"{path}: {_shortened(reason_of(error))}",
                "costs are JSON lines, or .csv or .parquet, by the file name",
            ) from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or _shortened(str(error))}") from None


def _read_parquet(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        require_at_most(metadata.num_rows, MOST_ROWS, "rows")
        require_at_most(
            sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)),
            MOST_BYTES * len(allowed),
            "bytes, unpacked",
        )
        _require_columns(path, file.schema_arrow.names, allowed)
    return pl.read_parquet(path)


def _read_text(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    text = bounded_text(texts_of_file(str(path)), MOST_BYTES)
    if not text.isascii():
        text.decode("utf-8")  # raises for compressed bytes under another name, which polars would decompress
    require_at_most(text.count(b"\n"), MOST_ROWS, "rows")
    if _ending(path) == ".csv":
        (first,) = _first_lines(text, 1) or (b"",)
        _require_columns(path, next(csv.reader([first.decode("utf-8-sig")]), []), allowed)
        return pl.read_csv(text)
    names: dict[str, None] = {}
    for line in _first_lines(text, _LINES_FOR_COLUMNS):
        row = orjson.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise ValueError(f"each line must be an object, got {_shortened(line.decode())}")
        names |= dict.fromkeys(row)
    if not names:
        return pl.DataFrame(schema=["topology", "id"])
    _require_columns(path, list(names), allowed)
    return pl.read_ndjson(text)


def _first_lines(text: bytes, most: int) -> list[bytes]:
    beginning = io.BytesIO(text[: most * _LONGEST_ROW_BYTES])
    lines = [line for line in beginning.readlines()[:most] if line.strip()]
    require_at_most(max(map(len, lines), default=0), _LONGEST_ROW_BYTES, "bytes in a row")
    return lines


def _require_columns(path: Path, names: list[str], allowed: tuple[str, ...]) -> None:
    if not {"topology", "id"} <= set(names) <= set(allowed):
        raise InputError(
            f"{path}: columns must be {', '.join(allowed)}, got {_shortened(', '.join(names))}",
            "topology and id are required; missing costs are assumed",
        )


def _shortened(text: str) -> str:
    return limited((text.splitlines() or [""])[0], MOST_OF_A_NAME)


def _ending(path: Path) -> str:
    stem, ending = os.path.splitext(path.name)
    return (os.path.splitext(stem)[1] if ending.lower() in CODECS else ending).lower()


Floats = npt.NDArray[np.float64]

ASSUMED = {
    "selectivity": 1.0,
    "record_bytes": 100.0,
    "cpu_nanoseconds_per_record": 1_000.0,
    "records_per_second": 10_000.0,
}
"""Values of costs that are not given. `selectivity`: records out per record in, of an operator with one
input; one with several inputs emits as many as its inputs deliver on average (see selectivity_of_levels).
`record_bytes`: size of an emitted record. `cpu_nanoseconds_per_record`: per record in (of a source: out).
`records_per_second`: of a source, over all its subtasks."""

MOST = 1e100
"""Upper bound of every cost and rate, so that all values computed from them are finite."""

COSTS = {TOPOLOGY: pl.Int64(), "id": pl.Int32(), **dict.fromkeys(ASSUMED, pl.Float64())}
"""Columns of operator_costs, one row per stream node; `records_per_second` is 0 except for sources."""

LEVEL = "level"
"""Column of costs: the relative output of an operator whose selectivity is not given."""

DRAWN = {
    LEVEL: (0.25, 0.5, 1.0, 1.0, 1.0, 2.0),
    "record_bytes": (50.0, 100.0, 200.0, 500.0),
    "cpu_nanoseconds_per_record": (200.0, 1_000.0, 5_000.0, 20_000.0),
    "records_per_second": (1_000.0, 10_000.0, 50_000.0),
}
"""The values of drawn costs, weighted by repetition. They are assumptions."""


_STRIDE = 0x9E3779B97F4A7C15
_SEED = 1


def operator_costs(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, *known_costs: pl.DataFrame | None
) -> pl.DataFrame:
    """Return one row per stream node with columns of COSTS, each from the first of `known_costs` that has the
    value, or from ASSUMED.

    A selectivity that none of them gives follows from levels (see selectivity_of_levels).
    """
    costs = costs_and_levels(stream_nodes, *known_costs)
    copies = pl.when("broadcast").then(pl.max_horizontal("parallelism", 1)).otherwise(1)
    parallelism = stream_nodes.select(TOPOLOGY, "id", "parallelism")
    edges = look_up(
        stream_edges.select(TOPOLOGY, "source", "target", "broadcast", "output_tag"),
        parallelism,
        {"target": "id"},
    )
    edges = edges.with_columns(copies=copies, outputs=_outputs(edges))
    position = positions(costs[TOPOLOGY].to_numpy(), costs["id"].to_numpy())
    source, target = (
        position(edges[TOPOLOGY].to_numpy(), edges[end].to_numpy()) for end in ("source", "target")
    )
    selectivity = selectivity_of_levels(
        costs["selectivity"].fill_null(np.nan).to_numpy(),
        costs[LEVEL].to_numpy(),
        source,
        target,
        (edges["copies"] / edges["outputs"]).to_numpy(),
    )
    return costs.with_columns(selectivity=pl.Series(selectivity)).select(list(COSTS))


def _outputs(edges: pl.DataFrame) -> pl.Series:
    """Return the number of outputs of each edge's source, including side outputs."""
    if edges["output_tag"].null_count() == len(edges):
        return pl.Series("outputs", np.ones(len(edges), np.int64))
    return edges.select(pl.col("output_tag").fill_null("").n_unique().over(TOPOLOGY, "source"))["output_tag"]


def costs_and_levels(stream_nodes: pl.DataFrame, *known_costs: pl.DataFrame | None) -> pl.DataFrame:
    """As operator_costs, with LEVEL, and with null for selectivities that are not given."""
    nodes = stream_nodes.select(TOPOLOGY, "id", reads=~(pl.col("source") | pl.col("legacy_source")))
    names = [*ASSUMED, LEVEL]
    values = {name: pl.lit(None, pl.Float64()) for name in names}
    for number, costs in enumerate(rows for rows in known_costs if rows is not None):
        here = {name: f"{name}/{number}" for name in names if name in costs.columns}
        nodes = nodes.join(costs.rename(here), on=[TOPOLOGY, "id"], how="left", maintain_order="left")
        values |= {
            name: pl.coalesce(values[name], pl.col(column).fill_nan(None)) for name, column in here.items()
        }
    assumed = {**ASSUMED, LEVEL: ASSUMED["selectivity"]}
    values |= {name: values[name].fill_null(assumed[name]) for name in names if name != "selectivity"}
    values["records_per_second"] = pl.when("reads").then(0.0).otherwise(values["records_per_second"])
    return nodes.select(TOPOLOGY, "id", **values)


_FINE = 2.0**20


def selectivity_of_levels(
    selectivity: Floats, levels: Floats, source: Ints, target: Ints, weights: Floats
) -> Floats:
    """Replace NaN selectivities such that the operator emits its level.

    `weights`: per edge, the number of times its target gets the source's output. An operator's level is
    divided by the arriving levels, so that the levels along a path cancel out: an operator's output does not
    depend on the number of splits, joins and operators before it, and a million of them neither overflow nor
    vanish. Sums are over integers, so they are the same in any order.
    """
    missing = np.isnan(selectivity)
    if not missing.any():
        return selectivity
    arriving = np.bincount(target, weights=np.floor(levels[source] * weights * _FINE), minlength=len(levels))
    with np.errstate(divide="ignore"):
        own = np.where(arriving > 0, levels * _FINE / arriving, ASSUMED["selectivity"])
    return np.where(missing, own, selectivity)


def drawn_costs(stream_nodes: pl.DataFrame) -> pl.DataFrame:
    """Costs that a hash of topology and id draws from DRAWN; the same for every plan of a topology.

    An operator's LEVEL is drawn instead of its selectivity.
    """
    keys = stream_nodes[TOPOLOGY].to_numpy().view(np.uint64)
    ids = stream_nodes["id"].to_numpy().astype(np.uint64)
    columns = []
    for number, (name, values) in enumerate(DRAWN.items()):
        mixed = _mix(keys ^ _mix(ids + np.uint64(_STRIDE * (_SEED + number) % 2**64)))
        columns.append(pl.Series(name, np.array(values)[mixed % np.uint64(len(values))]))
    return stream_nodes.select(TOPOLOGY, "id").with_columns(columns)


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64, which is the same in every version of every library."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def read_costs(path: Path, topologies: pl.DataFrame) -> pl.DataFrame:
    """Read a file of costs (.parquet, .csv, else JSON lines) with `topology` (a name), `id`, and columns of
    COSTS.

    `topologies` (topology_id, name): rows of other topologies are dropped. Columns may be missing, and values
    null. Raises InputError for an unreadable file, unknown columns, values that are not numbers from 0 to
    MOST, and an operator with two rows.
    """
    rows = rows_of_costs(path, ("topology", "id", *ASSUMED))
    if rows.is_empty():
        return pl.DataFrame(schema=COSTS)
    wrong = [
        n
        for n in rows.columns
        if n in ASSUMED and not (rows[n].dtype.is_numeric() or rows[n].is_null().all())
    ]
    wrong += [] if rows["id"].dtype.is_integer() else ["id"]
    wrong += [] if rows["topology"].dtype == pl.String() else ["topology"]
    if wrong:
        kind = "text" if wrong[0] == "topology" else "numbers"
        raise InputError(f"{path}: column {wrong[0]} must be {kind}, got {rows[wrong[0]].dtype}")
    rows = rows.with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in ASSUMED if name not in rows.columns
    ).with_columns(pl.col(name).cast(pl.Float64) for name in ASSUMED)
    for name in ASSUMED:
        bad = rows.filter((pl.col(name) < 0) | (pl.col(name).fill_nan(None) > MOST))
        if len(bad):
            row = bad.row(0, named=True)
            where = f"{path}: {row['topology']}, operator {row['id']}: {name}"
            raise InputError(f"{where} must be 0 to {MOST:g}, got {row[name]}")
    several = rows.filter(rows.select("topology", "id").is_duplicated())
    if len(several):
        row = several.row(0, named=True)
        raise InputError(f"{path}: {row['topology']}, operator {row['id']} must have one row, got several")
    named = rows.join(topologies.select(TOPOLOGY, topology="name"), on="topology")
    return named.select(pl.col(name).cast(kind, strict=False) for name, kind in COSTS.items())


PREFIX = "penstock.costs."
"""Prefix of an operator's id, in keys of a topology's `config`; the value is `name:number,name:number`."""

_COST = rf"(?:{'|'.join(ASSUMED)}):[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_WELL_FORMED = f"^{_COST}(?:,{_COST})*$"

_MOST_LISTED = 20
"""Errors that are listed; the others are counted."""


def costs_in_topologies(topologies: pl.DataFrame) -> pl.DataFrame:
    """Return columns of COSTS, one row per operator whose costs its topology gives. In: topologies.

    Raises InputError with all errors of all topologies: keys without an operator's id, names that are not a
    column of costs or occur twice, values that are not numbers from 0 to MOST, and spaces.
    """
    entries = (
        topologies.select(TOPOLOGY, "name", entry=pl.col("config").map.entries())
        .filter(pl.col("entry").list.len() > 0)
        .explode("entry")
        .select(
            TOPOLOGY,
            "name",
            key=pl.col("entry").struct.field("key"),
            value=pl.col("entry").struct.field("value"),
        )
        .filter(pl.col("key").str.starts_with(PREFIX))
    )
    if entries.is_empty():
        return pl.DataFrame(schema=COSTS)
    identified = entries.with_columns(id=pl.col("key").str.strip_prefix(PREFIX).cast(pl.Int32, strict=False))
    costs = identified.with_columns(
        pl.col("value").str.extract(rf"\b{name}:([^,]*)").cast(pl.Float64, strict=False).alias(name)
        for name in ASSUMED
    )
    _require_right(costs.filter(~_is_right()))
    return costs.select(pl.col(name).cast(kind) for name, kind in COSTS.items())


def _is_right() -> pl.Expr:
    """Return whether entries, with `id` and the columns of costs read from `value`, are valid."""
    key_is_right = pl.concat_str(pl.lit(PREFIX), pl.col("id").cast(pl.String)) == pl.col("key")
    once = [pl.col("value").str.count_matches(f"{name}:", literal=True) <= 1 for name in ASSUMED]
    small = [(pl.col(name) <= MOST).fill_null(True) for name in ASSUMED]
    return pl.all_horizontal(
        key_is_right.fill_null(False), pl.col("value").str.contains(_WELL_FORMED), *once, *small
    )


def _require_right(wrong: pl.DataFrame) -> None:
    """Raise InputError if any entry is wrong."""
    if wrong.is_empty():
        return
    lines = [
        f"{row['name']}: config {row['key']} {_requirement(row)}, got {row['value']!r}"
        for row in wrong.sort("name", "key").head(_MOST_LISTED).iter_rows(named=True)
    ]
    if len(wrong) > _MOST_LISTED:
        lines.append(f"and {len(wrong) - _MOST_LISTED:,} more")
    raise InputError("\n".join(lines), f"for example {PREFIX}2: selectivity:0.5,record_bytes:80")


def _requirement(row: dict[str, Any]) -> str:
    if row["key"] != f"{PREFIX}{row['id']}":
        return "must have an operator's id after the last dot"
    return f"must be {', '.join(ASSUMED)}, each once, with a number of 0 to {MOST:g}"
