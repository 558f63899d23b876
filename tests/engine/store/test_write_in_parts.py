"""A fleet that is planned and written while it is read leaves the store that a plan in memory leaves."""

import json
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.engine.commands.maintain import verify_version
from penstock.engine.planning import plan_in_process as in_process
from penstock.engine.planning.memory_estimate import FleetSize
from penstock.engine.planning.plan_in_process import parts_in_process, plan_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import VersionNotes, list_versions
from penstock.engine.store.vacuum_store import remove_unfinished
from penstock.engine.store.write_plan import WriteWhilePlanning
from penstock.plans.errors import InputError, MachineError, StoreError
from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_as_read import plan_as_read
from penstock.plans.topology import unpacked_texts
from penstock.plans.vocabulary import Layer
from tests.plans.planners.table_contents import rows_of
from tests.plans.planners.test_read_topologies import COLLIDING
from tests.plans.topology.builders import simple
from tests.plans.topology.hostile_lines import RAW, hostile_lines
from tests.reference.random_topologies import MODES, random_topology

counts = attrgetter("inputs", "planned", "rejected")

FLEET = [random_topology(number, 12, mode=MODES[number % len(MODES)]) for number in range(24)]
"""Some of which Flink refuses."""
TWICE = [
    *FLEET[:8],
    simple("both right"),
    *FLEET[8:16],
    simple("both right"),
    *(simple(name) for name in COLLIDING),
    FLEET[3],
    {"name": "wrong"},
    *FLEET[16:],
    simple("wrong"),
]


@pytest.fixture(params=[1, 40], autouse=True)
def size_of_parts(request, monkeypatch) -> int:
    """Parts of one topology, and of some; blocks are small."""
    monkeypatch.setattr(in_process, "ROWS_AT_A_TIME", request.param)
    monkeypatch.setattr(unpacked_texts, "BLOCK_BYTES", 700)
    return int(request.param)


def lines_of(topologies: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(topology).encode() for topology in topologies]


def plan_into(store: Path, lines: list[bytes], until: Layer = Layer.SLOTS) -> PlanResult:
    file = store.parent / "lines.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    return plan_in_process([str(file)], plan_options(until, max_line_bytes=1 << 20), str(store))


@pytest.mark.slow
@pytest.mark.parametrize("lines", [lines_of(TWICE), [*hostile_lines(12, 24), *RAW]], ids=["fleet", "hostile"])
def test_the_rows_are_those_of_a_plan_in_memory(tmp_path, lines):
    stored = plan_into(tmp_path / "store", lines)
    planned = plan_in_process(str(tmp_path / "lines.jsonl"), PlanOptions(max_line_bytes=1 << 20))
    assert counts(stored) == counts(planned)
    assert stored.planned
    assert stored.rejected
    delta = DeltaRsTables(str(tmp_path / "store"))
    found = read_plan(delta)
    assert found.keys() == planned.tables.keys()
    for name, table in planned.tables.items():
        assert rows_of(found[name]) == rows_of(table), name
    (version,) = list_versions(delta)
    assert (version.topologies, version.rejected) == (stored.planned, stored.rejected)
    assert verify_version(delta, 1)[1] == []


@pytest.mark.slow
def test_parts_are_small(tmp_path, size_of_parts):
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"\n".join(lines_of(FLEET)) + b"\n")
    parts = [len(part.transformations) for part in parts_in_process([str(file)])]
    whole = in_process.read_in_process(str(file))
    assert sum(parts) == len(whole.transformations)
    assert len(parts) > 1
    assert (len(parts) > 20) == (size_of_parts == 1)


@pytest.mark.slow
def test_the_same_fleet_is_no_new_version_and_leaves_no_files(tmp_path):
    few = FLEET[:6]
    store, changed = tmp_path / "store", [*few[:-1], {**few[-1], "parallelism": 7}]
    wrong = [*few, {"name": "wrong", "transformations": 1}]
    for fleet, number in ((few, 1), (few, 1), (changed, 2), (wrong, 3), (wrong, 3), (few, 4)):
        assert plan_into(store, lines_of(fleet)).version == number
    versions = list_versions(DeltaRsTables(str(store)))
    assert {f.name for f in store.glob("*/write_id=*")} == {f"write_id={v.write_id}" for v in versions}


@pytest.mark.slow
def test_layers_that_are_not_asked_for_are_not_written(tmp_path):
    plan_into(tmp_path / "store", lines_of(FLEET), Layer.TOPOLOGY)
    (version,) = list_versions(DeltaRsTables(str(tmp_path / "store")))
    assert "transformations" in version.tables
    assert "stream_nodes" not in version.tables


