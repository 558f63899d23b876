"""The store through delta-rs: what the store with Spark promises."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import create_table, delta_rs_schema
from penstock.engine.store.open_plan import open_plan, read_plan
from penstock.engine.store.plan_versions import (
    VersionNotes,
    all_writes,
    find_version,
    list_versions,
    start_manifest,
)
from penstock.engine.store.store_location import MANIFEST, locate
from penstock.engine.store.vacuum_store import drop_version, remove_unfinished
from penstock.engine.store.write_plan import WriteInProgress, new_write_id, write_plan
from penstock.plans.errors import SchemaError, StoreError
from penstock.plans.tables import TABLES
from tests.engine.store.arrow_plans import names, plan_of, rows_in, schema_of, topologies, write
from tests.plans.planners.table_contents import rows_of


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of its own, with version 1 of plan_of(a="1")."""
    path = str(tmp_path / "store")
    assert write(path, plan_of(a="1")) == 1
    return path


def test_planning_again_adds_a_version_and_the_old_one_stays_readable(store: str):
    assert write(store, plan_of(a="1", b="1")) == 2
    assert (names(store), names(store, 1)) == ({"a", "b"}, {"a"})
    assert [(v.version, v.topologies, v.rejected) for v in list_versions(DeltaRsTables(store))] == [
        (1, 1, 0),
        (2, 2, 0),
    ]


