"""choose_result_partition_types, reuse_data_sets, connect_vertices and create_data_sets."""

from plans.job_graph.joins.choose_result_partition_types import choose_result_partition_types
from plans.job_graph.joins.connect_vertices import connect_vertices, create_data_sets
from plans.job_graph.joins.reuse_data_sets import reuse_data_sets
from plans.joins.spark_schemas import spark_schema
from plans.vocabulary import GlobalStreamExchangeMode as Mode
from tests.passes.frames import CHAIN_VERTICES, assert_rows, extended

WALKED = (
    "topology_id BIGINT, node INT, out_index INT, vertex INT, id_lower BIGINT, id_upper BIGINT, "
    "postorder INT, vertex_postorder INT, no_output BOOLEAN"
)
FORWARD, RESCALE, HASH = "ForwardPartitioner", "RescalePartitioner", "KeyGroupStreamPartitioner"
REBALANCE, BROADCAST = "RebalancePartitioner", "BroadcastPartitioner"


def typed(make, edges, modes, late_nodes=()):
    """Edges of node 1, one row each; `modes`: topology to global exchange mode."""
    rows = [
        {"source": 1, "target": 2 + i, "out_index": i, "partitioner_class": FORWARD}
        | {"pointwise": row.get("partitioner_class", FORWARD) in (FORWARD, RESCALE)}
        | row
        for i, row in enumerate(edges)
    ]
    walked = [
        {"topology_id": row.get("topology_id", 1), "node": row["source"], "out_index": row["out_index"]}
        | {"vertex": 1, "no_output": row["source"] in late_nodes}
        for row in rows
    ]
    settings = [{"topology_id": t, "global_exchange_mode": mode} for t, mode in modes.items()]
    return choose_result_partition_types(
        make("stream_edges", rows, exchange_mode="UNDEFINED", buffer_timeout=100),
        make(WALKED, walked, id_lower=0, id_upper=0, postorder=0, vertex_postorder=0),
        make("job_settings", settings),
    )


def test_the_global_mode_decides_edges_that_are_undefined(make):
    modes = dict(enumerate(Mode))
    classes = (FORWARD, RESCALE, HASH)
    edges = typed(make, [{"topology_id": t, "partitioner_class": c} for t in modes for c in classes], modes)
    blocking, bounded = "BLOCKING", "PIPELINED_BOUNDED"
    types = {
        Mode.ALL_EDGES_BLOCKING: [blocking] * 3,
        Mode.FORWARD_EDGES_PIPELINED: [bounded, blocking, blocking],
        Mode.POINTWISE_EDGES_PIPELINED: [bounded, bounded, blocking],
        Mode.ALL_EDGES_PIPELINED: [bounded] * 3,
        Mode.ALL_EDGES_PIPELINED_APPROXIMATE: ["PIPELINED_APPROXIMATE"] * 3,
        Mode.ALL_EDGES_HYBRID_FULL: ["HYBRID_FULL"] * 3,
        Mode.ALL_EDGES_HYBRID_SELECTIVE: ["HYBRID_SELECTIVE"] * 3,
    }
    expected = [(t, c, types[mode][i]) for t, mode in modes.items() for i, c in enumerate(classes)]
    assert_rows(edges, "topology_id partitioner_class result_partition_type", expected)


def test_an_edges_own_mode_wins_and_chained_edges_have_none(make):
    own = {
        "PIPELINED": "PIPELINED_BOUNDED",
        "BATCH": "BLOCKING",
        "HYBRID_FULL": "HYBRID_FULL",
        "HYBRID_SELECTIVE": "HYBRID_SELECTIVE",
    }
    broadcast = {"exchange_mode": "HYBRID_SELECTIVE", "partitioner_class": BROADCAST, "broadcast": True}
    rows = [
        *({"exchange_mode": mode} for mode in own),
        broadcast,
        {"chainable": True},
        {"chained_source": True},
    ]
    edges = typed(make, rows, {1: Mode.ALL_EDGES_PIPELINED})
    expected = [*enumerate(own.values()), (4, "HYBRID_FULL")]
    assert_rows(edges, "out_index result_partition_type", expected)


def test_output_at_the_end_of_input_blocks_and_is_not_timed(make):
    rows = [{}, {"source": 9}, {"exchange_mode": "PIPELINED"}]
    edges = typed(make, rows, {1: Mode.ALL_EDGES_PIPELINED}, late_nodes={1})
    assert_rows(
        edges,
        "source out_index result_partition_type buffer_timeout",
        [(1, 0, "BLOCKING", -1), (9, 1, "PIPELINED_BOUNDED", 100), (1, 2, "PIPELINED_BOUNDED", 100)],
    )


def test_partitioners_of_dynamic_graphs_become_ordinary_ones(make):
    rows = [
        {"partitioner_class": "ForwardForUnspecifiedPartitioner", "partitioner": "FORWARD"},
        {"partitioner_class": "ForwardForConsecutiveHashPartitioner", "partitioner": "FORWARD"},
        {"partitioner_class": FORWARD, "partitioner": "FORWARD"},
    ]
    edges = typed(make, [row | {"pointwise": True} for row in rows], {1: Mode.ALL_EDGES_BLOCKING})
    assert_rows(
        edges,
        "out_index partitioner partitioner_class pointwise forward",
        [
            (0, "RESCALE", RESCALE, True, False),
            (1, "HASH", HASH, False, False),
            (2, "FORWARD", FORWARD, True, True),
        ],
    )


