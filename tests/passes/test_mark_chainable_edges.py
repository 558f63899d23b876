"""mark_chainable_edges: every reason, alone and together, and sources chained into heads."""

from plans.job_graph.joins.mark_chainable_edges import mark_chainable_edges, mark_local_reasons
from plans.vocabulary import NotChainableReason as Reason
from tests.passes.frames import EDGES_WITH_ENDS, Make, assert_rows

CHAINABLE = {
    "in_index": 0,
    "partitioner_class": "ForwardPartitioner",
    "exchange_mode": "UNDEFINED",
    "in_degree": 1,
    "input_degree": 1,
    "out_degree": 1,
    "source_parallelism": 2,
    "target_parallelism": 2,
    "source_max_parallelism": -1,
    "target_max_parallelism": -1,
    "source_slot_sharing_group": "default",
    "target_slot_sharing_group": "default",
    "source_chaining": "ALWAYS",
    "target_chaining": "ALWAYS",
    "source_source": False,
    "source_legacy_source": False,
    "target_yielding": False,
    "supports_unaligned_checkpoints": True,
}
NO_CHAINING, STRICT_MAX_PARALLELISM = 2, 3
SETTINGS = (
    {"topology_id": 1, "chaining_enabled": True, "chain_different_max_parallelism": True},
    {"topology_id": NO_CHAINING, "chaining_enabled": False, "chain_different_max_parallelism": True},
    {"topology_id": STRICT_MAX_PARALLELISM, "chaining_enabled": True},
)
HEADS = "topology_id BIGINT, node INT, head_is_legacy_source BOOLEAN"
HEAD_WITH_SOURCES = {"target_chaining": "HEAD_WITH_SOURCES"}
YIELDS = {"target_yielding": True}

ALONE = {
    Reason.CHAINING_DISABLED: {"topology_id": NO_CHAINING},
    Reason.SEVERAL_INPUTS: {"in_degree": 2},
    Reason.UNION_INPUT: {"input_degree": 2},
    Reason.DIFFERENT_SLOT_SHARING_GROUP: {"source_slot_sharing_group": "a"},
    Reason.YIELDING_BEHIND_LEGACY_SOURCE: {"source_legacy_source": True, **YIELDS},
    Reason.UPSTREAM_NEVER_CHAINS: {"source_chaining": "NEVER"},
    Reason.DOWNSTREAM_NEVER_CHAINS: {"target_chaining": "NEVER"},
    Reason.DOWNSTREAM_IS_HEAD: {"target_chaining": "HEAD"},
    Reason.UPSTREAM_IS_NOT_A_SOURCE: HEAD_WITH_SOURCES,
    Reason.DIFFERENT_PARALLELISM: {"source_parallelism": 3},
    Reason.DIFFERENT_MAX_PARALLELISM: {
        "topology_id": STRICT_MAX_PARALLELISM,
        "source_max_parallelism": 128,
    },
    Reason.PARTITIONER_NOT_FORWARD: {"partitioner_class": "RescalePartitioner"},
    Reason.BATCH_EXCHANGE: {"exchange_mode": "BATCH"},
}
TOGETHER = (
    ({}, []),
    ({"source_chaining": None}, [Reason.UPSTREAM_NEVER_CHAINS]),
    ({"target_chaining": None}, [Reason.DOWNSTREAM_NEVER_CHAINS]),
    ({"source_chaining": "HEAD"}, []),
    ({"source_max_parallelism": 128}, []),
    ({"partitioner_class": "ForwardForUnspecifiedPartitioner"}, []),
    ({"partitioner_class": "ForwardForConsecutiveHashPartitioner", "exchange_mode": "BATCH"}, []),
    ({"partitioner_class": "RescalePartitioner", "exchange_mode": "BATCH"}, [Reason.PARTITIONER_NOT_FORWARD]),
    ({"exchange_mode": "PIPELINED"}, []),
    ({"in_degree": 3, "input_degree": 2}, [Reason.SEVERAL_INPUTS, Reason.UNION_INPUT]),
    (
        {
            "topology_id": NO_CHAINING,
            "source_slot_sharing_group": "a",
            "source_legacy_source": True,
            "source_chaining": "NEVER",
            "target_chaining": "HEAD",
            "source_parallelism": 1,
            "partitioner_class": "RebalancePartitioner",
            **YIELDS,
        },
        [
            Reason.CHAINING_DISABLED,
            Reason.DIFFERENT_SLOT_SHARING_GROUP,
            Reason.YIELDING_BEHIND_LEGACY_SOURCE,
            Reason.UPSTREAM_NEVER_CHAINS,
            Reason.DOWNSTREAM_IS_HEAD,
            Reason.DIFFERENT_PARALLELISM,
            Reason.PARTITIONER_NOT_FORWARD,
        ],
    ),
)


