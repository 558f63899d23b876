"""Giants in blocks are planned as whole topologies are, whatever the blocks: without Spark.

test_given_rows.py has the errors of given rows.
"""

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
from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.planners.plan_in_parts import plan_columnar
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Kind, Layer
from tests.passes.fixtures import RULES, read_cases
from tests.passes.topologies import topology_of
from tests.plans.blocks.in_process import plan_in_blocks
from tests.plans.blocks.shapes import doubling_unions, graph_with_gaps
from tests.plans.planners.test_plan_columnar import GOLDEN, _comparable, golden_lines
from tests.reference.random_topologies import MODES, random_topology

BLOCKS = (1, 2, 3, 64)


def differences(topology: dict[str, Any], blocks: int, until: Layer = Layer.SLOTS) -> list[str]:
    """The tables that blocks and the columnar planner do not make alike."""
    tables = read_topologies([topology])
    caches = tables.transformations["kind"] == Kind.CACHE
    if len(tables.topologies) != 1 or caches.any():  # workers plan topologies with caches whole
        return []
    found = plan_in_blocks(tables, blocks, PlanOptions(until))
    frames = tables._asdict()
    frames.pop("inputs")
    expected = plan_columnar(frames, PlanOptions(until))
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
@pytest.mark.parametrize(
    "path",
    [path for path in GOLDEN if not path.name.startswith("passes")],
    ids=lambda path: path.name.split(".")[0],
)
def test_golden_topologies(path):
    every = 1 if len(golden_lines(path)) < 20 else 9
    topologies = [line["topology"] for line in golden_lines(path)[::every]]
    found = {
        topology["name"]: differences(topology, BLOCKS[1:][number % 3])
        for number, topology in enumerate(topologies)
    }
    assert {name: tables for name, tables in found.items() if tables} == {}


@pytest.mark.slow
def test_topologies_of_the_fixtures_of_all_passes():
    cases = [case for entry in RULES for case in read_cases(entry.produces)]
    found = {case.name: differences(topology_of(case), BLOCKS[1 + n % 3]) for n, case in enumerate(cases)}
    assert {name: tables for name, tables in found.items() if tables} == {}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
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
SINKS = operators(
    ("source", []),
    ("legacy_source", []),
    *[
        step
        for first in range(3, 93, 6)
        for step in (
            ("union", [1, 2]),
            ("partition", [first], {"partitioner": "hash"}),
            ("side_output", [first], {"tag": "late"}),
            ("sink", [first + 1], {"name": f"k{first}", "uid": f"k{first}", "writer": {}, "committer": {}}),
            ("one_input", [first + 1 if first % 12 else first + 2], {"name": f"m{first}"}),
            (
                "sink",
                [first + 2],
                {
                    "name": f"g{first}",
                    "writer": {},
                    "pre_write": [
                        {"kind": "partition", "partitioner": "rebalance"},
                        {"kind": "one_input", "name": "s", "slot_sharing_group": "b"},
                    ],
                    "committer": {},
                    "global_committer": True,
                },
            ),
        )
    ],
)
"""Sinks become several operators, with ids after all others. Virtual transformations draw ids when they are
first read, in whichever block."""
RESOURCES = {"cpu_cores": 1.0, "task_heap_memory_bytes": 1024}
RARE = operators(
    ("source", [], {"node_id": 500, "bounded": True}),
    ("legacy_source", [], {"registered": True, "bounded": True, "description": "unread"}),
    ("cache_read", [], {"name": "c", "data_set": "ab" * 16, "node_id": 2_000_000_000}),
    ("partition", [1], {"partitioner": "rescale", "unaligned_checkpoints": False, "node_id": -7}),
    ("partition", [3], {"partitioner": "hash", "node_id": 1}),
    ("side_output", [4], {"tag": "late", "node_id": -8}),
    *[
        step
        for first in range(7, 67, 6)
        for step in (
            ("one_input", [4 if first % 4 else 5], {"node_id": 1_000 - first, "output_type": "Long"}),
            ("union", [first, 6]),
            (
                "two_input",
                [5, first + 1],
                {"keyed": [False, True], "operator_factory": "F", "function_class": "a.F", "node_id": first},
            ),
            (
                "async",
                [first],
                {
                    "parallelism": 3,
                    "parallelism_configured": bool(first % 4),
                    "supports_concurrent_execution_attempts": False,
                    "operator_class": "a.O",
                    "slot_sharing_group": f"g{first % 3}",
                    "slot_resources": RESOURCES,
                },
            ),
            ("partition", [first + 3], {"partitioner": "hash", "node_id": 2_000 + first}),
            (
                "sink",
                [first + 4],
                {
                    "name": f"k{first}",
                    "node_id": 4_000 - first,
                    **(
                        {"writer": {}, "committer": {}, "parallelism": 2, "parallelism_configured": False}
                        if first % 12 == 1
                        else {}
                    ),
                },
            ),
        )
    ],
)
"""Each key of `details`, beside and across the ends of blocks; node ids in no order, among and above ids."""
UNREAD = operators(
    ("source", []), ("source", []), ("one_input", [2]), ("source", []), ("sink", [3], {"name": "k"})
)


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize(
    "topology",
    [
        VIRTUAL,
        SELF_UNIONS,
        UNREAD,
        READ_SINK,
        SINKS,
        RARE,
        operators(*chain(200)),
        hub(300),
        graph_with_gaps(100),
        graph_with_gaps(101, parallelism=3),
    ],
    ids=[
        *("virtual chain", "self-unions", "unread sources", "a sink that is read", "sinks", "rare keys"),
        *("chain", "hub"),
        *("stream graph", "another stream graph"),
    ],
)
def test_shapes_that_cross_blocks(topology, blocks):
    assert not plan_in_process([topology]).rejected
    assert differences(topology, blocks) == []


