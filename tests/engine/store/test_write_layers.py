"""A giant whose tables workers write leaves the store that other topologies leave."""

import shutil
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from penstock.engine.commands.maintain import verify_version
from penstock.engine.planning import plan_giants
from penstock.engine.planning import plan_on_spark as on_spark
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import Planner
from penstock.engine.planning.write_layers import WriteLayers
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import list_versions
from penstock.plans.errors import MachineError, StoreError
from penstock.plans.layers import PlanOptions
from penstock.plans.vocabulary import Layer
from tests.plans.planners.table_contents import rows_of
from tests.reference.random_topologies import random_topology

counts = attrgetter("inputs", "planned", "rejected")

PLANNED = random_topology(3, 40)
REFUSED_LATE = {
    "name": "two operators of one id",
    "transformations": [
        {"id": number, "kind": "source" if number == 1 else "one_input", "uid": f"u{number % 19}"}
        | ({"inputs": [number - 1]} if number > 1 else {})
        for number in range(1, 21)
    ],
}


@pytest.fixture(autouse=True)
def giants_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "OF_GIANTS", Size(15, 2**40))
    monkeypatch.setattr(plan_giants, "_rows_of_a_block", lambda size, cores: 12)


def plan_into(
    spark: SparkSession,
    store: Path,
    topologies: list[dict[str, Any]],
    until: Layer = Layer.SLOTS,
    planner: Planner = Planner.JOINS,
) -> PlanResult:
    file = store.parent / "topologies.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, topologies)))
    return plan_on_spark([str(file)], plan_options(until), str(store), spark=spark, planner=planner)


def stored_in(spark: SparkSession) -> set[int]:
    """The ids of the RDDs that Spark keeps."""
    return {int(number) for number in spark.sparkContext._jsc.getPersistentRDDs()}


def written(store: Path) -> set[str]:
    return {folder.name.removeprefix("write_id=") for folder in store.glob("*/write_id=*")}


@pytest.mark.parametrize("planner", [Planner.JOINS, Planner.COLUMNAR])
def test_nothing_of_a_plan_that_fails_stays_in_the_storage_of_a_session(
    spark: SparkSession, tmp_path: Path, monkeypatch, planner
):
    before = stored_in(spark)

    def no_memory(*_: Any) -> None:
        raise MachineError("no memory")

    monkeypatch.setattr(on_spark, "count_rows", no_memory)
    with pytest.raises(MachineError):
        plan_into(spark, tmp_path / "store", [PLANNED], Layer.TOPOLOGY, planner)
    assert stored_in(spark) <= before


def test_rows_are_those_of_a_plan_in_memory(spark: SparkSession, tmp_path: Path):
    store, before = tmp_path / "store", stored_in(spark)
    stored = plan_into(spark, store, [PLANNED])
    assert stored_in(spark) <= before
    assert counts(stored) == (1, 1, 0)
    found = read_plan(DeltaRsTables(str(store)))
    planned = plan_in_process(str(tmp_path / "topologies.jsonl"))
    assert found.keys() == planned.tables.keys()
    for name, table in planned.tables.items():
        assert rows_of(found[name]) == rows_of(table), name


def test_the_same_plan_is_no_new_version_and_leaves_no_files(spark: SparkSession, tmp_path: Path):
    store = tmp_path / "store"
    for _ in range(2):
        assert plan_into(spark, store, [PLANNED], Layer.STREAM_GRAPH).version == 1
    (version,) = list_versions(DeltaRsTables(str(store)))
    assert written(store) == {version.write_id}
    assert verify_version(DeltaRsTables(str(store)), 1)[1] == []


def test_a_topology_that_a_later_layer_refuses_is_in_no_table(spark: SparkSession, tmp_path: Path):
    store = tmp_path / "store"
    stored = plan_into(spark, store, [REFUSED_LATE], Layer.JOB_GRAPH)
    assert counts(stored) == (1, 0, 1)
    found = read_plan(DeltaRsTables(str(store)))
    planned = plan_in_process(str(tmp_path / "topologies.jsonl"), PlanOptions(Layer.JOB_GRAPH))
    assert {name for name, rows in found.items() if len(rows)} == {"rejected"}
    assert rows_of(found["rejected"]) == rows_of(planned.tables["rejected"])
    (version,) = list_versions(DeltaRsTables(str(store)))
    assert written(store) == {version.write_id}


def test_what_is_gone_when_the_plan_is_done_is_no_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store"
    publish = WriteLayers.publish

    def removed_before(self: Any, planned: Any) -> int:
        shutil.rmtree(store / "stream_edges")
        return publish(self, planned)

    monkeypatch.setattr(WriteLayers, "publish", removed_before)
    with pytest.raises(StoreError, match="table stream_edges was changed while the plan was made"):
        plan_into(spark, store, [PLANNED], Layer.STREAM_GRAPH)
    assert list_versions(DeltaRsTables(str(store))) == []
    assert not written(store)
