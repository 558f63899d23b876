"""Which physical transformation feeds which, through partitionings, unions and side outputs.

Source: org.apache.flink.streaming.api.graph.StreamGraph.addEdgeInternal.
"""

from dataclasses import dataclass

from penstock.engine.run.runtime.transformations import Transformation


@dataclass(frozen=True)
class StreamInput:
    """A stream edge as the author's transformations describe it."""

    source: Transformation
    partition: Transformation | None
    tag: Transformation | None
    number: int  #: input of the target, from 1


def inputs_of(transformation: Transformation) -> list[StreamInput]:
    """The stream edges into `transformation`, in the order in which Flink creates them."""
    inputs: list[StreamInput] = []
    for number, upstream in enumerate(transformation.inputs, 1):
        inputs.extend(_resolve(upstream, None, None, number))
    return inputs


def _resolve(
    transformation: Transformation, partition: Transformation | None, tag: Transformation | None, number: int
) -> list[StreamInput]:
    # the partitioning and the tag nearest to the reader count (StreamGraph.addEdgeInternal)
    if transformation.kind == "union":
        return [
            feeding
            for upstream in transformation.inputs
            for feeding in _resolve(upstream, partition, tag, number)
        ]
    if transformation.kind == "partition":
        return _resolve(transformation.inputs[0], partition or transformation, tag, number)
    if transformation.kind == "side_output":
        return _resolve(transformation.inputs[0], partition, tag or transformation, number)
    return [StreamInput(transformation, partition, tag, number)]
