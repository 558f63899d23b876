"""Giants in blocks are planned as whole topologies are: the same rows, whatever the blocks, without Spark."""

from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.blocks.messages import DRIVER, MESSAGES, Inbox, Message, blocks_stage, packed, parts_of
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import Choices
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.planners.plan_in_parts import plan_columnar
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer
from tests.plans.blocks.in_process import plan_in_blocks
from tests.plans.planners.test_plan_columnar import GOLDEN, _comparable, golden_lines
from tests.reference.random_topologies import MODES, random_topology

BLOCKS = (1, 2, 3, 64)


def differences(topology: dict[str, Any], blocks: int, until: Layer = Layer.SLOTS) -> list[str]:
    """The tables that blocks and the columnar planner do not make alike."""
    tables = read_topologies([topology])
    if len(tables.topologies) != 1:
        return []
    found = plan_in_blocks(tables, blocks, until)
    frames = tables._asdict()
    frames.pop("inputs")
    expected = plan_columnar(frames, until, Choices())
    return [table for table, rows in expected.items() if not is_equal(found.get(table), rows, table)]


def is_equal(found: pa.Table | None, expected: pa.Table, table: str) -> bool:
    if found is None or not len(expected):
        return len(found or ()) == len(expected)
    try:
        assert_frame_equal(*(_comparable(from_arrow(rows), table) for rows in (found, expected)))
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.split(".")[0])
def test_golden_topologies(path):
    every = 1 if len(golden_lines(path)) < 20 else 9
    topologies = [line["topology"] for line in golden_lines(path)[::every]]
    found = {
        topology["name"]: differences(topology, BLOCKS[1:][number % 3])
        for number, topology in enumerate(topologies)
    }
    assert {name: tables for name, tables in found.items() if tables} == {}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(MODES), st.integers(2, 60), st.sampled_from(BLOCKS))
def test_random_topologies(seed, mode, size, blocks):
    assert differences(random_topology(seed, size, mode=mode), blocks) == []


def operators(*kinds_and_inputs: Any, **of_topology: Any) -> dict[str, Any]:
    """A topology of (kind, inputs) or (kind, inputs, more keys)."""
    virtual = ("union", "partition", "side_output")
    rows = [
        {"id": number, "kind": kind}
        | ({} if kind in virtual else {"name": f"n{number}"})
        | ({"inputs": inputs} if inputs else {})
        | dict(*more)
        for number, (kind, inputs, *more) in enumerate(kinds_and_inputs, 1)
    ]
    return {"name": "t", "parallelism": 2, "transformations": rows, **of_topology}


def chain(length: int, **of_last: Any) -> list[tuple[Any, ...]]:
    steps: list[tuple[Any, ...]] = [("source", [])]
    steps += [("one_input", [number], {"name": f"n{number}"}) for number in range(1, length)]
    return [*steps[:-1], (*steps[-1][:2], {**steps[-1][2], **of_last})]


@cache
def hub(readers: int) -> dict[str, Any]:
    """One operator with `readers` outputs and, after those, one with as many inputs."""
    return operators(
        ("source", []),
        ("one_input", [1]),
        *[("one_input", [2], {"name": "r"})] * readers,
        ("union", [*range(3, readers + 3)]),
        ("one_input", [readers + 3]),
        ("sink", [readers + 4], {"name": "k"}),
    )


