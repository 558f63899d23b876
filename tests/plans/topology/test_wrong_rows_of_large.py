"""Errors of a large topology are those of its whole line, though only rows that may be wrong are read."""

import sys
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plans.frames.compiled import WORTH_COMPILING
from penstock.plans.tables import TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.topology import read_topology_tables as columnar
from penstock.plans.topology import validate_transformations as validation
from penstock.plans.topology.topologies_of_lines import topology_id
from penstock.plans.topology.validate_transformations import find_cycle, find_cycle_in_rows
from tests.plans.planners.table_contents import frame_contents

KINDS = ["source", "one_input", "two_input", "union", "partition", "sink", "no such kind", None]


@st.composite
def transformations(draw):
    """Rows of one topology; ids are mostly 1..n, inputs mostly earlier ones."""
    size = draw(st.integers(1, 8))
    ids = st.sampled_from([*range(1, size + 2), None])
    counted = draw(st.booleans())
    rows = []
    for number in range(1, size + 1):
        sources = number == 1 or draw(st.booleans())
        kind = "source" if sources else draw(st.sampled_from(KINDS))
        earlier = st.integers(1, max(number - 1, 1))
        anywhere = st.integers(-1, size + 2)
        inputs = [] if sources else draw(st.lists(st.one_of(earlier, earlier, anywhere), max_size=3))
        rows.append(
            {
                "topology_id": topology_id("job"),
                "id": number if counted else draw(ids),
                "kind": kind,
                "inputs": inputs,
                "parallelism": draw(st.sampled_from([None, None, None, 2, -3])),
                "uid_hash": draw(st.sampled_from([None, None, None, "ab" * 16, "no hash"])),
                "name": draw(st.sampled_from(["", "n"])),
                "partitioner": "hash" if kind == "partition" else None,
            }
        )
    return draw(st.permutations(rows))


def given_columns(rows):
    kinds = {name: TRANSFORMATIONS.field(name).type for name in rows[0]}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def read(rows, names=("job",), large=sys.maxsize):
    with patch.object(columnar, "LARGE", large):
        return columnar.read_topology_tables(pa.table({"name": list(names)}), given_columns(rows))


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.lists(transformations(), min_size=5, max_size=8))
def test_the_errors_are_those_of_whole_lines(topologies):
    """A table of several topologies, one of which has no name, takes as long as one of one."""
    names = ["", *(f"job {number}" for number in range(1, len(topologies)))]
    rows = [
        row | {"topology_id": topology_id(name)}
        for name, of_topology in zip(names, topologies, strict=True)
        for row in of_topology
    ]
    assert frame_contents(read(rows, names, large=0)) == frame_contents(read(rows, names))


def chain(size, **of_one):
    """Rows of a chain; the one in the middle has other values."""
    rows = [
        {
            **dict.fromkeys(of_one),
            "topology_id": topology_id("job"),
            "id": number,
            "kind": "source" if number == 1 else "one_input",
            "inputs": [number - 1] if number > 1 else [],
        }
        for number in range(1, size + 1)
    ]
    rows[size // 2] |= of_one
    return rows


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_cycles_are_those_of_the_walk_over_a_dictionary(data):
    size = data.draw(st.integers(1, 9))
    anywhere = st.integers(-1, size + 2)
    inputs = data.draw(st.lists(st.lists(anywhere, max_size=3), min_size=size, max_size=size))
    starts = np.cumsum([0, *map(len, inputs)])
    read = np.array([number for each in inputs for number in each], np.int32)
    whole = find_cycle(dict(enumerate(inputs, 1)))
    for most in (3, 20):
        assert find_cycle_in_rows(starts, read, most) == whole[:most]


def test_cycles_of_large_topologies_are_found_by_the_compiled_loop():
    size = WORTH_COMPILING
    ring = np.roll(np.arange(1, size + 1, dtype=np.int32), 1)
    starts = np.arange(size + 1)
    assert find_cycle_in_rows(starts, ring, 3) == [1, size, size - 1]
    ring[0] = 0
    assert find_cycle_in_rows(starts, ring, 3) == []


RESOURCES = {
    "cpu_cores": 1.0,
    "task_heap_memory_bytes": 1,
    "task_off_heap_memory_bytes": 1,
    "managed_memory_bytes": 1,
}

WRONG = [
    chain(9, parallelism=-3),
    chain(9, inputs=[9]),
    chain(9, inputs=[2, 99, 9]),
    chain(9, uid_hash="no hash"),
    chain(9, kind="no such kind"),
    chain(9, managed_memory=[("OPERATOR", 1), ("OPERATOR", 2)], slot_scope=["STATE_BACKEND", "Python"]),
    chain(9, min_resources=RESOURCES, preferred_resources=RESOURCES | {"cpu_cores": 0.5}),
    [row | {"uid_hash": "no hash"} for row in chain(9)],
    [row | {"id": 5, "inputs": [number]} for number, row in enumerate(chain(9), 1)],
    chain(9, id=4),
    chain(9, id=None),
    chain(9, id=77),
    [row | {"id": None} for row in chain(9)],
    [row for row in chain(9) if row["id"] not in (3, 7)],
    [row | {"inputs": [row["id"] % 9 + 3]} for row in chain(9) if row["id"] > 2],
    chain(9),
]


def wrong_topologies() -> tuple[pa.Table, pa.Table]:
    """Tables of a topology for each of WRONG, the last of which is right."""
    names = [f"job {number}" for number in range(len(WRONG))]
    nothing = dict.fromkeys(TRANSFORMATIONS.names)
    rows = [
        nothing | row | {"topology_id": topology_id(name)}
        for name, of_topology in zip(names, WRONG, strict=True)
        for row in of_topology
    ]
    configs: list[list[tuple[str, str]]] = [[] for _ in names]
    configs[0] = [("execution.runtime-mode", "no mode")]
    configs[1] = [("a", "b"), ("a", "c")]
    configs[3] = [("execution.runtime-mode", "no mode")]
    given_topologies = pa.table(
        {
            "name": pa.array(names, TOPOLOGIES.field("name").type),
            "config": pa.array(configs, TOPOLOGIES.field("config").type),
        }
    )
    nullable = pa.schema([field.with_nullable(True) for field in TRANSFORMATIONS])
    return given_topologies, pa.Table.from_pylist(rows, nullable)


@pytest.mark.parametrize("large", [0, sys.maxsize])
def test_the_errors_of_large_topologies_are_those_of_whole_lines(large):
    whole = frame_contents(columnar.read_topology_tables(*wrong_topologies()))
    assert len(whole["rejected"]) == len(WRONG) - 1
    with patch.object(columnar, "LARGE", large):
        assert frame_contents(columnar.read_topology_tables(*wrong_topologies())) == whole


def test_errors_beyond_the_first_thousand_are_counted(monkeypatch):
    rows = [{**row, "parallelism": -3, "uid_hash": "no hash"} for row in chain(40, parallelism=-3)]
    whole = read(rows).rejected["errors"].to_list()
    monkeypatch.setattr(validation, "KEPT", 25)
    assert read(rows).rejected["errors"].to_list() == whole
    assert whole[0][-1]["found"] == "60 more errors"
