"""inherit_slot_sharing_groups, translate_nodes, choose_partitioners and refusals of the StreamGraph."""

from plans.joins.refusals import first_refusals
from plans.joins.spark_schemas import spark_schema
from plans.stream_graph.joins.choose_partitioners import choose_partitioners
from plans.stream_graph.joins.inherit_slot_sharing_groups import inherit_slot_sharing_groups
from plans.stream_graph.joins.translate_nodes import translate_nodes
from plans.vocabulary import Partitioner
from tests.passes.frames import assert_rows, extended

RESOLVED = (
    "topology_id BIGINT, target INT, source INT, type_number INT, partition INT, partitioner STRING, "
    "exchange_mode STRING, output_tag STRING, selected_names ARRAY<STRING>, keyed BOOLEAN, in_index INT, "
    "out_index INT, unique_id INT, in_degree INT, input_degree INT, out_degree INT"
)
GROUPS = "topology_id BIGINT, id INT, slot_sharing_group STRING"


def test_groups_are_inherited_where_all_inputs_agree(make):
    transformations = make(
        "transformations",
        [
            {"id": 1, "kind": "source", "slot_sharing_group": "a"},
            {"id": 2, "kind": "source", "slot_sharing_group": "b"},
            {"id": 3, "kind": "one_input"},
            {"id": 4, "kind": "two_input"},
            {"id": 5, "kind": "two_input"},
            {"id": 6, "kind": "one_input", "slot_sharing_group": "c"},
            {"id": 7, "kind": "sink"},
            {"id": 8, "kind": "source"},
            {"id": 9, "kind": "two_input"},
            {"topology_id": 2, "id": 1, "kind": "source"},
        ],
    )
    inputs = {3: [1], 4: [1, 2], 5: [4, 3], 6: [3], 7: [6], 9: [3, 1]}
    resolved = make(
        RESOLVED,
        [
            {"target": target, "source": source, "in_index": i}
            for target, sources in inputs.items()
            for i, source in enumerate(sources)
        ],
    )
    groups = ("a", "b", "a", "default", "default", "c", "c", "default", "a")
    assert_rows(
        inherit_slot_sharing_groups(transformations, resolved),
        "topology_id id slot_sharing_group",
        [(1, i, group) for i, group in enumerate(groups, 1)],
    )


def test_nodes_have_the_jobs_defaults_and_what_their_kind_is(make):
    transformations = make(
        "transformations",
        [
            {"id": 1, "kind": "source", "name": "s", "buffer_timeout": -1},
            {"id": 2, "kind": "legacy_source", "name": "nobody reads it"},
            {"id": 3, "kind": "async", "name": "a", "parallelism": 7, "buffer_timeout": 5},
            {"id": 4, "kind": "multi_input", "name": "m", "max_parallelism": 64},
            {"id": 5, "kind": "sink", "name": "k", "chaining": "NEVER"},
        ],
    )
    edges = [{"target": t, "source": s, "keyed": False} for t, s in ((3, 1), (4, 3), (5, 4))]
    settings = make("job_settings", [{"parallelism": 3, "max_parallelism": 128, "buffer_timeout": 100}])
    nodes = translate_nodes(
        transformations,
        settings,
        make(RESOLVED, edges),
        make(GROUPS, [{"id": 5, "slot_sharing_group": "g"}]),
        make("stream_nodes", [{"topology_id": 9, "id": 1, "name": "given"}]),
    ).localCheckpoint()
    assert_rows(
        nodes,
        "topology_id id name parallelism max_parallelism parallelism_configured slot_sharing_group "
        "buffer_timeout",
        [
            (1, 1, "Source: s", 3, 128, False, "default", 100),
            (1, 3, "a", 7, 128, True, "default", 5),
            (1, 4, "m", 3, 64, False, "default", 100),
            (1, 5, "Sink: k", 3, 128, False, "g", 100),
            (9, 1, "given", 0, 0, False, "", 0),
        ],
    )
    assert_rows(
        nodes.filter("topology_id = 1"),
        "id chaining source yielding coordinated invokable",
        [
            (1, "ALWAYS", True, False, True, "SourceOperatorStreamTask"),
            (3, "ALWAYS", False, True, False, "OneInputStreamTask"),
            (4, "HEAD_WITH_SOURCES", False, False, False, "MultipleInputStreamTask"),
            (5, "NEVER", False, False, False, "OneInputStreamTask"),
        ],
    )


def test_keyed_operators_of_batch_jobs_sort_head_a_chain_and_weigh_memory(make):
    rows = [
        {"topology_id": t, "id": i, "kind": "one_input", "managed_memory": memory}
        for t in (1, 2, 3)
        for i, memory in ((2, {}), (3, {"OPERATOR": 5}))
    ]
    edges = [{"topology_id": r["topology_id"], "target": r["id"], "source": 1, "keyed": True} for r in rows]
    batch = {"job_type": "BATCH", "sorted_inputs_memory_mebibytes": 128}
    settings = [
        {"topology_id": 1, **batch, "sort_inputs": True},
        {"topology_id": 2, **batch, "sort_inputs": False},
        {"topology_id": 3, "job_type": "STREAMING"},
    ]
    nodes = translate_nodes(
        make("transformations", rows),
        make("job_settings", settings),
        make(RESOLVED, edges),
        make(GROUPS, []),
        make("stream_nodes", []),
    )
    columns = ("topology_id", "id", "chaining", "managed_memory", "slot_scope", "input_requirements")
    assert sorted(tuple(row) for row in nodes.select(*columns).collect()) == [
        (1, 2, "HEAD", {"OPERATOR": 128}, ["STATE_BACKEND"], {0: "SORTED"}),
        (1, 3, "HEAD", {"OPERATOR": 5}, ["STATE_BACKEND"], {0: "SORTED"}),
        (2, 2, "HEAD", {}, ["STATE_BACKEND"], {}),
        (2, 3, "HEAD", {"OPERATOR": 5}, ["STATE_BACKEND"], {}),
        (3, 2, "ALWAYS", {}, ["STATE_BACKEND"], {}),
        (3, 3, "ALWAYS", {"OPERATOR": 5}, ["STATE_BACKEND"], {}),
    ]