VIRTUAL = operators(
    ("source", []),
    *[
        ("partition", [number], {"partitioner": "hash" if number % 2 else "rebalance"})
        if number % 3
        else ("side_output", [number], {"tag": f"tag{number}"})
        for number in range(1, 1001)
    ],
    ("one_input", [1001]),
    ("union", [500, 1001, 700]),
    ("one_input", [1003]),
    ("sink", [1004], {"name": "k"}),
)
SELF_UNIONS = operators(
    ("source", []),
    ("one_input", [1]),
    ("union", [2, 2]),
    ("union", [3, 3, 1]),
    ("partition", [4], {"partitioner": "hash"}),
    ("union", [5, 4]),
    ("one_input", [6]),
    ("sink", [7], {"name": "k"}),
)
READ_SINK = operators(
    ("source", []), ("sink", [1], {"name": "k"}), ("union", [2, 1]), ("one_input", [3]), ("one_input", [2])
)
UNREAD = operators(
    ("source", []), ("source", []), ("one_input", [2]), ("source", []), ("sink", [3], {"name": "k"})
)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize(
    "topology",
    [VIRTUAL, SELF_UNIONS, UNREAD, operators(*chain(200)), hub(300)],
    ids=["virtual chain", "self-unions", "unread sources", "chain", "hub"],
)
def test_shapes_that_cross_blocks(topology, blocks):
    assert not plan_in_process([topology]).rejected
    assert differences(topology, blocks) == []


def test_an_overridden_parallelism():
    planned = plan_in_blocks(read_topologies([SELF_UNIONS]), 1)
    overridden = {planned["job_vertices"]["vertex_id"][0].as_py(): 7, "0" * 32: 3}
    config = {"pipeline.jobvertex-parallelism-overrides": ",".join(f"{k}:{v}" for k, v in overridden.items())}
    assert differences({**SELF_UNIONS, "config": config}, 3) == []


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [3, 64])
def test_a_hub_of_a_hundred_thousand_edges(blocks):
    assert differences(hub(100_000), blocks) == []


@pytest.mark.parametrize("until", list(Layer))
def test_until_a_layer(until):
    assert differences(SELF_UNIONS, 3, until) == []


REFUSED = {
    "uids": operators(
        *[(kind, inputs, {"uid": f"u{number % 60}"}) for number, (kind, inputs, *_) in enumerate(chain(90))]
    ),
    "empty name": operators(*chain(90, uid="")),
    "forward": operators(
        *chain(80),
        ("partition", [80], {"partitioner": "forward"}),
        ("one_input", [81], {"parallelism": 3}),
        ("partition", [20], {"partitioner": "forward"}),
        ("one_input", [83], {"parallelism": 5}),
    ),
    "max parallelism": operators(*chain(90, parallelism=40, max_parallelism=30)),
    "parallelism": operators(*chain(90, parallelism=40_000)),
    "missing uid": operators(
        *[
            (kind, inputs, {"uid": f"u{n}"} if n != 70 else {})
            for n, (kind, inputs, *_) in enumerate(chain(90))
        ],
        config={"pipeline.auto-generate-uids": "false"},
    ),
    "source without uid": operators(
        ("source", [], {"uid": "a"}),
        ("source", []),
        *[("one_input", [n], {"uid": f"u{n}"}) for n in range(2, 60)],
        ("one_input", [1], {"uid": "b"}),
        config={"pipeline.auto-generate-uids": "false"},
    ),
    "too many inputs": operators(*chain(80), ("multi_input", [*range(1, 66)], {"name": "m"})),
}


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("which", REFUSED)
def test_a_refusal_in_one_block_only(which, blocks):
    tables = read_topologies([REFUSED[which]])
    found = plan_in_blocks(tables, blocks)
    assert list(found) == ["rejected"]
    assert len(found["rejected"]) == 1
    assert differences(REFUSED[which], blocks) == []


def test_messages_for_others_pass_a_stage():
    rows = from_arrow(pa.table({TOPOLOGY: [1, 2]}))
    given = [
        batch
        for message in (Message(DRIVER, "said", rows), Message(0, "of block", rows))
        for batch in packed(message, 7)
    ]

    def stage(block: int, inbox: Inbox) -> Any:
        assert (block, inbox.has("of block"), inbox.has("said")) == (0, True, False)
        yield Message(3, "on", inbox.one("of block"))

    passed = list(blocks_stage(stage)(given))
    assert all(batch.schema == MESSAGES for batch in passed)
    assert [row[:4] for batch in passed for row in parts_of(batch)] == [
        (DRIVER, "said", 7, 0),
        (3, "on", 0, 0),
    ]
