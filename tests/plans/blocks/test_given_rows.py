"""Given rows in blocks: the errors, fingerprints and settings of whole topologies, without Spark."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_in_parts import plan_columnar
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology import fingerprint
from penstock.plans.topology import read_topology_tables as columnar
from penstock.plans.topology.normalized_tables import (
    given_columns,
    normalized_topologies,
    normalized_transformations,
)
from penstock.plans.topology.topologies_of_lines import topology_id
from penstock.plans.vocabulary import Layer
from tests.plans.blocks.in_process import plan_given_in_blocks
from tests.plans.blocks.test_stages import BLOCKS, RARE, SINKS, chain, operators
from tests.plans.planners.table_contents import rows_of
from tests.plans.planners.test_read_topology_tables import (
    as_tables,
    changed,
    with_rows,
    with_wrong_ids_and_names,
    with_wrong_rows,
)
from tests.plans.topology.builders import every_setting, simple
from tests.plans.topology.test_wrong_rows_of_large import given_columns as table_of
from tests.plans.topology.test_wrong_rows_of_large import transformations, wrong_topologies

Tables = tuple[pa.Table, pa.Table]


@pytest.fixture(autouse=True)
def _blocks_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest is of one row, so that blocks may begin anywhere."""
    for module in (fingerprint, columnar):
        monkeypatch.setattr(module, "BLOCK", 1)


def differences(tables: Tables, blocks: int, until: Layer = Layer.JOB_GRAPH) -> dict[int, list[str]]:
    """topology_id to the tables that blocks and the columnar planner do not make alike."""
    topologies = normalized_topologies(given_columns(tables[0].schema, [tables[0]]))
    rows = normalized_transformations(given_columns(tables[1].schema, [tables[1]]))
    found = {}
    for number in sorted(set(rows[TOPOLOGY].drop_nulls())):
        topology, own = (frame.filter(pl.col(TOPOLOGY) == number) for frame in (topologies, rows))
        size = -(-len(own) // blocks)
        starts = (*range(1, len(own) + 1, size), len(own) + 1)
        planned = plan_given_in_blocks(number, topology, own, starts, until)
        read = columnar._validated(topology, own, [] if len(topology) else [number])._asdict()
        read.pop("inputs")
        expected = plan_columnar(read, PlanOptions(until))
        found[number] = [
            table
            for table, of_table in expected.items()
            if rows_of(of_table) != (rows_of(planned[table]) if table in planned else [])
        ]
    return found


def equal(tables: Tables, blocks: int) -> bool:
    return not any(differences(tables, blocks).values())


@pytest.mark.parametrize("blocks", BLOCKS)
def test_wrong_rows_ids_and_names(blocks):
    for tables in (with_wrong_rows(), with_wrong_ids_and_names(), wrong_topologies()):
        assert equal(tables, blocks)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_right_rows(blocks):
    """Sinks to expand are checked one by one; unbounded sources are read through other blocks."""
    config = {"execution.runtime-mode": "AUTOMATIC"}
    unbounded = operators(
        ("legacy_source", []),
        *[("union", [number, number]) for number in range(1, 6)],
        ("one_input", [6]),
        config=config,
    )
    unread = operators(
        ("legacy_source", []), ("union", [1, 1]), ("source", []), ("one_input", [3]), config=config
    )
    given = [every_setting(), simple("a"), {**SINKS, "name": "sinks"}]
    given += [{**unbounded, "name": "unbounded"}, {**unread, "name": "unread"}]
    bounds: list[Any] = [("source", [], {"bounded": False}), ("legacy_source", [], {"bounded": True})]
    given += [
        {
            **operators(*bounds, *(("one_input", [n], {}) for n in range(1, 9)), config=config),
            "name": "bounds",
        }
    ]
    given += [{**RARE, "name": "rare keys"}]
    assert equal(as_tables(given), blocks)


WRONG: dict[str, dict[str, Any]] = {
    "range": {"parallelism": 0},
    "no id": {"id": None},
    "an id twice": {"id": 50},
    "an id beyond": {"id": 10_000},
    "an id below": {"id": -3},
    "dangling": {"inputs": [9_999]},
    "forward": {"inputs": [79]},
    "a cycle": {"inputs": [75]},
    "uid hash": {"uid_hash": "no hash"},
    "kind": {"kind": "no kind"},
    "a sink": {"sink_topology": '{"writer":{"x":1}}'},
    "a node id that an id is": {"details": '{"node_id": 3}'},
    "a node id twice": {"details": '{"node_id":900}'},
    "node ids": {"details": '{ "node_id": 901 }'},
}


@pytest.mark.parametrize("blocks", [2, 3, 64])
def test_wrong_rows_in_one_block_only(blocks):
    """Of several blocks, only one has an error, or the two ends of one."""
    given = [{**operators(*chain(80)), "name": name} for name in WRONG]
    topologies, rows = as_tables(given)
    for name, columns in WRONG.items():
        rows = changed(rows, name, 71, **columns)
    rows = changed(rows, "a node id twice", 5, details='{"node_id":900}')
    rows = changed(rows, "node ids", 5, details='{"node_id":71}')
    assert equal((topologies, rows), blocks)


def test_only_the_first_of_many_errors_are_listed():
    (topologies, rows), name = as_tables([{**operators(*chain(90)), "name": "many"}]), "many"
    wrong = with_rows(rows, [{**row, "parallelism": 0} for row in rows.to_pylist()])
    assert equal((topologies, wrong), 4)
    assert topology_id(name) == rows[TOPOLOGY][0].as_py()


def orphans() -> Iterator[Tables]:
    """Tables in which the topology has no row, two rows, and a wrong one beside wrong transformations."""
    topologies, rows = as_tables([simple("a")])
    yield topologies.slice(0, 0), rows
    yield pa.concat_tables([topologies, topologies]), rows
    wrong = changed(rows, "a", 2, parallelism=0)
    values = topologies.to_pylist()
    yield with_rows(topologies, [{**values[0], "parallelism": 0}]), wrong
    yield with_rows(topologies, [{**values[0], "config": [("x", "1"), ("x", "2")]}]), rows
    yield with_rows(topologies, [{**values[0], "config": [("execution.runtime-mode", "FOO")]}]), rows


@pytest.mark.parametrize("blocks", [1, 3])
def test_rows_of_the_table_topologies(blocks):
    for tables in orphans():
        assert equal(tables, blocks)


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(transformations(), st.sampled_from([1, 2, 3, 64]))
def test_random_rows(rows, blocks):
    with pytest.MonkeyPatch.context() as patched:
        for module in (fingerprint, columnar):
            patched.setattr(module, "BLOCK", 1)
        assert equal((pa.table({"name": ["job"]}), table_of(rows)), blocks)
