"""Which physical transformation feeds which, through partitionings, unions and side outputs.

Source: org.apache.flink.streaming.api.graph.StreamGraph.addEdgeInternal.
"""

from dataclasses import dataclass

from penstock.engine.runtime.transformations import Transformation


@dataclass(frozen=True)
class StreamInput:
    """A stream edge as the author's transformations describe it."""

    source: Transformation
    partition: Transformation | None
    tag: Transformation | None
    number: int  #: input of the target, from 1


def inputs_of(one: Transformation) -> list[StreamInput]:
    """The stream edges into `one`, in the order in which Flink creates them."""
    found: list[StreamInput] = []
    for number, given in enumerate(one.inputs, 1):
        found.extend(_resolve(given, None, None, number))
    return found


def _resolve(
    one: Transformation, partition: Transformation | None, tag: Transformation | None, number: int
) -> list[StreamInput]:
    # the partitioning and the tag nearest to the reader count (StreamGraph.addEdgeInternal)
    if one.kind == "union":
        return [found for given in one.inputs for found in _resolve(given, partition, tag, number)]
    if one.kind == "partition":
        return _resolve(one.inputs[0], partition or one, tag, number)
    if one.kind == "side_output":
        return _resolve(one.inputs[0], partition, tag or one, number)
    return [StreamInput(one, partition, tag, number)]
