"""What a version holds is on disk before the version can be read."""

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.store_location import MANIFEST
from penstock.engine.store.vacuum_store import drop_version
from tests.engine.store.arrow_plans import plan_of, spark_write, write
from tests.engine.store.damage import logs
from tests.processes import path_of


@pytest.mark.parametrize("through", ["delta-rs", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_a_version_holds_is_on_disk_before_it_is_published(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
):
    spark = request.getfixturevalue("spark") if through == "spark" else None
    synced: set[str] = set()
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.add(path_of(descriptor))
        fsync(descriptor)

    at_publication: set[str] = set()
    publish = plan_versions.publish

    def record_and_publish(*arguments):
        at_publication.update(synced)
        return publish(*arguments)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(writing, "publish", record_and_publish)
    store = tmp_path / "store"
    if spark is None:
        write(str(store), plan_of(a="1"))
    else:
        spark_write(spark, store, "1")
    # Delta makes folders for staged commits and leaves them empty.
    paths = [path for path in store.rglob("*") if path.name != "_staged_commits"]
    assert {str(path) for path in paths if MANIFEST not in path.parts} <= at_publication
    assert {str(store), str(tmp_path)} <= at_publication
    listed = DeltaTable(
        str(store / MANIFEST)
    ).file_uris()  # a merge of Spark's may leave files that it does not list
    assert {str(logs(store / MANIFEST)[-1]), *(uri.removeprefix("file://") for uri in listed)} <= synced
    drop_version(DeltaRsTables(str(store)) if spark is None else SparkTables(spark, str(store)), 1)
    assert str(logs(store / MANIFEST)[-1]) in synced
