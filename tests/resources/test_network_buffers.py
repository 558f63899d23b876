"""count_network_buffers and task_network_buffers against InputGateSpecUtils and NettyShuffleUtils."""

from dataclasses import asdict
from functools import reduce

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.planning.planning_settings import planning_settings
from plans.errors import ConfigurationError
from plans.joins.spark_schemas import conform
from plans.resources.joins.count_network_buffers import count_network_buffers
from plans.resources.joins.task_network_buffers import slot_network_buffers, task_network_buffers
from plans.resources.network_options import FLINK_1_20, FLINK_2_3, PROFILES, NetworkOptions
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import BufferSide
from tests.passes.frames import assert_rows, make_frame
from tests.resources.flink_resources import rows

EDGES = (
    "topology_id BIGINT, source_vertex INT, target_vertex INT, input_index INT, output_index INT, "
    "consumer_index INT, distribution STRING, result_partition_type STRING, options INT"
)
NEAR, FAR = 1, 2
FIGURES = ("required", "target", "announced")


def tables(spark, edges, parallelism):
    """`parallelism`: (topology_id, vertex) to subtasks."""
    vertices = [{TOPOLOGY: t, "vertex": v, "parallelism": p} for (t, v), p in parallelism.items()]
    return (
        make_frame(spark, EDGES, edges, distribution="ALL_TO_ALL", input_index=0, output_index=0),
        make_frame(spark, "execution_job_vertices", vertices),
    )


def counted(spark, edges, parallelism, options=FLINK_2_3):
    return count_network_buffers(*tables(spark, edges, parallelism), options=options)


