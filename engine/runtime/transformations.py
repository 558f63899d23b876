"""What the calls of the DataStream API build: the job as its author wrote it, for planner and runtime.

Source: org.apache.flink.api.dag.Transformation and its subclasses in
org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.operators.common.typeinfo import TypeInformation

#: Kinds without an operator: they only say how records travel (docs/topology-files.md).
VIRTUAL_KINDS = frozenset({"partition", "union", "side_output"})

_creation_order = itertools.count(1)


@dataclass(eq=False, kw_only=True)
class Transformation:
    """One step of a job. `kind` is one of a topology file's (docs/topology-files.md)."""

    kind: str
    name: str
    inputs: list[Transformation] = field(default_factory=list)
    output_type: TypeInformation | None = None  #: None: records travel pickled

    #: What runs; for kinds source and legacy_source an operators.connectors.source.Source, for sinks one of
    #: operators.connectors.sink.Sink; None for virtual kinds.
    operator: Any = None
    #: The operator as it was when the stream was made: this one runs, whatever happens to `operator` later.
    pickled: Any = None

    #: Types of the keys of its inputs where it is keyed: the selectors a record's key comes from, by input.
    key_selectors: tuple[Callable[[Any], Any], ...] = ()

    parallelism: int | None = None
    #: What the environment gave where the author sets none; counts where that is not the job's own.
    default_parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    slot_sharing_group: str | None = None
    co_location_group: str | None = None
    buffer_timeout: int | None = None
    chaining: str | None = None
    managed_memory: dict[str, int] = field(default_factory=dict)
    slot_scope: list[str] = field(default_factory=list)
    min_resources: dict[str, Any] | None = None
    preferred_resources: dict[str, Any] | None = None
    description: str | None = None

    # kind partition
    partitioner: str | None = None  #: forward, rebalance, rescale, shuffle, broadcast, global, hash, custom
    exchange_mode: str | None = None
    key_selector: Callable[[Any], Any] | None = None  #: hash and custom
    key_type: TypeInformation | None = None  #: hash; None: keys are pickled
    custom_partitioner: Callable[[Any, int], int] | None = (
        None  #: custom: key and number of channels to channel
    )

    # kind sink: what sink_to makes of it; None: a sink function
    writer: dict[str, Any] | None = None
    committer: dict[str, Any] | None = None

    # kind side_output
    tag: str | None = None

    # kind source
    watermark_strategy: Any = (
        None  #: operators.common.watermark_strategy.WatermarkStrategy; None: no watermarks
    )

    created: int = field(default_factory=lambda: next(_creation_order))


def reachable(roots: Iterable[Transformation]) -> list[Transformation]:
    """`roots` and everything they read, in creation order: inputs before users."""
    found: dict[int, Transformation] = {}
    todo = list(roots)
    while todo:
        one = todo.pop()
        if one.created not in found:
            found[one.created] = one
            todo.extend(one.inputs)
    return [found[created] for created in sorted(found)]


def effective_parallelism(one: Transformation) -> int | None:
    """What it runs with: its own, else its default; its first input's where it is virtual.

    Source: Transformation.getParallelism, PartitionTransformation, UnionTransformation.
    """
    while one.kind in VIRTUAL_KINDS:
        one = one.inputs[0]
    return one.parallelism or one.default_parallelism


_PLAIN_KEYS = (
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "co_location_group",
    "buffer_timeout",
    "chaining",
    "managed_memory",
    "slot_scope",
    "min_resources",
    "preferred_resources",
    "partitioner",
    "exchange_mode",
    "tag",
)


_OF_SINKS = ("writer", "committer")
"""Keys that count even where they are empty."""


def to_topology(
    name: str,
    transformations: list[Transformation],
    *,
    parallelism: int,
    max_parallelism: int | None,
    chaining: bool,
    config: dict[str, str],
) -> dict[str, Any]:
    """The topology (docs/topology-files.md) that `transformations`, as `reachable` gives them, describe."""
    ids = {one.created: position for position, one in enumerate(transformations, 1)}
    rows = []
    for one in transformations:
        row: dict[str, Any] = {"id": ids[one.created], "kind": one.kind}
        if one.name:
            row["name"] = one.name
        row["inputs"] = [ids[given.created] for given in one.inputs]
        for key in _PLAIN_KEYS:
            value = getattr(one, key)
            if value is not None and value not in ({}, []):
                row[key] = value
        row |= {key: given for key in _OF_SINKS if (given := getattr(one, key)) is not None}
        if one.kind not in VIRTUAL_KINDS and one.default_parallelism not in (None, parallelism):
            row.setdefault("parallelism", one.default_parallelism)
        rows.append(row)
    topology: dict[str, Any] = {"name": name, "transformations": rows, "parallelism": parallelism}
    if max_parallelism is not None:
        topology["max_parallelism"] = max_parallelism
    if not chaining:
        topology["chaining"] = False
    if config:
        topology["config"] = config
    return topology
