"""`penstock drop` and `penstock vacuum`: versions that nobody needs, and their disk space."""

import os
import re
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_versions import all_writes
from penstock.engine.store.store_tables import VersionState
from penstock.engine.store.vacuum_store import mark_dropped, remove_unfinished
from penstock.engine.store.write_plan import WriteWhilePlanning
from tests.plans.topology.builders import simple


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "store"
    for name in "abc":
        penstock.plan(simple(name), until="job_graph").write(folder)
    return folder


@pytest.fixture
def store(written, tmp_path):
    shutil.copytree(written, tmp_path / "store")
    return tmp_path / "store"


def numbers(store) -> list[int]:
    return [version.number for version in penstock.open_store(store).versions]


def size(store: Path) -> int:
    return sum(file.stat().st_size for file in store.rglob("*.parquet") if file.is_file())


@pytest.mark.slow
def test_a_dropped_version_is_gone_and_vacuum_gives_its_space_back(store):
    before, reader = size(store), open_plan(str(store), 1)
    nodes = reader.table("stream_nodes").select(pl.len())
    unread = penstock.read_plan(store, 1)
    code, said, beside = run("drop", f"{store}@1")
    assert (code, "version 1 of" in said, "penstock vacuum" in beside) == (0, True, True)
    assert numbers(store) == [2, 3]
    dropped = f"version 1 of {store} has been dropped; the remaining versions are 2, 3"
    assert (run("show", store, "--version", "1")[0], dropped in run("show", f"{store}@1")[2]) == (4, True)
    with pytest.raises(penstock.StoreError, match=re.escape(dropped)):
        unread.nodes("stream_graph")
    assert run("drop", f"{store}@1")[0] == 4
    assert nodes.collect().item() == 3  # who had begun goes on
    kept, beside = run("vacuum", store)[1:]
    assert "0 files" in kept
    assert "--retain" in beside
    assert nodes.collect().item() == 3
    assert "would be removed" in run("vacuum", store, "--retain", "0s", "--dry-run")[1]
    assert before - size(store) < before / 10
    assert "of versions 1 removed" in run("vacuum", store, "--retain", "0s")[1]
    assert size(store) < before * 0.8
    assert "0 files" in run("vacuum", store, "--retain", "0s")[1]
    for number in (2, 3):
        assert run("verify", store, "--version", number)[0] == 0
    assert penstock.plan(simple("d"), until="job_graph").write(store) == 4


def test_old_versions_are_dropped_but_the_newest_stays(store):
    assert "no version is that old" in run("drop", store, "--older-than", "1d")[1]
    assert run("drop", store, "--older-than", "0s", "--dry-run")[1].count("would be dropped") == 2
    assert numbers(store) == [1, 2, 3]
    assert run("drop", store, "--older-than", "0s")[0] == 0
    assert numbers(store) == [3]
    assert "no version is that old" in run("drop", f"{store}@3", "--older-than", "1d")[1]
    assert run("drop", store)[0] == 2
    assert run("drop", store, "--older-than", "soon")[0] == 2


def test_what_is_interrupted_is_finished_and_writes_that_go_on_are_left(store, tmp_path):
    delta = DeltaRsTables(str(store))
    first = next(one for one in all_writes(delta) if one.version == 1)
    mark_dropped(delta, first)  # a drop that was killed here
    going_on = store / "stream_nodes" / "write_id=20990101T000000.000000Z-0123456789ab"
    going_on.mkdir()
    (going_on / "part.parquet").write_bytes(b"not finished")
    assert first.write_id in delta.write_ids("stream_nodes")
    assert run("vacuum", store, "--retain", "0s")[0] == 0
    assert first.write_id not in delta.write_ids("stream_nodes")
    assert not list(store.glob(f"*/write_id={first.write_id}"))
    assert (going_on / "part.parquet").exists()
    assert {one.state for one in all_writes(delta)} == {VersionState.DROPPED, VersionState.COMPLETE}
    assert os.listdir(tmp_path) == ["store"]


def test_vacuum_removes_writes_that_were_killed(store, monkeypatch):
    killed = WriteWhilePlanning(str(store))
    killed.add_part(plan_in_process([simple("k")]).tables)
    assert run("vacuum", store, "--retain", "0s")[1].startswith(f"{store}: 0 files")
    at_once = partial(remove_unfinished, older_than=timedelta(seconds=-60))
    monkeypatch.setattr("penstock.engine.commands.maintain.remove_unfinished", at_once)
    assert "1 unfinished writes and drops cleaned up" in run("vacuum", store, "--retain", "0s")[1]
    assert numbers(store) == [1, 2, 3]
    with pytest.raises(penstock.StoreError):
        killed.publish(planner_version="1", options={})
