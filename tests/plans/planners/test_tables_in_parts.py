"""A folder of tables that is read in parts gives the rows of one that is read whole."""

import time
from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.planning import plan_in_process as in_process
from penstock.engine.planning.plan_in_process import parts_in_process, plan_in_process, read_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.plans.errors import InputError, NotEnoughMemoryError
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.topology import read_topology_tables as parts
from penstock.plans.topology.read_topology_tables import (
    divide_by_topology,
    read_topology_folder_in_parts,
    rows_in_parts,
)
from penstock.plans.topology.topologies_of_lines import TopologyTables
from tests.plans.planners.table_contents import frame_contents, rows_of
from tests.plans.topology.builders import simple
from tests.reference.random_topologies import MODES, random_topology

counts = attrgetter("inputs", "planned", "rejected")

FLEET = [random_topology(number, 12, mode=MODES[number % len(MODES)]) for number in range(40)]
ORDERS = ["as given", "shuffled", "by id", "topologies shuffled"]


def test_seconds_of_reading_are_within_those_of_the_call():
    started = time.monotonic()
    assert 0 <= plan_in_process([simple("a")]).seconds["read_and_validate"] <= time.monotonic() - started


@cache
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables, with every mistake that a row of them can have."""
    given = [topology for topology in FLEET if "transformations" in topology]
    names = ("twice", "mismatch", "no rows", "only rows", "too", "wrong")
    found = read_in_process([*given, *map(simple, names)])._asdict()
    topologies, rows = found["topologies"], found["transformations"]
    ids = dict(zip(topologies["name"], topologies["topology_id"], strict=True))
    only = [ids["only rows"], ids["too"]]
    topologies = pl.concat([topologies, topologies.filter(name="twice")])
    renamed = pl.when(pl.col("name") == "mismatch").then(pl.lit("other")).otherwise("name").alias("name")
    topologies = topologies.filter(~pl.col("topology_id").is_in(only)).with_columns(renamed)
    rows = rows.filter(pl.col("topology_id") != ids["no rows"])
    kind = pl.when(pl.col("topology_id") == ids["wrong"]).then(pl.lit("none")).otherwise("kind")
    rows = rows.with_columns(kind.alias("kind"))
    return topologies, pl.concat([rows, rows[-1:].with_columns(topology_id=pl.lit(None, pl.Int64))])


def write_folder(folder: Path, order: str) -> Path:
    """The tables in files of some rows, in small row groups."""
    topologies, rows = tables()
    if order == "shuffled":
        rows = rows.sample(fraction=1, shuffle=True, seed=1)
    if order == "by id":
        rows = rows.sort("topology_id", maintain_order=True)
    if order != "as given":
        topologies = topologies.sample(fraction=1, shuffle=True, seed=2)
    for name, frame in (("topologies", topologies), ("transformations", rows)):
        (folder / name).mkdir(parents=True)
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        for number, start in enumerate(range(0, len(table), 200)):
            pq.write_table(table.slice(start, 200), folder / name / f"{number:03}.parquet", row_group_size=50)
    return folder


def together(found: list[TopologyTables]) -> TopologyTables:
    frames = {
        name: pl.concat([getattr(part, name) for part in found])
        for name in TopologyTables._fields
        if name != "inputs"
    }
    return TopologyTables(**frames, inputs=sum(part.inputs for part in found))


@pytest.fixture(scope="module")
def read_whole(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[str, TopologyTables, dict[str, list[str]]]]:
    """Of an order of rows: a folder with both tables, what is read if it is read whole, and its rows."""

    @cache
    def read(order: str) -> tuple[str, TopologyTables, dict[str, list[str]]]:
        folder = str(write_folder(tmp_path_factory.mktemp("tables"), order))
        whole = read_topologies(folder)
        return folder, whole, frame_contents(whole)

    return read


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [20, 200, 100_000])
def test_parts_hold_what_the_whole_holds(read_whole, monkeypatch, order, size):
    monkeypatch.setattr(parts, "_ROWS_SORTED_AT_ONCE", 150)
    folder, whole, rows = read_whole(order)
    found = list(read_topology_folder_in_parts(folder, size))
    assert together(found).inputs == whole.inputs == len(whole.topologies) + len(whole.rejected)
    assert frame_contents(together(found)) == rows
    kinds = set(whole.rejected["error"])
    assert {"DuplicateTopologyName", "TopologyIdMismatch", "NoTopology"} < kinds
    assert (len(found) > 10) == (size == 20)
    assert (len(found) == 1) == (size == 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["as given", "shuffled"])
def test_the_stored_plan_is_that_of_a_plan_in_memory(tmp_path, monkeypatch, order):
    monkeypatch.setattr(in_process, "ROWS_AT_A_TIME", 100)
    folder, store = str(write_folder(tmp_path / "in", order)), str(tmp_path / "store")
    stored = plan_in_process([folder], plan_options(max_line_bytes=1 << 20), store)
    planned = plan_in_process(folder)
    assert counts(stored) == counts(planned)
    found = read_plan(DeltaRsTables(store))
    for name, table in planned.tables.items():
        assert rows_of(found[name]) == rows_of(table), name


def test_rows_in_order_are_read_as_they_come_and_others_in_the_order_of_topologies():
    def read(ids: list[int | None], batch: int) -> tuple[list[list[int]], list[list[int]]]:
        column = pa.array(ids, pa.int64())

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(ids), batch):
                yield pa.record_batch({"topology_id": column.slice(start, batch)})

        given = np.array([7, 3, 5, 3])
        division = divide_by_topology(given, (b["topology_id"] for b in batches()), 3)
        assert division.without_topology == [i for i in dict.fromkeys(ids) if i not in given]
        rows = [
            [i for piece in found for i in piece["topology_id"].to_pylist()]
            for found in rows_in_parts(division, batches, "topology_id")
        ]
        return [given[division.positions(p)].tolist() for p in range(division.parts)], rows

    for batch in (1, 2, 3, 20):
        assert read([5, 5, 5, 9, None, 7, 7, 3], batch) == ([[5], [7], [3, 3]], [[5, 5, 5], [7, 7], [3]])
        assert read([5, 7, 5, 9, None, 7, 5, 3], batch) == (
            [[7], [3, 5, 3]],
            [[7, 7], [5, 5, 5, 3]],
        )
        assert read([], batch) == ([[7, 3, 5, 3]], [[]])


def test_more_rows_without_a_topology_than_one_part_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.plans.topology.read_topology_tables._MOST_REFUSED_OF_A_PART", 10)
    folder = write_folder(tmp_path, "as given")
    for file in (folder / "topologies").iterdir():
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    found = list(read_topology_folder_in_parts(str(folder), 100_000))
    assert [len(part.rejected) for part in found[:-1]] == [10] * (len(found) - 1)
    assert frame_contents(together(found)) == frame_contents(read_topologies(folder))


def test_errors_and_the_end_of_memory_stop_the_reading(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "in", "shuffled")
    with pytest.raises(InputError, match="cannot be read together with other inputs"):
        next(parts_in_process([str(tmp_path / "a.jsonl"), str(folder)]))

    def no_memory() -> None:
        raise NotEnoughMemoryError("none left", "")

    with pytest.raises(NotEnoughMemoryError):
        next(read_topology_folder_in_parts(str(folder), 10, no_memory))
    (folder / "transformations" / "001.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="transformations"):
        list(read_topology_folder_in_parts(str(folder), 10))
    wrong = tables()[1].rename({"kind": "kin"}).to_arrow(compat_level=pl.CompatLevel.oldest())
    for file in (folder / "transformations").iterdir():
        pq.write_table(wrong, file)
    with pytest.raises(InputError, match="kin"):
        list(read_topology_folder_in_parts(str(folder), 10))