def gate(kind, number=1):
    """The task NEAR reads FAR."""
    return {
        "topology_id": number,
        "source_vertex": FAR,
        "target_vertex": NEAR,
        "consumer_index": 0,
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


@pytest.fixture(scope="module")
def numbered():
    return dict(enumerate([*rows("gate"), *rows("partition"), *rows("task")]))


@pytest.fixture(scope="module")
def buffers(spark, numbered):
    """The buffers of task NEAR, a topology for each row; one pass for each of the options."""
    edges, parallelism = [], {}
    of_options: dict[NetworkOptions, int] = {}
    for number, row in numbered.items():
        group = of_options.setdefault(NetworkOptions(**row["options"]), len(of_options))
        parallelism[number, NEAR] = 1
        for edge, channels in edges_of(row, number):
            far_end = edge["target_vertex"] if edge["source_vertex"] == NEAR else edge["source_vertex"]
            parallelism[number, far_end] = channels
            edges.append(edge | {"options": group})
    with planning_settings(spark, 2):
        edge_rows, vertex_rows = (frame.localCheckpoint() for frame in tables(spark, edges, parallelism))
        counted = [
            count_network_buffers(edge_rows.filter(F.col("options") == group), vertex_rows, options=options)
            for options, group in of_options.items()
        ]
        all_rows = conform(reduce(DataFrame.union, counted), "network_buffers")
        return all_rows.filter(F.col("vertex") == NEAR).localCheckpoint()


@pytest.mark.parametrize("kind", ["gate", "partition"])
def test_every_figure_is_flinks(buffers, numbered, kind):
    side = {"gate": BufferSide.GATE, "partition": BufferSide.RESULT_PARTITION}[kind]
    expected = {number: row for number, row in numbered.items() if row["kind"] == kind}
    found = {
        row[TOPOLOGY]: row
        for row in buffers.filter(F.col("side") == side.value).collect()
        if row[TOPOLOGY] in expected
    }
    assert found.keys() == expected.keys()
    for number, row in expected.items():
        figures = ("channels", *FIGURES, *(["exclusive_per_channel"] if kind == "gate" else []))
        assert [found[number][figure] for figure in figures] == [row[figure] for figure in figures], row
        assert found[number]["overdraft"] == (20 if row.get("overdraft") else 0), row


def test_what_a_task_announces_is_flinks(spark, buffers, numbered):
    tasks = {number: row for number, row in numbered.items() if row["kind"] == "task"}
    vertices = make_frame(spark, "job_vertices", [{TOPOLOGY: n, "vertex": NEAR} for n in tasks])
    expected = [
        (n, len(row["inputs"]), len(row["outputs"]), row["announced"], in_bytes(row["announced"]))
        for n, row in tasks.items()
    ]
    columns = "topology_id gates result_partitions announced announced_bytes"
    assert_rows(task_network_buffers(buffers, vertices), columns, expected)


def in_bytes(buffers):
    return None if buffers is None else buffers * 32768


def test_defaults_are_flinks():
    (defaults,) = rows("defaults")
    assert {name: defaults[name] for name in asdict(FLINK_2_3)} == asdict(FLINK_2_3)
    assert PROFILES == {"flink-2.3": FLINK_2_3, "flink-1.20": FLINK_1_20}


def test_profiles_differ_in_overdraft_alone(spark):
    """Defaults of NettyShuffleEnvironmentOptions 1.20.0: 2, 8, none, 1, 512, 5; segments of 32 kb."""
    assert asdict(FLINK_1_20) == asdict(NetworkOptions(2, 8, None, 1, 512, 5, 32768))
    edges, parallelism = [partition("PIPELINED_BOUNDED")], {(1, NEAR): 1, (1, FAR): 40}
    old, new = (counted(spark, edges, parallelism, PROFILES[f"flink-{v}"]) for v in ("1.20", "2.3"))
    columns = "side index channels exclusive_per_channel required target announced"
    both = [("GATE", 0, 1, 2, 3, 10, 10), ("RESULT_PARTITION", 0, 40, 0, 41, 88, 88)]
    assert_rows(old, f"{columns} overdraft", [(*both[0], 0), (*both[1], 5)])
    assert_rows(new, f"{columns} overdraft", [(*both[0], 0), (*both[1], 20)])


def test_figures_are_of_the_largest_task(spark):
    edge = {"topology_id": 1, "consumer_index": 0, "result_partition_type": "BLOCKING"}
    edges = [
        edge | {"source_vertex": 5, "target_vertex": 3, "distribution": "POINTWISE"},
        edge | {"source_vertex": 3, "target_vertex": 7, "distribution": "POINTWISE"},
        edge | {"source_vertex": 3, "target_vertex": 5, "output_index": 1, "distribution": "ALL_TO_ALL"},
    ]
    buffers = counted(spark, edges, {(1, 5): 5, (1, 3): 3, (1, 7): 7})
    channels = [
        (3, "GATE", 0, 2),
        (5, "RESULT_PARTITION", 0, 1),
        (7, "GATE", 0, 1),
        (3, "RESULT_PARTITION", 0, 3),
        (5, "GATE", 0, 3),
        (3, "RESULT_PARTITION", 1, 5),
    ]
    assert_rows(buffers, "vertex side index channels", channels)


def test_a_data_set_that_is_read_twice_is_one_partition_and_two_gates(spark):
    first = partition("BLOCKING")
    edges = [first, first | {"input_index": 1, "consumer_index": 1}]
    buffers = counted(spark, edges, {(1, NEAR): 3, (1, FAR): 4})
    expected = [(1, "RESULT_PARTITION", 0, 4), (2, "GATE", 0, 3), (2, "GATE", 1, 3)]
    assert_rows(buffers, "vertex side index channels", expected)


def test_tasks_and_slots_add_up(spark):
    """Vertex 3 is in a group of its own, 9 has no edges; hybrid partitions are announced by nobody."""
    edges = [
        {"source_vertex": 1, "target_vertex": 2, "result_partition_type": "PIPELINED_BOUNDED"},
        {"source_vertex": 2, "target_vertex": 3, "result_partition_type": "HYBRID_FULL"},
    ]
    buffers = counted(
        spark,
        [edge | {"topology_id": 1, "consumer_index": 0} for edge in edges],
        {(1, 1): 4, (1, 2): 6, (1, 3): 1},
    )
    vertices = [{"vertex": v, "slot_sharing_group": int(v == 3)} for v in (1, 2, 3, 9)]
    options = NetworkOptions(segment_size_bytes=4096)
    tasks = task_network_buffers(buffers, make_frame(spark, "job_vertices", vertices), options=options)
    columns = "required target announced required_bytes announced_bytes"
    of_tasks = [
        (1, 0, 0, 1, 7, 20, 20, 7 * 4096, 20 * 4096),
        (2, 0, 1, 1, 9 + 2, None, None, 11 * 4096, None),
        (3, 1, 1, 0, 13, 20, 20, 13 * 4096, 20 * 4096),
        (9, 0, 0, 0, 0, 0, 0, 0, 0),
    ]
    assert_rows(tasks, f"vertex slot_sharing_group gates result_partitions {columns}", of_tasks)
    of_slots = [
        (0, 3, 18, None, None, 18 * 4096, None),
        (1, 1, 13, 20, 20, 13 * 4096, 20 * 4096),
    ]
    slots = slot_network_buffers(tasks, options=options)
    assert_rows(slots, f"slot_sharing_group vertices {columns}", of_slots)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"buffers_per_channel": -1}, "buffers_per_channel"),
        ({"floating_buffers_per_gate": 0}, "floating_buffers_per_gate"),
        ({"max_required_buffers_per_gate": 0}, "max_required_buffers_per_gate"),
        ({"sort_shuffle_min_buffers": 0}, "sort_shuffle_min_buffers"),
        ({"segment_size_bytes": 2048}, "segment_size_bytes"),
        ({"segment_size_bytes": 40000}, "powers of two"),
        ({"buffers_per_channel": 65536}, "32768 channels"),
    ],
)
def test_options_that_flink_refuses_are_refused(options, word):
    with pytest.raises(ConfigurationError, match=word):
        NetworkOptions(**options)
