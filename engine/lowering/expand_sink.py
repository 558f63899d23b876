"""A sink of the Sink V2 API becomes operators: a writer, and after it those that compact and commit.

Source: org.apache.flink.streaming.runtime.translators.SinkTransformationTranslator.SinkExpander,
org.apache.flink.connector.file.sink.FileSink.addPreCommitTopology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from penstock.engine.lowering.stream_edges import Upstream
from penstock.engine.runtime.lowered_transformation import LoweredTransformation
from penstock.plans.vocabulary import StreamExchangeMode


class ExpandedSink(NamedTuple):
    """Operators with what each reads, None for the writer; how many of Flink's ids they take."""

    operators: list[tuple[LoweredTransformation, Upstream | None]]
    ids: int


def expand_sink(one: LoweredTransformation, first: int, *, batch: bool, compacts: bool) -> ExpandedSink:
    """The operators of `one`, with ids from `first`.

    `compacts`: whether operators that compact files are there, if the sink has any.
    """
    writer = replace(
        one,
        id=first,
        kind="one_input",
        name=f"{one.name}: Writer",
        description=None,  # Flink keeps none of a sink's
        commits=None,
        operator_factory="SinkWriterOperatorFactory",
        yielding=True,
    )
    if not one.commits:
        return ExpandedSink([(writer, None)], 1)
    mode = str(StreamExchangeMode.BATCH if batch else StreamExchangeMode.UNDEFINED)
    operators: list[tuple[LoweredTransformation, Upstream | None]] = [(writer, None)]

    def add(
        id: int, name: str, uid: str, factory: str, partition: LoweredTransformation | None, **own: Any
    ) -> None:
        before = operators[-1][0]
        given = before if partition is None else partition
        operator = replace(
            writer,
            id=id,
            name=f"{one.name}: {name}",
            uid=None if one.uid is None else uid.format(sink=one.name, uid=one.uid),
            inputs=[given],
            keyed_inputs=(),
            slot_scope=set(),
            steps=(),
            operator_factory=factory,
            yielding=False,
            supports_concurrent_execution_attempts=False,
            **own,
        )
        exchange_mode = str(StreamExchangeMode.UNDEFINED) if partition is None else mode
        operators.append((operator, Upstream(before.id, partition, exchange_mode)))

    def partition(id: int, partitioner: str, **own: Any) -> LoweredTransformation:
        return LoweredTransformation(
            id=id,
            kind="partition",
            name="Partition",
            parallelism=writer.parallelism,
            partitioner=partitioner,
            exchange_mode=mode,
            **own,
        )

    if not one.compacts or not compacts:
        apart = partition(first + 1, "forward")
        add(first + 2, "Committer", "Sink Committer: {uid}", "CommitterOperatorFactory", apart)
        return ExpandedSink(operators, 8 if one.compacts else 4)
    apart = partition(first + 2, "rebalance", aligned=True)
    single = {"parallelism": 1, "parallelism_configured": True}
    name, uid = "CompactorCoordinator", "{sink}: FileSinkCompactorCoordinator"
    add(first + 3, name, uid, "CompactCoordinatorFactory", apart, **single)
    of_writer = {"parallelism": one.parallelism, "parallelism_configured": one.parallelism_configured}
    name, uid = "CompactorOperator", "{sink}: FileSinkCompactorOperator"
    add(first + 4, name, uid, "CompactorOperatorFactory", None, **of_writer)
    add(first + 5, "Committer", "Sink Committer: {uid}", "CommitterOperatorFactory", None, **of_writer)
    return ExpandedSink(operators, 8)
