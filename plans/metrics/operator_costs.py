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
from penstock.plans.frames.counts import Ints, positions
from penstock.plans.frames.polars_frames import look_up
from penstock.plans.importing.bounds import (
    MOST_BYTES,
    BoundError,
    bounded_file,
    bounded_text,
    require_at_most,
)
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

# The rows of a file of costs, which is read within bounds: a small file may stand for much.


MOST_ROWS = 20_000_000
_LONGEST_ROW_BYTES = 64 << 10
_LINES_THAT_SAY_COLUMNS = 100
"""polars takes the columns of JSON lines from as many."""


def rows_of_costs(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    """The rows of a .parquet, .csv or, else, JSON lines file (both may be packed), with no other columns.

    Raises InputError: too large, other columns, not of that form.
    """
    with bounded_file(str(path)):
        try:
            return _read_parquet(path, allowed) if _ending(path) == ".parquet" else _read_text(path, allowed)
        except (pl.exceptions.PolarsError, pa.ArrowException, csv.Error, ValueError) as error:
            if isinstance(error, BoundError):
                raise
            raise InputError(
                f"{path}: {_shown(str(error))}",
                "costs are JSON lines, or .csv or .parquet as the name ends",
            ) from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or _shown(str(error))}") from None


def _read_parquet(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    with pq.ParquetFile(path) as file:
        said = file.metadata
        require_at_most(said.num_rows, MOST_ROWS, "rows")
        require_at_most(
            sum(said.row_group(number).total_byte_size for number in range(said.num_row_groups)),
            MOST_BYTES * len(allowed),
            "bytes, unpacked",
        )
        _require_columns(path, file.schema_arrow.names, allowed)
    return pl.read_parquet(path)


def _read_text(path: Path, allowed: tuple[str, ...]) -> pl.DataFrame:
    text = bounded_text(texts_of_file(str(path)), MOST_BYTES)
    if not text.isascii():
        text.decode("utf-8")  # raises for packed bytes under another name, which polars would unpack
    require_at_most(text.count(b"\n"), MOST_ROWS, "rows")
    if _ending(path) == ".csv":
        (first,) = _first_lines(text, 1) or (b"",)
        _require_columns(path, next(csv.reader([first.decode("utf-8-sig")]), []), allowed)
        return pl.read_csv(text)
    names: dict[str, None] = {}
    for line in _first_lines(text, _LINES_THAT_SAY_COLUMNS):
        row = orjson.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise ValueError(f"found {_shown(line.decode())}, allowed an object in each line")
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
            f"{path}: found columns {_shown(', '.join(names))}, allowed {', '.join(allowed)}",
            "topology and id have to be there; what is not given is assumed",
        )


def _shown(text: str) -> str:
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
"""What is not given. `selectivity`: records out per record in, of an operator with one input; one with
several emits as many as its inputs bring on average (see selectivity_of_levels). `record_bytes`: size of a
record that it emits. `cpu_nanoseconds_per_record`: for each record in (of a source, out).
`records_per_second`: of a source, over all its subtasks."""

MOST = 1e100
"""No cost and no rate is larger, so that all that is computed from them is a number."""

COSTS = {TOPOLOGY: pl.Int64(), "id": pl.Int32(), **dict.fromkeys(ASSUMED, pl.Float64())}
"""Columns of operator_costs, one row per stream node; `records_per_second` is 0 where there is no source."""

LEVEL = "level"
"""Column of costs: how much an operator emits, relative to others, where its selectivity is not given."""

DRAWN = {
    LEVEL: (0.25, 0.5, 1.0, 1.0, 1.0, 2.0),
    "record_bytes": (50.0, 100.0, 200.0, 500.0),
    "cpu_nanoseconds_per_record": (200.0, 1_000.0, 5_000.0, 20_000.0),
    "records_per_second": (1_000.0, 10_000.0, 50_000.0),
}
"""The values among which drawn costs choose, each as often as it stands there. They are assumptions."""


_STRIDE = 0x9E3779B97F4A7C15


def operator_costs(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, *known_costs: pl.DataFrame | None
) -> pl.DataFrame:
    """One row per stream node, with columns of COSTS: as the first of `known_costs` that says it, or ASSUMED.

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
    """The number of outputs of each edge's source: the main one and side outputs."""
    if edges["output_tag"].null_count() == len(edges):
        return pl.Series("outputs", np.ones(len(edges), np.int64))
    return edges.select(pl.col("output_tag").fill_null("").n_unique().over(TOPOLOGY, "source"))["output_tag"]