def test_a_store_of_an_earlier_release_gains_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A column that it did not have is null in its versions, and is added when it is written to."""
    store, schema = str(tmp_path / "store"), TABLES["topologies"]
    lacking = pa.schema([field for field in schema if field.name != "max_parallelism"])
    with monkeypatch.context() as earlier:
        earlier.setitem(TABLES, "topologies", lacking)
        delta_rs_schema.cache_clear()
        assert write(store, plan_of(a="1")) == 1
    delta_rs_schema.cache_clear()
    scanned = open_plan(store).table("topologies").collect()
    for rows in (read_plan(DeltaRsTables(store))["topologies"], scanned.to_arrow()):
        assert rows["max_parallelism"].to_pylist() == [None]
    more = topologies(b="1")
    place = more.column_names.index("max_parallelism")
    more = more.set_column(place, "max_parallelism", pa.array([64], pa.int32()))
    assert write(store, {**plan_of(), "topologies": more}) == 2
    assert pa.table(DeltaTable(f"{store}/topologies").scan(["name", "max_parallelism"])).to_pylist() == [
        {"name": "b", "max_parallelism": 64},
        {"name": "a", "max_parallelism": None},
    ]


def test_the_same_topologies_with_the_same_options_write_nothing(store: str):
    assert write(store, plan_of(a="1")) == 1
    assert write(store, plan_of(a="2")) == 2
    assert write(store, plan_of(a="2"), until="stream_graph") == 3


def test_another_refusal_is_a_change(store: str):
    row = {"name": "b", "error_stage": "input", "error": "NotJson", "message": "no", "errors": []}
    refused = pa.Table.from_pylist([row], schema_of("rejected"))
    assert write(store, {**plan_of(a="1"), "rejected": refused}) == 2
    assert write(store, {**plan_of(a="1"), "rejected": refused}) == 2
    twice = pa.concat_tables([refused, refused])
    assert write(store, {**plan_of(a="1"), "rejected": twice}) == 3


def test_writers_at_the_same_time_lose_no_version(store: str, monkeypatch: pytest.MonkeyPatch):
    writers = 6
    together = Barrier(writers)
    publish = plan_versions.publish

    def publish_together(*args):
        together.wait(60)
        return publish(*args)

    monkeypatch.setattr(writing, "publish", publish_together)
    plans = [plan_of(**{f"t{i}": "1"}) for i in range(writers)]
    with ThreadPoolExecutor(writers) as pool:
        versions = [f.result() for f in [pool.submit(write, store, plan) for plan in plans]]
    assert sorted(versions) == [*range(2, writers + 2)]
    assert [names(store, v) for v in versions] == [{f"t{i}"} for i in range(writers)]


def test_a_write_that_fails_leaves_no_rows(store: str):
    without_columns = {**plan_of(b="1"), "job_vertices": pa.table({"id": [1]})}
    with pytest.raises(SchemaError, match=r"job_vertices.*column vertex_id is missing"):
        write(store, without_columns)
    nulls = topologies(b="1").set_column(2, schema_of("topologies").field("form"), pa.nulls(1, pa.string()))
    with pytest.raises(SchemaError, match="form must not be null"):
        write(store, {**plan_of(), "topologies": nulls})
    assert (names(store), rows_in(store)) == ({"a"}, 1)


def test_columns_of_other_arrow_flavours_and_orders_are_stored_alike(store: str):
    rows = topologies(b="1")
    flavours = rows.set_column(1, "name", rows["name"].cast(pa.large_string()))
    flavours = flavours.set_column(
        6, "config", rows["config"].cast(pa.map_(pa.large_string(), pa.string_view()))
    )
    write(store, {**plan_of(), "topologies": flavours.select(rows.column_names[::-1])})
    assert rows_of(read_plan(DeltaRsTables(store))["topologies"]) == rows_of(rows)


def test_many_rows_are_stored_whole(store: str):
    n = 200_000
    one = topologies(b="1")
    rows = pa.concat_tables([one.take(pa.array([0] * n)), one])
    assert write(store, {**plan_of(), "topologies": rows}) == 2
    assert len(read_plan(DeltaRsTables(store))["topologies"]) == n + 1


def test_tables_that_are_made_at_the_same_time_are_made_once(tmp_path: Path):
    writers = 8
    for i in range(5):
        together, path = Barrier(writers), str(tmp_path / str(i))

        def make(together=together, path=path):
            together.wait(60)
            return create_table(locate(path), MANIFEST)

        with ThreadPoolExecutor(writers) as pool:
            made = [f.result() for f in [pool.submit(make) for _ in range(writers)]]
        assert [table.version() for table in made] == [0] * writers
        assert len(list(Path(path, "_delta_log").glob("*.json"))) == 1


def test_what_is_no_store_or_no_plan_is_said_so(store: str):
    with pytest.raises(StoreError, match="is not a plan store"):
        read_plan(DeltaRsTables(f"{store}/elsewhere"))
    with pytest.raises(StoreError, match="version 7; its versions are 1"):
        read_plan(DeltaRsTables(store), 7)
    with pytest.raises(StoreError, match="does not have the tables job_edges"):
        read_plan(DeltaRsTables(store), 1, ["topologies", "job_edges"])
    assert list(read_plan(DeltaRsTables(store), 1, ["rejected"])) == ["rejected"]
    with pytest.raises(StoreError, match="surprises"):
        write(store, {**plan_of(a="1"), "surprises": topologies()})
    with pytest.raises(StoreError, match="the table topologies is required"):
        write(store, {"rejected": plan_of()["rejected"]})


def test_a_dropped_version_is_gone_and_its_number_is_not_used_again(store: str):
    delta = DeltaRsTables(store)
    assert write(store, plan_of(b="1"), until="slots") == 2
    kept = list_versions(delta)[0]
    drop_version(delta, 2)
    assert (list_versions(delta), names(store), rows_in(store)) == ([kept], {"a"}, 1)
    with pytest.raises(StoreError, match=r"version 2 of .* has been dropped; the remaining versions are 1"):
        read_plan(delta, 2)
    assert write(store, plan_of(b="1"), until="slots") == 3


@pytest.mark.slow
def test_a_version_is_dropped_while_others_are_written(store: str):
    delta = DeltaRsTables(store)
    assert write(store, plan_of(b="1")) == 2
    with ThreadPoolExecutor(2) as pool:
        dropped = pool.submit(drop_version, delta, 1)
        written = pool.submit(lambda: [write(store, plan_of(**{f"t{i}": "1"})) for i in range(5)])
        assert (dropped.result(), written.result()) == (None, [3, 4, 5, 6, 7])
    assert [v.version for v in list_versions(delta)] == [*range(2, 8)]
    assert rows_in(store) == 6


def test_a_version_that_is_being_dropped_stays_noted_as_dropped(store: str):
    delta = DeltaRsTables(store)
    assert write(store, plan_of(b="1")) == 2
    seen_before = all_writes(delta)
    drop_version(delta, 1)
    VersionNotes(delta.store).renew(seen_before)
    assert [v.version for v in list_versions(delta)] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("read", [list_versions, lambda delta: find_version(delta, None), remove_unfinished])
def test_a_version_that_is_published_while_the_manifest_is_read_is_not_lost(store: str, monkeypatch, read):
    read_manifest = DeltaRsTables.read_manifest

    def and_publish_another(self):
        monkeypatch.setattr(DeltaRsTables, "read_manifest", read_manifest)
        seen = read_manifest(self)
        assert write(store, plan_of(b="1")) == 2
        return seen

    monkeypatch.setattr(DeltaRsTables, "read_manifest", and_publish_another)
    read(DeltaRsTables(store))
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [1, 2]


def test_what_a_killed_write_left_is_removed_and_nothing_else(store: str):
    delta = DeltaRsTables(store)
    delta.append("topologies", topologies(b="1"), new_write_id())
    assert (remove_unfinished(delta), rows_in(store)) == ([], 2)
    assert len(remove_unfinished(delta, timedelta(seconds=-60))) == 1
    assert (names(store), rows_in(store), remove_unfinished(delta, timedelta(seconds=-60))) == ({"a"}, 1, [])


def test_a_running_write_that_was_given_up_is_not_published(store: str, monkeypatch: pytest.MonkeyPatch):
    append_all = DeltaRsTables.append_all

    def append_and_be_given_up(*arguments):
        append_all(*arguments)
        remove_unfinished(DeltaRsTables(store), timedelta(seconds=-60))

    monkeypatch.setattr(DeltaRsTables, "append_all", append_and_be_given_up)
    with pytest.raises(StoreError, match="removed as unfinished"):
        write(store, plan_of(b="1"))
    assert (names(store), rows_in(store)) == ({"a"}, 1)


def test_a_write_goes_on_with_the_tables_that_it_has(tmp_path):
    delta, write_id, plan = DeltaRsTables(str(tmp_path / "store")), new_write_id(), plan_of(a="1")
    start_manifest(delta)
    delta.append("topologies", plan["topologies"], write_id)
    begun = WriteInProgress(write_id, ["topologies"], delta.listed_files("topologies", write_id) or [])
    again = plan | {"topologies": topologies(b="2")}  # is in no need of being written
    assert write_plan(delta, again, planner_version="1", options={}, begun=begun) == 1
    assert names(str(delta.store)) == {"a"}
    assert list_versions(delta)[0].write_id == write_id


@pytest.mark.parametrize("files", [True, False], ids=["with rows", "without rows"])
def test_tables_that_were_written_and_are_gone_are_named(tmp_path, files):
    delta, write_id, plan = DeltaRsTables(str(tmp_path / "store")), new_write_id(), plan_of(a="1")
    start_manifest(delta)
    delta.append("topologies", plan["topologies"], write_id)
    listed = delta.listed_files("topologies", write_id) or []
    shutil.rmtree(tmp_path / "store" / "topologies")
    begun = WriteInProgress(write_id, ["topologies"], listed if files else [])
    with pytest.raises(StoreError, match="table topologies was changed while the plan was made: it is gone"):
        write_plan(delta, plan, planner_version="1", options={}, begun=begun)
    assert list_versions(delta) == []