def marked(make: Make, rows, heads=()):
    """The verdicts on `rows`, edges from node 1000 + i to node i."""
    edges = [{"source": 1000 + i, "target": i, **CHAINABLE, **row} for i, row in enumerate(rows)]
    local = mark_local_reasons(make(EDGES_WITH_ENDS, edges), make("job_settings", SETTINGS))
    return mark_chainable_edges(local, make(HEADS, heads)).localCheckpoint()


def test_every_reason_holds_alone(make):
    assert set(ALONE) == set(Reason)
    edges = marked(make, ALONE.values())
    assert_rows(
        edges,
        "target chainable chained_source not_chainable_reasons",
        [(i, False, False, [reason.value]) for i, reason in enumerate(ALONE)],
    )


def test_all_reasons_that_hold_are_kept_in_their_order(make):
    edges = marked(make, (row for row, _ in TOGETHER))
    assert_rows(
        edges,
        "target chainable not_chainable_reasons",
        [(i, not reasons, [r.value for r in reasons]) for i, (_, reasons) in enumerate(TOGETHER)],
    )


def test_a_yielding_operator_looks_at_the_source_of_its_chain(make):
    heads = [{"node": 1000, "head_is_legacy_source": True}, {"node": 1001, "head_is_legacy_source": False}]
    edges = marked(make, [YIELDS, YIELDS, YIELDS], heads)
    assert_rows(edges, "target chainable", [(0, False), (1, True), (2, True)])


def test_a_source_runs_inside_a_head_that_takes_sources(make):
    """If it feeds nothing else, is alone at its input and its edge would be chainable with one input."""
    source = {"source_source": True, **HEAD_WITH_SOURCES}
    rows = [
        {**source, "in_degree": 2},
        source,
        {**source, "in_degree": 2, "out_degree": 2},
        {**source, "in_degree": 2, "input_degree": 2},
        {**source, "in_degree": 2, "source_parallelism": 3},
        {**source, "in_degree": 2, "target_chaining": "ALWAYS"},
        {**HEAD_WITH_SOURCES, "in_degree": 2},
    ]
    assert_rows(
        marked(make, rows),
        "target chained_source chainable",
        [(0, True, False), (1, True, True), *((i, False, False) for i in range(2, 7))],
    )


def test_one_input_that_needs_aligned_checkpoints_aligns_all_of_a_node(make):
    rows = [
        {"target": 1, "in_degree": 2},
        {"target": 1, "in_degree": 2, "in_index": 1, "supports_unaligned_checkpoints": False},
        {"target": 2, "in_degree": 2},
        {"target": 2, "in_degree": 2, "in_index": 1},
        {"target": 3, "supports_unaligned_checkpoints": False},
    ]
    assert_rows(
        marked(make, rows),
        "target in_index supports_unaligned_checkpoints",
        [(1, 0, False), (1, 1, False), (2, 0, True), (2, 1, True), (3, 0, False)],
    )