@pytest.mark.slow
@pytest.mark.parametrize("error", [MachineError("no space"), KeyboardInterrupt()])
def test_what_ends_the_plan_leaves_nothing(tmp_path, monkeypatch, error, size_of_parts):
    store = tmp_path / "store"
    plan_into(store, lines_of(FLEET[:5]))
    before = {file for file in store.rglob("*.parquet") if os.path.isfile(file)}
    monkeypatch.setattr(in_process, "ROWS_AT_A_TIME", min(size_of_parts, 40))
    added: list[int] = []
    add = WriteWhilePlanning.add_part

    def full(self, tables):
        if added:
            raise error
        added.append(1)
        add(self, tables)

    monkeypatch.setattr(WriteWhilePlanning, "add_part", full)
    with pytest.raises(type(error)):
        plan_into(store, lines_of(FLEET))
    assert {file for file in store.rglob("*.parquet") if os.path.isfile(file)} == before
    assert [v.version for v in list_versions(DeltaRsTables(str(store)))] == [1]


@pytest.mark.slow
def test_what_ends_the_plan_after_its_version_is_there_leaves_the_version(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(VersionNotes, "note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan_into(tmp_path / "store", lines_of(FLEET[:5]))
    delta = DeltaRsTables(str(tmp_path / "store"))
    assert [v.version for v in list_versions(delta)] == [1]
    assert verify_version(delta, 1)[1] == []


@pytest.mark.slow
def test_files_that_no_log_lists_are_removed_with_what_a_killed_write_left(tmp_path):
    store = tmp_path / "store"
    plan_into(store, lines_of(FLEET[:5]))
    delta = DeltaRsTables(str(store))
    before = set(store.glob("*/write_id=*/*.parquet"))
    killed = WriteWhilePlanning(str(store))
    killed.add_part(plan_in_process(lines_of(FLEET[5:9])).tables)
    assert set(store.glob("*/write_id=*/*.parquet")) > before
    assert remove_unfinished(delta) == []
    assert remove_unfinished(delta, timedelta(seconds=-60)) == [killed._write_id]
    assert set(store.glob("*/write_id=*/*.parquet")) == before
    assert remove_unfinished(delta, timedelta(seconds=-60)) == []
    with pytest.raises(StoreError, match="failed"):
        killed.publish(planner_version="1", options={})
    assert [verify_version(delta, v.version)[1] for v in list_versions(delta)] == [[]]


def test_what_is_wrong_with_the_paths_is_said_before_there_is_a_store(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"\n\n")
    with pytest.raises(InputError, match="no topologies"):
        plan_in_process([str(tmp_path / "empty.jsonl")], plan_options(), str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def frames(count: int, fail_at: int | None = None) -> Iterator[dict[str, pl.DataFrame]]:
    lines = lines_of(FLEET[:1])
    for number in range(count):
        if number == fail_at:
            raise InputError("a broken file")
        read = in_process.read_in_process(lines)._asdict()
        del read["inputs"]
        yield read


@pytest.mark.parametrize("place", [0, 1, 5])
def test_what_reading_raises_ends_all(place):
    taken: list[int] = []
    with pytest.raises(InputError, match="a broken file"):
        plan_as_read(frames(8, place), PlanOptions(Layer.JOB_GRAPH), lambda tables: taken.append(1))
    assert len(taken) <= place
    assert threading.active_count() < 50


def test_what_planning_raises_ends_all():
    def no_memory(rows):
        raise MachineError("no memory")

    with pytest.raises(MachineError, match="no memory"):
        plan_as_read(frames(8), PlanOptions(Layer.EXECUTION_GRAPH), lambda tables: None, no_memory)


@pytest.mark.slow
def test_no_more_is_read_than_is_taken():
    read = taken = 0

    def counted() -> Iterator[dict[str, pl.DataFrame]]:
        nonlocal read
        for part in frames(20):
            read += 1
            assert read - taken <= pl.thread_pool_size() + 4
            yield part

    def take(tables: object) -> None:
        nonlocal taken
        taken += 1

    plan_as_read(counted(), PlanOptions(Layer.JOB_GRAPH), take)
    assert (read, taken) == (20, 20)


def test_memory_of_a_fleet_does_not_grow_with_its_transformations():
    small, large = FleetSize(2_000_000, 100_000), FleetSize(20_000_000, 100_000)
    assert small.needed_bytes_in_parts == large.needed_bytes_in_parts < small.needed_bytes
    assert FleetSize(1_000, 100).needed_bytes_in_parts == FleetSize(1_000, 100).needed_bytes
    assert FleetSize(2_000_000, 1).needed_bytes_in_parts == FleetSize(2_000_000, 1).needed_bytes
