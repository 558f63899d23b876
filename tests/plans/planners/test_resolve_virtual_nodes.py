"""Edges through virtual transformations, wherever their rows stand and however many there are."""

import polars as pl
import pytest

from penstock.plans.frames import compiled
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.stream_graph.resolve_virtual_nodes import resolve_virtual_nodes
from tests.reference.random_topologies import MODES, random_topology

VIRTUAL = ("union", "partition", "side_output", "select")


def sources(topology, node):
    """The operators that a transformation stands for, in the order of the inputs."""
    transformation = topology["transformations"][node - 1]
    if transformation["kind"] in VIRTUAL:
        return [s for i in transformation["inputs"] for s in sources(topology, i)]
    return [] if transformation["kind"] == "sink" else [node]


def edges(topology):
    """(target, in_index, source) of each edge."""
    for transformation in topology["transformations"]:
        if transformation["kind"] not in VIRTUAL:
            of_inputs = [s for i in transformation.get("inputs", ()) for s in sources(topology, i)]
            yield from ((transformation["id"], number, source) for number, source in enumerate(of_inputs))


@pytest.fixture(scope="module")
def topologies():
    """Some with unions of unions, and with a sink as an input."""
    made = [random_topology(seed, 5 + seed, mode=MODES[seed % 4]) for seed in range(40)]
    for topology in made[::2]:
        rows = topology["transformations"]
        count = len(rows)
        sink = next((row["id"] for row in rows if row["kind"] == "sink"), 1)
        rows.append({"id": count + 1, "kind": "union", "inputs": [count, sink, 1]})
        rows.append({"id": count + 2, "kind": "union", "inputs": [count + 1, 1, count + 1]})
        rows.append({"id": count + 3, "kind": "sink", "name": "both", "inputs": [count + 2]})
    return made


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "as it is"])
def test_edges_come_in_the_order_of_inputs(topologies, least, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_COMPILING", least)
    monkeypatch.setattr(compiled, "WORTH_RUNNING", least)
    tables = read_topologies(topologies)
    found = resolve_virtual_nodes(tables.transformations)
    names = dict(tables.topologies.select("topology_id", "name").iter_rows())
    rows = [
        (names[t], *edge)
        for t, *edge in found.select("topology_id", "target", "in_index", "source").iter_rows()
    ]
    planned = [topology for topology in topologies if topology["name"] in names.values()]
    assert sorted(rows) == sorted((t["name"], *edge) for t in planned for edge in edges(t))
    of_one = rows[: next(n for n, row in enumerate(rows) if row[0] != rows[0][0])]
    assert of_one == sorted(of_one)


def test_rows_may_stand_in_any_order(topologies):
    transformations = read_topologies(topologies).transformations
    shuffled = transformations.sample(fraction=1, shuffle=True, seed=1)
    found = resolve_virtual_nodes(shuffled)
    in_order = resolve_virtual_nodes(transformations)
    assert found.drop("source_row", "target_row").equals(
        in_order.drop("source_row", "target_row").sort("topology_id", maintain_order=True)
    )
    for end in ("source", "target"):
        assert shuffled["id"].gather(found[f"{end}_row"]).equals(found[end], check_names=False)


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "as it is"])
def test_ways_without_number_are_no_edges(least, monkeypatch):
    """Each union doubles them: 2 to the power of 70 of them, which no integer holds."""
    monkeypatch.setattr(compiled, "WORTH_COMPILING", least)
    monkeypatch.setattr(compiled, "WORTH_RUNNING", least)
    rows = [{"id": 1, "kind": "source", "inputs": []}]
    rows += [{"id": i, "kind": "union", "inputs": [i - 1, i - 1]} for i in range(2, 72)]
    transformations = pl.DataFrame(
        [{"topology_id": 1, **row} for row in rows],
        schema={"topology_id": pl.Int64, "id": pl.Int32, "kind": pl.String, "inputs": pl.List(pl.Int32)},
    )
    with pytest.raises(MemoryError, match="unions of unions"):
        resolve_virtual_nodes(transformations)
