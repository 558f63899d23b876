"""count_network_buffers and task_network_buffers, against Flink.

Flink's InputGateSpecUtils and NettyShuffleUtils said the figures (see FlinkResources.java).
"""

from dataclasses import asdict

import polars as pl
import pytest

from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import PlanOptions
from penstock.plans.resources.memory_and_buffers import (
    FLINK_1_20,
    FLINK_2_3,
    PROFILES,
    NetworkOptions,
    slot_network_buffers,
    task_network_buffers,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import BufferSide
from tests.passes.frames import OF_DATA_SETS, derive_in_process, make_polars
from tests.plans.resources.flink_resources import rows

NEAR, FAR = 1, 2
FIGURES = ("required", "target", "announced")


def gate(kind, number=1):
    """The task NEAR reads FAR."""
    return {
        "topology_id": number,
        "source_vertex": FAR,
        "target_vertex": NEAR,
        "result_partition_type": kind,
    }


def partition(kind, number=1):
    """The task NEAR writes for FAR."""
    return gate(kind, number) | {"source_vertex": NEAR, "target_vertex": FAR}


def edges_of(row, number):
    """One edge of all channels that a row of kind gate or partition has, or the edges of a task."""
    match row["kind"]:
        case "gate":
            return [(gate(row["type"], number), row["channels"])]
        case "partition":
            return [(partition(row["type"], number), row["channels"])]
    inputs = [
        (gate(kind, number) | {"source_vertex": 10 + i, "input_index": i}, channels)
        for i, (kind, channels) in enumerate(row["inputs"])
    ]
    outputs = [
        (partition(kind, number) | {"target_vertex": 20 + i, "output_index": i}, channels)
        for i, (kind, channels) in enumerate(row["outputs"])
    ]
    return inputs + outputs


def tables(make, numbered):
    """A topology for each row, with the task NEAR and what it is connected with."""
    edges, vertices = [], []
    for number, row in numbered.items():
        parallelism = {NEAR: 1}
        for edge, channels in edges_of(row, number):
            far_end = edge["target_vertex"] if edge["source_vertex"] == NEAR else edge["source_vertex"]
            parallelism[far_end] = channels
            edges.append(edge)
        vertices += [{TOPOLOGY: number, "vertex": v, "parallelism": p} for v, p in parallelism.items()]
    order = {row["vertex"]: place for place, row in enumerate(vertices)}
    named = [
        {key: row[key] for key in (TOPOLOGY, "vertex")} | {"topological_order": order[row["vertex"]]}
        for row in vertices
    ]
    return {
        "job_vertices": make("job_vertices", named),
        "execution_job_vertices": make("execution_job_vertices", vertices),
        "connected_edges": make(OF_DATA_SETS, edges, distribution="ALL_TO_ALL"),
    }


@pytest.fixture(scope="module")
def numbered():
    return dict(enumerate([*rows("gate"), *rows("partition"), *rows("task")]))


@pytest.fixture(scope="module")
def numbers_by_choices(numbered):
    found: dict[PlanOptions, list[int]] = {}
    for number, row in numbered.items():
        found.setdefault(PlanOptions(network=NetworkOptions(**row["options"])), []).append(number)
    return found


@pytest.fixture(scope="module")
def columnar(numbered, numbers_by_choices):
    return derive_in_process("network_buffers", tables(make_polars, numbered), numbers_by_choices)


@pytest.mark.parametrize("kind", ["gate", "partition"])
def test_every_figure_is_flinks(numbered, kind, columnar):
    side = {"gate": BufferSide.GATE, "partition": BufferSide.RESULT_PARTITION}[kind]
    expected = {number: row for number, row in numbered.items() if row["kind"] == kind}
    found = {
        row[TOPOLOGY]: row
        for row in columnar
        if row[TOPOLOGY] in expected and row["vertex"] == NEAR and row["side"] == side
    }
    assert found.keys() == expected.keys()
    for number, row in expected.items():
        figures = ("channels", *FIGURES, *(["exclusive_per_channel"] if kind == "gate" else []))
        assert [found[number][figure] for figure in figures] == [row[figure] for figure in figures], row
        assert found[number]["overdraft"] == (20 if row.get("overdraft") else 0), row


def test_what_a_task_announces_is_flinks(columnar, numbered):
    tasks = {number: row for number, row in numbered.items() if row["kind"] == "task"}
    vertices = make_polars("job_vertices", [{TOPOLOGY: number, "vertex": NEAR} for number in tasks])
    buffers = pl.DataFrame([row for row in columnar if row["vertex"] == NEAR], infer_schema_length=None)
    found = task_network_buffers(buffers, vertices)
    expected = [
        (n, len(row["inputs"]), len(row["outputs"]), row["announced"], in_bytes(row["announced"]))
        for n, row in tasks.items()
    ]
    columns = (TOPOLOGY, "gates", "result_partitions", "announced", "announced_bytes")
    assert sorted(found.select(columns).rows()) == expected


def in_bytes(buffers):
    return None if buffers is None else buffers * 32768


def test_defaults_are_flinks():
    """Those of 1.20 as well: NettyShuffleEnvironmentOptions 1.20.0."""
    (defaults,) = rows("defaults")
    assert {name: defaults[name] for name in asdict(FLINK_2_3)} == asdict(FLINK_2_3)
    assert PROFILES == {"flink-2.3": FLINK_2_3, "flink-1.20": FLINK_1_20}
    assert asdict(FLINK_1_20) == asdict(NetworkOptions(2, 8, None, 1, 512, 5, 32768))


def test_tasks_and_slots_add_up():
    """Vertex 3 is in a group of its own, 9 has no edges; hybrid partitions are announced by nobody."""
    edges = [
        {"source_vertex": 1, "target_vertex": 2, "result_partition_type": "PIPELINED_BOUNDED"},
        {"source_vertex": 2, "target_vertex": 3, "result_partition_type": "HYBRID_FULL"},
    ]
    parallelism = {1: 4, 2: 6, 3: 1, 9: 1}
    vertices = make_polars(
        "job_vertices",
        [
            {"vertex": v, "topological_order": place, "slot_sharing_group": int(v == 3)}
            for place, v in enumerate(parallelism)
        ],
    )
    given = {
        "job_vertices": vertices,
        "execution_job_vertices": make_polars(
            "execution_job_vertices", [{"vertex": v, "parallelism": p} for v, p in parallelism.items()]
        ),
        "connected_edges": make_polars(OF_DATA_SETS, edges, distribution="ALL_TO_ALL"),
    }
    buffers = pl.DataFrame(derive_in_process("network_buffers", given), infer_schema_length=None)
    options = NetworkOptions(segment_size_bytes=4096)
    tasks = task_network_buffers(buffers, vertices, network=options)
    figures = ("required", "target", "announced", "required_bytes", "announced_bytes")
    of_tasks = [
        (1, 0, 0, 1, 7, 20, 20, 7 * 4096, 20 * 4096),
        (2, 0, 1, 1, 9 + 2, None, None, 11 * 4096, None),
        (3, 1, 1, 0, 13, 20, 20, 13 * 4096, 20 * 4096),
        (9, 0, 0, 0, 0, 0, 0, 0, 0),
    ]
    columns = ("vertex", "slot_sharing_group", "gates", "result_partitions", *figures)
    assert sorted(tasks.select(columns).rows(), key=lambda row: row[0]) == of_tasks
    of_slots = [
        (0, 3, 18, None, None, 18 * 4096, None),
        (1, 1, 13, 20, 20, 13 * 4096, 20 * 4096),
    ]
    slots = slot_network_buffers(tasks, network=options)
    found = slots.select("slot_sharing_group", "vertices", *figures).rows()
    assert sorted(found, key=lambda row: row[0]) == of_slots


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"buffers_per_channel": -1}, "buffers_per_channel"),
        ({"floating_buffers_per_gate": 0}, "floating_buffers_per_gate"),
        ({"max_required_buffers_per_gate": 0}, "max_required_buffers_per_gate"),
        ({"sort_shuffle_min_buffers": 0}, "sort_shuffle_min_buffers"),
        ({"segment_size_bytes": 2048}, "segment_size_bytes"),
        ({"segment_size_bytes": 40000}, "power of two"),
        ({"buffers_per_channel": 65536}, r"buffers_per_channel \* 32768"),
    ],
)
def test_options_that_flink_refuses_are_refused(options, word):
    with pytest.raises(ConfigurationError, match=word):
        NetworkOptions(**options)
