"""The nodes of a StreamGraph as what runs in them: one operator, or the functions of a fused one.

Functions that PyFlink adds and that leave records as they are do not run; an operator that has no others
passes its records on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.run.runtime.lowered_transformation import GeneratedGraph, LoweredTransformation, Step
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.records.pass_records import PassOperator

#: Numbers of functions that are not the last one of their operator begin here.
_FIRST_PART = 1 << 40


@dataclass(frozen=True, kw_only=True)
class RunnableNode:
    """One node: its steps in order, and the number of each in its chain; the last one has the node's id."""

    node: int
    name: str
    steps: tuple[Step, ...]
    numbers: tuple[int, ...]
    inputs: int  #: how many
    source: bool
    python: bool  #: results are encoded by their type where they leave it

    @property
    def first(self) -> int:
        """The number of the step that takes its records."""
        return self.numbers[0]

    @property
    def output_type(self) -> TypeInformation | None:
        """Type of its results."""
        return self.steps[-1].output_type


@dataclass(frozen=True, kw_only=True)
class NodeInput:
    """A stream edge as its reader sees it."""

    source: RunnableNode
    number: int  #: input of the target, from 1
    tag: str | None
    output_type: TypeInformation | None  #: of what travels
    key_selector: Callable[[Any], Any] | None
    key_type: TypeInformation | None
    custom_partitioner: Callable[[Any, int], int] | None


def runnable_nodes(graph: GeneratedGraph) -> dict[int, RunnableNode]:
    """Nodes by id, but those that do not run here.

    The driver commits what a sink has written, and keeps what a stream is cached for. PyFlink runs the
    functions of a fused operator twice if a union of `execute_and_collect` reads their operators as they were
    before; nothing reads the fused one, which is left out here.
    """
    runnable = {}
    part = _FIRST_PART
    read = {row["source"] for row in graph.stream_graph["edges"]}
    runs = Counter(step.transformation for physical in graph.physical.values() for step in physical.steps)
    for node, physical in graph.physical.items():
        fused = physical.python is not None and len(physical.steps) > 1
        is_copy = fused and all(runs[step.transformation] > 1 for step in physical.steps)
        if not physical.steps or (is_copy and node not in read):
            continue
        steps = tuple(step for step in physical.steps if step.operator is not None)
        steps = steps or (replace(physical.steps[-1], operator=PassOperator(), pickled=None),)
        numbers = (*range(part, part + len(steps) - 1), node)
        part += len(steps)
        runnable[node] = RunnableNode(
            node=node,
            name=_name(graph, node),
            steps=_ending_in(steps, physical),
            numbers=numbers,
            inputs=len(physical.inputs),
            source="source" in physical.kind,
            python=physical.python is not None,
        )
    return runnable


def stream_inputs(graph: GeneratedGraph, nodes: Mapping[int, RunnableNode]) -> dict[str, NodeInput]:
    """The edges between `nodes` by edge_id."""
    inputs = {}
    for row in graph.stream_graph["edges"]:
        edge = graph.edges[row["edge_id"]]
        if row["source"] in nodes and row["target"] in nodes:
            source = nodes[row["source"]]
            call = None if edge.partition is None else edge.partition.partition_call
            side = edge.side_output
            inputs[row["edge_id"]] = NodeInput(
                source=source,
                number=edge.number,
                tag=None if side is None else side.tag,
                output_type=source.output_type if side is None else side.output_type,
                key_selector=None if call is None else call.key_selector,
                key_type=None if call is None else call.key_type,
                custom_partitioner=None if call is None else call.custom_partitioner,
            )
    return inputs


def _ending_in(steps: tuple[Step, ...], physical: LoweredTransformation) -> tuple[Step, ...]:
    """The steps, the last one with the type that the operator puts out."""
    last = physical.steps[-1]
    return (*steps[:-1], replace(steps[-1], output_type=last.output_type))


def _name(graph: GeneratedGraph, node: int) -> str:
    return next(str(row["name"]) for row in graph.stream_graph["nodes"] if row["id"] == node)