def chosen(make, edges, given=()):
    """Topology 1 streaming, 2 batch, 3 dynamic batch; nodes 1 and 2 of parallelism 2, 3 of 3."""
    nodes = [
        {"topology_id": t, "id": i, "name": f"n{i}", "parallelism": 2 if i < 3 else 3, "buffer_timeout": i}
        for t in (1, 2, 3, 4)
        for i in (1, 2, 3)
    ]
    settings = [
        {"topology_id": 1, "job_type": "STREAMING"},
        {"topology_id": 2, "job_type": "BATCH"},
        {"topology_id": 3, "job_type": "BATCH", "dynamic": True},
    ]
    of_nodes = extended(spark_schema("stream_edges"))
    degrees = {"type_number": 0, "out_index": 0, "unique_id": 0, "in_degree": 1, "input_degree": 1}
    return choose_partitioners(
        make(RESOLVED, edges, source=1, in_index=0, out_degree=1, keyed=False, **degrees),
        make("stream_nodes", nodes),
        make("job_settings", settings),
        make(of_nodes, given),
    )


def test_an_edge_without_partitioner_is_forward_between_equal_parallelisms(make):
    edges = chosen(make, [{"topology_id": t, "target": i} for t in (1, 2, 3) for i in (2, 3)])
    rebalance = ("REBALANCE", "RebalancePartitioner", "RebalancePartitioner", False)
    forward = ("FORWARD", "ForwardPartitioner", "ForwardPartitioner", True)
    unspecified = ("FORWARD", *["ForwardForUnspecifiedPartitioner"] * 2, True)
    assert_rows(
        edges,
        "topology_id target partitioner partitioner_class partitioner_key pointwise",
        [
            *((t, 3, *rebalance) for t in (1, 2, 3)),
            *((t, 2, *forward) for t in (1, 2)),
            (3, 2, *unspecified),
        ],
    )
    assert_rows(
        edges.filter("topology_id = 1"),
        "target edge_id buffer_timeout",
        [(2, "n1-1_n2-2_0_FORWARD_0", 1), (3, "n1-1_n3-3_0_REBALANCE_0", 1)],
    )


def test_every_partitioner_has_its_class_and_properties(make):
    names = [p.value for p in Partitioner]
    partitions = [{"target": 2, "in_index": i, "partition": 7, "partitioner": n} for i, n in enumerate(names)]
    assert_rows(
        chosen(make, partitions),
        "partitioner partitioner_class partitioner_key pointwise broadcast supports_unaligned_checkpoints",
        [
            ("FORWARD", "ForwardPartitioner", "ForwardPartitioner", True, False, False),
            ("REBALANCE", "RebalancePartitioner", "RebalancePartitioner", False, False, True),
            ("RESCALE", "RescalePartitioner", "RescalePartitioner", True, False, False),
            ("SHUFFLE", "ShufflePartitioner", "ShufflePartitioner", False, False, True),
            ("BROADCAST", "BroadcastPartitioner", "BroadcastPartitioner", False, True, False),
            ("GLOBAL", "GlobalPartitioner", "GlobalPartitioner", False, False, True),
            ("HASH", "KeyGroupStreamPartitioner", "HASH#7", False, False, True),
            ("CUSTOM", "CustomPartitionerWrapper", "CUSTOM#7", False, False, False),
        ],
    )


def test_a_batch_exchange_counts_in_batch_jobs_only(make):
    edges = [
        {
            "topology_id": t,
            "target": 2,
            "in_index": i,
            "partition": 7,
            "partitioner": "shuffle",
            "exchange_mode": m,
        }
        for t in (1, 2)
        for i, m in enumerate(("BATCH", "PIPELINED", "UNDEFINED"))
    ]
    assert_rows(
        chosen(make, edges),
        "topology_id in_index exchange_mode",
        [
            *((1, i, mode) for i, mode in enumerate(("UNDEFINED", "PIPELINED", "UNDEFINED"))),
            *((2, i, mode) for i, mode in enumerate(("BATCH", "PIPELINED", "UNDEFINED"))),
        ],
    )


def test_given_stream_edges_are_passed_on_with_degrees(make):
    given = [
        {"topology_id": 4, "source": s, "target": 3, "in_index": i, "type_number": n, "partitioner": "HASH"}
        for i, (s, n) in enumerate(((1, 1), (2, 1), (2, 2)))
    ]
    assert_rows(
        chosen(make, [], given),
        "topology_id source in_index partitioner in_degree input_degree out_degree target_name",
        [
            (4, 1, 0, "HASH", 3, 2, 1, "n3"),
            (4, 2, 1, "HASH", 3, 2, 2, "n3"),
            (4, 2, 2, "HASH", 3, 1, 2, "n3"),
        ],
    )


def test_of_several_reasons_to_refuse_the_first_one_counts(make):
    schema = (
        "topology_id BIGINT, error_stage STRING, precedence ARRAY<INT>, error STRING, message STRING, "
        "location STRING"
    )
    one = make(schema, [{"precedence": [3, 0, 9], "error": "a"}, {"topology_id": 2, "precedence": [0]}])
    other = make(schema, [{"precedence": [3, 0, 1], "error": "b"}, {"precedence": [10], "error": "c"}])
    assert_rows(first_refusals([one, other]), "topology_id error", [(1, "b"), (2, None)])
