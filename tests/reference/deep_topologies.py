"""Topologies that recursion or a quadratic step would not survive."""

from typing import Any

SOURCE = {"id": 1, "kind": "source", "name": "s"}
Transformations = list[dict[str, Any]]


def chain() -> Transformations:
    """3,000 operators in one chain."""
    return [
        SOURCE,
        *({"id": i, "kind": "one_input", "name": "m", "inputs": [i - 1]} for i in range(2, 3_001)),
    ]


def virtual_chain() -> Transformations:
    """1,000 partitions between two operators."""
    partitions = [
        {"id": i, "kind": "partition", "inputs": [i - 1], "partitioner": "shuffle" if i < 1_001 else "hash"}
        for i in range(2, 1_002)
    ]
    return [SOURCE, *partitions, {"id": 1_002, "kind": "one_input", "name": "m", "inputs": [1_001]}]


def wide_union() -> Transformations:
    """A union of 2,000 inputs: every fifth source, then all others."""
    sources = [{**SOURCE, "id": i} for i in range(1, 2_001)]
    inputs = [*range(5, 2_001, 5), *(i for i in range(1, 2_001) if i % 5)]
    union = {"id": 2_001, "kind": "union", "inputs": inputs}
    return [*sources, union, {"id": 2_002, "kind": "sink", "name": "k", "inputs": [2_001]}]


def nested_unions() -> Transformations:
    """200 unions of the union before and one more source."""
    sources = [{**SOURCE, "id": i} for i in range(1, 202)]
    unions = [{"id": 202, "kind": "union", "inputs": [1, 2]}]
    unions += [{"id": 201 + i, "kind": "union", "inputs": [200 + i, i + 1]} for i in range(2, 201)]
    return [*sources, *unions, {"id": 402, "kind": "sink", "name": "k", "inputs": [401]}]


def uids() -> Transformations:
    """3,000 operators with uids, a tree of chains: every seventh starts a vertex."""
    return [
        {**SOURCE, "uid": "uid-1"},
        *(
            {"id": i, "kind": "one_input", "name": f"m{i}", "inputs": [i // 2], "uid": f"uid-{i}"}
            | ({} if i % 7 else {"chaining": "HEAD"})
            for i in range(2, 3_001)
        ),
    ]


SHAPES = (chain, virtual_chain, wide_union, nested_unions, uids)


def deep_topologies() -> list[dict[str, Any]]:
    """One of each shape, named after it."""
    return [{"name": shape.__name__, "transformations": shape()} for shape in SHAPES]