def test_rare_keys_in_a_batch():
    assert differences(RARE | {"config": {"execution.runtime-mode": "BATCH"}}, 3) == []


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
    for topology in (SELF_UNIONS, SINKS, RARE, graph_with_gaps(70), doubling_unions(50)):
        assert differences(topology, 3, until) == []


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
    "uids of sinks": operators(
        *chain(70, uid="Sink Committer: u"),
        ("sink", [3], {"name": "k", "uid": "u", "writer": {}, "committer": {}}),
    ),
    "a step with a uid": operators(
        *chain(70),
        (
            "sink",
            [3],
            {"name": "k", "writer": {}, "pre_write": [{"kind": "one_input", "name": "s", "uid": "u"}]},
        ),
    ),
    "hybrid in streaming": operators(
        *chain(80),
        ("partition", [80], {"partitioner": "shuffle", "exchange_mode": "HYBRID_FULL"}),
        ("sink", [81], {"name": "k"}),
    ),
    "hybrid beside groups": operators(
        ("source", [], {"slot_sharing_group": "g"}),
        *[("one_input", [number]) for number in range(1, 80)],
        ("partition", [80], {"partitioner": "shuffle", "exchange_mode": "HYBRID_FULL"}),
        ("sink", [81], {"name": "k", "slot_sharing_group": "h"}),
        config={"execution.runtime-mode": "BATCH"},
    ),
    "buffer timeout": graph_with_gaps(90, global_exchange_mode="ALL_EDGES_BLOCKING"),
    "weights": operators(
        *[
            (
                kind,
                inputs,
                {"name": f"n{n}", "chaining": "NEVER", "managed_memory": {"OPERATOR": 2**31 - 1 - n}},
            )
            for n, (kind, inputs, *_) in enumerate(chain(80))
        ],
    ),
    "tasks": operators(
        *[
            (kind, inputs, {"name": f"n{n}", "parallelism": 30_000})
            for n, (kind, inputs, *_) in enumerate(chain(40))
        ],
        *[
            step
            for n in range(41, 441, 2)
            for step in (
                ("partition", [n - 1], {"partitioner": "rebalance"}),
                ("one_input", [n], {"name": f"w{n}", "parallelism": 30_000}),
            )
        ],
        ("union", [*range(42, 442, 2)] * 12),
        ("sink", [441], {"name": "k", "parallelism": 30_000}),
    ),
    "co-location": operators(
        ("source", [], {"slot_sharing_group": "a", "co_location_group": "c"}),
        *[("one_input", [number]) for number in range(1, 80)],
        ("one_input", [80], {"slot_sharing_group": "b", "co_location_group": "c"}),
    ),
    "cached file": operators(*chain(70), config={"pipeline.cached-files": "name:a"}),
    "unions": doubling_unions(60),
    "slot resources": operators(
        ("source", [], {"node_id": 700}),
        *[
            (
                "one_input",
                [n],
                {"slot_sharing_group": f"g{n % 2}", "slot_resources": RESOURCES, "uid": f"u{n}"},
            )
            for n in range(1, 80)
        ],
        (
            "one_input",
            [80],
            {"slot_sharing_group": "g0", "slot_resources": RESOURCES | {"cpu_cores": 2.0}, "node_id": 900},
        ),
        ("one_input", [40], {"slot_sharing_group": "g0", "slot_resources": RESOURCES}),
    ),
    "missing uid beside node ids": operators(
        ("source", [], {"node_id": 300}),
        *[("one_input", [n], {"uid": f"u{n}", "node_id": 400 - n}) for n in range(1, 80)],
        ("one_input", [1], {"uid": "b"}),
        config={"pipeline.auto-generate-uids": "false"},
    ),
    "too many inputs": operators(*chain(80), ("multi_input", [*range(1, 66)], {"name": "m"})),
}


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("which", REFUSED)
def test_a_refusal_in_one_block_only(which, blocks):
    found = plan_in_blocks(read_topologies([REFUSED[which]]), blocks)
    assert list(found) == ["rejected"]
    assert len(found["rejected"]) == 1
    assert differences(REFUSED[which], blocks) == []


def test_what_refuses_comes_first_of_all_blocks():
    """Each has several reasons in several blocks: Flink's first is the only one."""
    wrong = {4: {"parallelism": 3}, 60: {"parallelism": 5}}
    steps = [
        ("partition", [n], {"partitioner": "forward"}) if n % 2 else ("one_input", [n], wrong.get(n, {}))
        for n in range(1, 90)
    ]
    topology = operators(("source", []), *steps)
    for blocks in BLOCKS:
        assert differences(topology, blocks) == []
    assert "n5-5" in plan_in_blocks(read_topologies([topology]), 64)["rejected"]["message"][0].as_py()


def test_an_option_that_the_first_reader_of_a_source_reads():
    """The reader is an operator of a sink, and in another block than the source."""
    sink = {"name": "k", "uid": "u", "writer": {}, "committer": {}}
    config = {"pipeline.auto-generate-uids": "false"}
    steps = [("one_input", [2], {"uid": f"u{n}"}) for n in range(3, 70)]
    topology = operators(
        ("source", []), ("source", [], {"uid": "s"}), *steps, ("sink", [1], sink), config=config
    )
    for blocks in BLOCKS:
        assert differences(topology, blocks) == []


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
