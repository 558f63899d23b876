"""A topology that is planned into a store table by table leaves the store that others leave."""

import os
from operator import attrgetter

import orjson
import pytest

from penstock.engine.commands.maintain import verify_version
from penstock.engine.planning import memory_estimate
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import list_versions
from penstock.engine.store.write_plan import WriteWhilePlanning
from penstock.plans.errors import MachineError
from penstock.plans.vocabulary import Layer
from tests.plans.planners.table_contents import rows_of
from tests.reference.random_topologies import MODES, random_topology

counts = attrgetter("inputs", "planned", "rejected")

TOPOLOGIES = [random_topology(3, 40, mode=mode) for mode in MODES]
REFUSED = {
    "name": "refused",
    "transformations": [
        {"id": 1, "kind": "source", "uid": "same"},
        {"id": 2, "kind": "sink", "inputs": [1], "uid": "same"},
    ],
}


@pytest.fixture(autouse=True)
def every_topology_is_a_giant(monkeypatch):
    monkeypatch.setattr(memory_estimate, "ROWS_OF_A_GIANT", 0)


def plan_into(store, topology, folder, until=Layer.SLOTS):
    file = folder / "topology.jsonl"
    file.write_bytes(orjson.dumps(topology))
    return plan_in_process([str(file)], plan_options(until), str(store))


@pytest.mark.slow
def test_the_rows_are_those_of_a_plan_in_memory(tmp_path):
    ends = set()
    for number, topology in enumerate([*TOPOLOGIES, REFUSED, {"name": "wrong"}]):
        stored = plan_into(tmp_path / str(number), topology, tmp_path)
        planned = plan_in_process(str(tmp_path / "topology.jsonl"))
        assert counts(stored) == counts(planned)
        found = read_plan(DeltaRsTables(str(tmp_path / str(number))))
        assert found.keys() == planned.tables.keys()
        for name, table in planned.tables.items():
            assert rows_of(found[name]) == rows_of(table), (topology["name"], name)
        ends.add((stored.planned, stored.rejected))
    assert ends == {(1, 0), (0, 1)}


def test_layers_that_are_not_asked_for_are_not_written(tmp_path):
    plan_into(tmp_path / "store", TOPOLOGIES[0], tmp_path, Layer.JOB_GRAPH)
    (version,) = list_versions(DeltaRsTables(str(tmp_path / "store")))
    assert "job_edges" in version.tables
    assert "execution_vertices" not in version.tables


@pytest.mark.slow
def test_the_same_plan_is_no_new_version_and_leaves_no_files(tmp_path):
    store = tmp_path / "store"
    for topology, number in ((TOPOLOGIES[0], 1), (TOPOLOGIES[0], 1), (REFUSED, 2), (REFUSED, 2)):
        assert plan_into(store, topology, tmp_path).version == number
    versions = list_versions(DeltaRsTables(str(store)))
    assert [v.version for v in versions] == [1, 2]
    assert {f.name for f in store.glob("*/write_id=*")} == {f"write_id={v.write_id}" for v in versions}
    assert verify_version(DeltaRsTables(str(store)), 1)[1] == []


@pytest.mark.slow
def test_what_ends_the_plan_leaves_nothing(tmp_path, monkeypatch):
    store = tmp_path / "store"
    plan_into(store, TOPOLOGIES[0], tmp_path)
    before = {file for file in store.rglob("*.parquet") if os.path.isfile(file)}
    add = WriteWhilePlanning.add

    def full(self, table, parts):
        if table == "execution_edges":
            raise MachineError("no space")
        add(self, table, parts)

    monkeypatch.setattr(WriteWhilePlanning, "add", full)
    with pytest.raises(MachineError, match="no space"):
        plan_into(store, TOPOLOGIES[1], tmp_path)
    assert {file for file in store.rglob("*.parquet") if os.path.isfile(file)} == before
    assert [v.version for v in list_versions(DeltaRsTables(str(store)))] == [1]