def costs_and_levels(stream_nodes: pl.DataFrame, *known_costs: pl.DataFrame | None) -> pl.DataFrame:
    """As operator_costs, with LEVEL, and no selectivity where none is given."""
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
    """Selectivities, with those that are NaN such that an operator emits its level.

    `weights`: of each edge, how often its target gets what its source emits. An operator's level is divided
    by those that arrive, so that the levels along a path cancel out: what an operator emits does not depend
    on how many splits, joins and operators come before it, and a million of them neither overflow nor
    vanish. Sums are over integers, so they are the same in any order.
    """
    missing = np.isnan(selectivity)
    if not missing.any():
        return selectivity
    arriving = np.bincount(target, weights=np.floor(levels[source] * weights * _FINE), minlength=len(levels))
    with np.errstate(divide="ignore"):
        own = np.where(arriving > 0, levels * _FINE / arriving, ASSUMED["selectivity"])
    return np.where(missing, own, selectivity)


def drawn_costs(stream_nodes: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    """Costs that a hash of topology and id draws from DRAWN; the same for every plan of a topology.

    What is drawn is not an operator's selectivity but its LEVEL.
    """
    keys = stream_nodes[TOPOLOGY].to_numpy().view(np.uint64)
    ids = stream_nodes["id"].to_numpy().astype(np.uint64)
    columns = []
    for number, (name, values) in enumerate(DRAWN.items()):
        mixed = _mix(keys ^ _mix(ids + np.uint64(_STRIDE * (seed + number) % 2**64)))
        columns.append(pl.Series(name, np.array(values)[mixed % np.uint64(len(values))]))
    return stream_nodes.select(TOPOLOGY, "id").with_columns(columns)


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64, which is the same in every version of every library."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def read_costs(path: Path, topologies: pl.DataFrame) -> pl.DataFrame:
    """A file of costs (.parquet, .csv, else JSON lines) with `topology` (a name), `id`, and columns of COSTS.

    `topologies` (topology_id, name): rows of others are left out. Columns may be missing, and values null.
    Raises InputError for a file that cannot be read, columns that are not known, values that are no
    numbers, or not 0 to MOST, and an operator with two rows.
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
        raise InputError(f"{path}: column {wrong[0]}: found {rows[wrong[0]].dtype}, allowed "
                         f"{'text' if wrong[0] == 'topology' else 'numbers'}")  # fmt: skip
    rows = rows.with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in ASSUMED if name not in rows.columns
    ).with_columns(pl.col(name).cast(pl.Float64) for name in ASSUMED)
    for name in ASSUMED:
        bad = rows.filter((pl.col(name) < 0) | (pl.col(name).fill_nan(None) > MOST))
        if len(bad):
            row = bad.row(0, named=True)
            where = f"{path}: {row['topology']}, operator {row['id']}: {name}"
            raise InputError(f"{where}: found {row[name]}, allowed 0 to {MOST:g}")
    several = rows.filter(rows.select("topology", "id").is_duplicated())
    if len(several):
        row = several.row(0, named=True)
        raise InputError(f"{path}: {row['topology']}, operator {row['id']}: found several rows, allowed one")
    named = rows.join(topologies.select(TOPOLOGY, topology="name"), on="topology")
    return named.select(pl.col(name).cast(kind, strict=False) for name, kind in COSTS.items())


PREFIX = "penstock.costs."
"""Before the operator's id, in keys of a topology's `config`; the value is `name:number,name:number`."""

_COST = rf"(?:{'|'.join(ASSUMED)}):[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_WELL_FORMED = f"^{_COST}(?:,{_COST})*$"

_SHOWN = 20
"""Errors that are listed; the others are counted."""


def costs_in_topologies(topologies: pl.DataFrame) -> pl.DataFrame:
    """Columns of COSTS, one row per operator whose costs its topology gives. In: topologies.

    Raises InputError with all errors of all topologies: keys without an operator's id, names that are no
    column of costs or occur twice, values that are no numbers from 0 to MOST, and spaces.
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
    """Whether entries, with `id` and the columns of costs read from `value`, are right."""
    key_is_right = pl.concat_str(pl.lit(PREFIX), pl.col("id").cast(pl.String)) == pl.col("key")
    once = [pl.col("value").str.count_matches(f"{name}:", literal=True) <= 1 for name in ASSUMED]
    small = [(pl.col(name) <= MOST).fill_null(True) for name in ASSUMED]
    return pl.all_horizontal(
        key_is_right.fill_null(False), pl.col("value").str.contains(_WELL_FORMED), *once, *small
    )


def _require_right(wrong: pl.DataFrame) -> None:
    """Raises InputError, unless no entry is wrong."""
    if wrong.is_empty():
        return
    lines = [
        f"{row['name']}: config {row['key']}: found {row['value']!r}, {_allowed(row)}"
        for row in wrong.sort("name", "key").head(_SHOWN).iter_rows(named=True)
    ]
    if len(wrong) > _SHOWN:
        lines.append(f"and {len(wrong) - _SHOWN:,} more")
    raise InputError("\n".join(lines), f"for example {PREFIX}2: selectivity:0.5,record_bytes:80")


def _allowed(row: dict[str, Any]) -> str:
    if row["key"] != f"{PREFIX}{row['id']}":
        return "allowed an operator's id after the last dot"
    return f"allowed {', '.join(ASSUMED)}, each once, with a number of 0 to {MOST:g}"
