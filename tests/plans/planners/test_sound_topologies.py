"""Given tables: what expressions find sound gives the rows that the validation of lines gives."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology import read_topology_tables as reading
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.normalized_tables import to_nullable_arrow
from penstock.plans.topology.topologies_of_lines import TopologyTables
from tests.plans.planners.table_contents import frame_contents
from tests.plans.topology.builders import every_setting, simple, transformation
from tests.reference.random_topologies import MODES, random_topology

_RESOURCES = pl.Struct(
    {"cpu_cores": pl.Float64}
    | {f"{m}_bytes": pl.Int64 for m in ("task_heap_memory", "task_off_heap_memory", "managed_memory")}
)
_WRONG: list[tuple[str, Any, Any]] = [
    ("id", 0, pl.Int32), ("id", 2, pl.Int32), ("id", None, pl.Int32),
    ("kind", "sinks", pl.String), ("kind", None, pl.String), ("kind", "partition", pl.String),
    ("kind", "two_input", pl.String), ("kind", "legacy_source", pl.String),
    ("inputs", [], pl.List(pl.Int32)), ("inputs", [1, None], pl.List(pl.Int32)),
    ("inputs", [0], pl.List(pl.Int32)), ("inputs", [99], pl.List(pl.Int32)),
    ("inputs", None, pl.List(pl.Int32)),
    ("parallelism", 0, pl.Int32), ("max_parallelism", 32769, pl.Int32),
    ("uid_hash", "a" * 32 + "\n", pl.String), ("uid_hash", "g" * 32, pl.String), ("uid", "", pl.String),
    ("buffer_timeout", -2, pl.Int64), ("chaining", "never", pl.String),
    ("managed_memory", {"PYTHON": 1}, pl.Map(pl.String, pl.Int32)),
    ("managed_memory", {"OPERATOR": 0}, pl.Map(pl.String, pl.Int32)),
    ("slot_scope", ["PYTHON", "OPERATOR"], pl.List(pl.String)), ("slot_scope", ["x"], pl.List(pl.String)),
    ("slot_scope", ["PYTHON", None], pl.List(pl.String)),
    ("min_resources", {"cpu_cores": 1.0}, _RESOURCES),
    ("preferred_resources", {"cpu_cores": 1.0}, _RESOURCES),
    ("partitioner", "hash", pl.String), ("partitioner", "hashed", pl.String),
    ("exchange_mode", "BATCH", pl.String), ("tag", "", pl.String), ("tag", "t", pl.String),
    ("names", ["a", None], pl.List(pl.String)), ("names", ["a"], pl.List(pl.String)),
]  # fmt: skip


def given_tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Random and special topologies, transformations shuffled."""
    given = [random_topology(seed, 3 + seed % 30, mode=MODES[seed % 4]) for seed in range(120)]
    chain = [transformation(1, "source")]
    chain += [transformation(i, inputs=[i - 1]) for i in range(2, 2 * BLOCK + 2)]
    automatic = {"execution.runtime-mode": "automatic", "pipeline.name": "a job"}
    unbounded = simple("unbounded", config=automatic)
    unbounded["transformations"][0]["kind"] = "legacy_source"
    bounded = simple("bounded", config=automatic)
    given += [every_setting(), {"name": "chain", "transformations": chain}, unbounded, bounded]
    tables = read_topologies(given)
    assert len(tables.topologies) > 100
    rows = tables.transformations.sample(fraction=1, shuffle=True, seed=1)
    return tables.topologies.sample(fraction=1, shuffle=True, seed=1), rows


def row_by_row(monkeypatch: pytest.MonkeyPatch, given: pa.Table, rows: pa.Table) -> TopologyTables:
    """With nothing found sound, everything goes through the validation of lines."""
    with monkeypatch.context() as patched:
        nothing = pl.DataFrame(schema={"position": pl.get_index_type(), "fingerprint": pl.String})
        patched.setattr(reading, "sound_topologies", lambda *_: nothing)
        return reading.read_topology_tables(given, rows)


@pytest.mark.slow
def test_random_tables_with_broken_rows(monkeypatch: pytest.MonkeyPatch):
    topologies, rows = given_tables()
    behind_sources = rows.with_row_index("at").filter(pl.col("id") > 1).unique(TOPOLOGY, maintain_order=True)
    places = np.random.default_rng(3).choice(behind_sources["at"].to_numpy(), len(_WRONG), replace=False)
    for place, (column, value, kind) in zip(places.tolist(), _WRONG, strict=True):
        here = pl.int_range(pl.len()) == place
        wrong = pl.lit(pl.Series([value], dtype=kind))
        rows = rows.with_columns(pl.when(here).then(wrong).otherwise(column).alias(column))
    options = pl.Series([{"execution.runtime-mode": "FOO"}], dtype=topologies.schema["config"])
    topologies = topologies.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(options)).otherwise("config").alias("config"),
        pl.when(pl.int_range(pl.len()) == 9)
        .then(0)
        .otherwise("parallelism")
        .cast(pl.Int32)
        .alias("parallelism"),
    )
    given = (to_nullable_arrow(topologies, "topologies"), to_nullable_arrow(rows, "transformations"))
    found, expected = reading.read_topology_tables(*given), row_by_row(monkeypatch, *given)
    assert found.inputs == expected.inputs
    assert frame_contents(found) == frame_contents(expected)
    assert len(found.topologies) > len(found.rejected) > 15


@pytest.mark.slow
def test_sound_tables_are_not_validated_line_by_line(monkeypatch: pytest.MonkeyPatch):
    """But for topologies with sinks that become several operators, which are nested."""
    topologies, rows = given_tables()
    nested = rows.filter(pl.col("sink_topology").is_not_null())[TOPOLOGY].unique().implode()
    topologies, rows = (table.filter(~pl.col(TOPOLOGY).is_in(nested)) for table in (topologies, rows))
    given = (to_arrow(topologies, "topologies"), to_arrow(rows, "transformations"))
    expected = row_by_row(monkeypatch, *given)
    monkeypatch.setattr(reading, "_validate_as_lines", None)
    for transformations in (rows, rows.sort(TOPOLOGY, "id")):
        found = reading.read_topology_tables(given[0], to_arrow(transformations, "transformations"))
        assert frame_contents(found) == frame_contents(expected)