def test_correlation_of_keys_follows_the_partitioner(make):
    classes = (FORWARD, RESCALE, HASH, REBALANCE)
    edges = typed(make, [{"partitioner_class": c} for c in classes], {1: Mode.ALL_EDGES_PIPELINED})
    assert_rows(
        edges,
        "partitioner_class inter_inputs_keys_correlated intra_input_key_correlated",
        [
            (FORWARD, False, True),
            (RESCALE, False, False),
            (HASH, True, True),
            (REBALANCE, False, False),
        ],
    )


TYPED = extended(
    spark_schema("job_edges"),
    (
        "target_vertex",
        "input_index",
        "data_set_id",
        "consumer_index",
        "source_node",
        "target_node",
        "ship_strategy",
    ),
    "source INT, target INT, out_index INT, partitioner STRING, partitioner_class STRING, "
    "partitioner_key STRING, pointwise BOOLEAN, exchange_mode STRING, output_tag STRING, unique_id INT, "
    "vertex_postorder INT, postorder INT, id_lower BIGINT, id_upper BIGINT, buffer_timeout BIGINT, "
    "result_partition_type STRING",
)


def test_equal_edges_of_one_operator_share_data_that_can_be_read_twice(make):
    """Consumers 10 and 11 have parallelism 2, 12 has 3."""
    hashed = {"partitioner_key": "HASH#7"}
    cases = {
        1: [{}, {"target": 11}, {"target": 12}, {"target": 11, **hashed}],
        2: [{"result_partition_type": "PIPELINED_BOUNDED"}, {"result_partition_type": "PIPELINED_BOUNDED"}],
        3: [{"result_partition_type": "HYBRID_SELECTIVE"}, {"result_partition_type": "HYBRID_FULL"}],
        4: [{"output_tag": "a"}, {"output_tag": "b"}, {}, {"output_tag": "b"}],
        5: [{"result_partition_type": "HYBRID_SELECTIVE"}, {}],
        6: [{}, {"source": 2}],
    }
    edges = [
        {"topology_id": t, "source": 1, "target": 10, "out_index": i, "id_lower": i, "id_upper": -i} | row
        for t, rows in cases.items()
        for i, row in enumerate(rows)
    ]
    vertices = [
        {"topology_id": t, "vertex": v, "parallelism": p, "max_parallelism": -1}
        for t in cases
        for v, p in ((10, 2), (11, 2), (12, 3))
    ]
    shared = reuse_data_sets(
        make(TYPED, edges, partitioner_key="SHUFFLE", result_partition_type="BLOCKING"),
        make(CHAIN_VERTICES, vertices),
    )
    pipelined, selective, full = "PIPELINED_BOUNDED", "HYBRID_SELECTIVE", "HYBRID_FULL"
    assert_rows(
        shared,
        "topology_id source out_index id_lower id_upper result_partition_type",
        [
            (1, 1, 0, 0, 0, "BLOCKING"),
            (1, 1, 1, 0, 0, "BLOCKING"),
            (1, 1, 2, 2, -2, "BLOCKING"),
            (1, 1, 3, 3, -3, "BLOCKING"),
            (2, 1, 0, 0, 0, pipelined),
            (2, 1, 1, 1, -1, pipelined),
            (3, 1, 0, 0, 0, full),
            (3, 1, 1, 0, 0, full),
            (4, 1, 0, 0, 0, "BLOCKING"),
            (4, 1, 1, 1, -1, "BLOCKING"),
            (4, 1, 2, 2, -2, "BLOCKING"),
            (4, 1, 3, 1, -1, "BLOCKING"),
            (5, 1, 0, 0, 0, selective),
            (5, 1, 1, 1, -1, "BLOCKING"),
            (6, 1, 0, 0, 0, "BLOCKING"),
            (6, 2, 1, 1, -1, "BLOCKING"),
        ],
    )


def test_edges_and_data_sets_are_numbered_as_vertices_are_connected(make):
    """Vertex 5 is created before 1; its data set 7 has two consumers, of which one is connected last."""
    order = ("vertex_postorder", "postorder", "out_index", "source_vertex", "source", "target", "id_lower")
    rows = [
        (0, 0, 0, 5, 5, 9, 7),
        (0, 1, 0, 5, 6, 9, 8),
        (0, 1, 1, 5, 6, 4, 7),
        (3, 3, 0, 1, 1, 9, 7),
    ]
    edges = connect_vertices(
        make(
            TYPED,
            [dict(zip(order, row, strict=True)) for row in rows],
            id_upper=-1,
            in_index=3,
            pointwise=True,
            partitioner="RESCALE",
            result_partition_type="BLOCKING",
        )
    ).localCheckpoint()
    ids = {n: f"{n:016x}" + "f" * 16 for n in (7, 8)}
    assert_rows(
        edges,
        "source_vertex source_node target_vertex input_index data_set_id output_index consumer_index",
        [
            (5, 5, 9, 0, ids[7], 0, 0),
            (5, 6, 9, 1, ids[8], 1, 0),
            (5, 6, 4, 0, ids[7], 0, 1),
            (1, 1, 9, 2, ids[7], 0, 0),
        ],
    )
    assert_rows(
        create_data_sets(edges),
        "vertex output_index data_set_id result_partition_type distribution consumers",
        [
            (5, 0, ids[7], "BLOCKING", "POINTWISE", 2),
            (5, 1, ids[8], "BLOCKING", "POINTWISE", 1),
            (1, 0, ids[7], "BLOCKING", "POINTWISE", 1),
        ],
    )
