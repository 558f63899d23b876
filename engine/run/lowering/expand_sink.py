"""A sink of the Sink V2 API becomes operators: a writer, and after it those that compact and commit.

Source: org.apache.flink.streaming.runtime.translators.SinkTransformationTranslator.SinkExpander,
org.apache.flink.connector.file.sink.FileSink.addPreCommitTopology.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from penstock.engine.run.lowering.stream_edges import Upstream, refused
from penstock.engine.run.runtime.lowered_transformation import Compaction, LoweredTransformation
from penstock.plans.errors import ILLEGAL_STATE
from penstock.plans.stream_graph.refuse_stream_graphs import STEP_HAS_UID
from penstock.plans.vocabulary import StreamExchangeMode


class ExpandedSink(NamedTuple):
    """Operators with what each reads, None for the writer; how many of Flink's ids they take."""

    operators: list[tuple[LoweredTransformation, Upstream | None]]
    ids: int


def expand_sink(
    job: str, sink: LoweredTransformation, first: int, *, batch: bool, compacts: bool
) -> ExpandedSink:
    """The operators of `sink`, with ids from `first`.

    `compacts`: whether operators that compact files are there, if the sink has any. Raises JobCompileError
    where Flink wants an uid.
    """
    if sink.compaction is not None and sink.uid is None:
        raise refused(job, ILLEGAL_STATE, sink.name.join(STEP_HAS_UID))
    writer = replace(
        sink,
        id=first,
        kind="one_input",
        name=f"{sink.name}: Writer",
        description=None,  # Flink keeps none of a sink's
        commits=None,
        operator_factory="SinkWriterOperatorFactory",
        yielding=True,
    )
    if not sink.commits:
        return ExpandedSink([(writer, None)], 1)
    mode = str(StreamExchangeMode.BATCH if batch else StreamExchangeMode.UNDEFINED)
    operators: list[tuple[LoweredTransformation, Upstream | None]] = [(writer, None)]

    def add(
        id: int, name: str, uid: str, factory: str, partition: LoweredTransformation | None, **own: Any
    ) -> None:
        before = operators[-1][0]
        upstream = before if partition is None else partition
        operator = replace(
            writer,
            id=id,
            name=f"{sink.name}: {name}",
            uid=None if sink.uid is None else uid.format(uid=sink.uid),
            inputs=[upstream],
            keyed_inputs=(),
            slot_scope=set(),
            steps=(),
            operator_factory=factory,
            yielding=False,
            supports_concurrent_execution_attempts=False,
            **own,
        )
        exchange_mode = StreamExchangeMode.UNDEFINED if partition is None else partition.exchange_mode
        operators.append((operator, Upstream(before.id, partition, str(exchange_mode))))

    def partition(id: int, partitioner: str, **own: Any) -> LoweredTransformation:
        return LoweredTransformation(
            id=id,
            kind="partition",
            name="Partition",
            parallelism=writer.parallelism,
            partitioner=partitioner,
            **own,
        )

    def commit(id: int, partition: LoweredTransformation | None) -> None:
        add(id, "Committer", "Sink Committer: {uid}", "CommitterOperatorFactory", partition)

    coordinator, compactor = "{uid}: FileSinkCompactorCoordinator", "{uid}: FileSinkCompactorOperator"
    ids = {None: 4, Compaction.ENABLED: 8, Compaction.DISABLED: 10}[sink.compaction]
    if sink.compaction is None or not compacts:
        commit(first + 2, partition(first + 1, "forward", exchange_mode=mode))
    elif sink.compaction is Compaction.ENABLED:
        apart = partition(first + 2, "rebalance", exchange_mode=mode, aligned=True)
        single = {"parallelism": 1, "parallelism_configured": True}
        add(first + 3, "CompactorCoordinator", coordinator, "CompactCoordinatorFactory", apart, **single)
        of_writer = {"parallelism": sink.parallelism, "parallelism_configured": False}
        add(first + 4, "CompactorOperator", compactor, "CompactorOperatorFactory", None, **of_writer)
        commit(first + 5, None)
    else:  # nothing is compacted, but what an earlier run of the job has left to compact is committed
        of_writer = {"parallelism_configured": False}
        apart = partition(first + 2, "forward", exchange_mode=mode)
        name, factory = "CompactorCoordinatorPlaceHolder", "CompactCoordinatorStateHandlerFactory"
        add(first + 3, name, coordinator, factory, apart, **of_writer)
        name, factory = "CompactorOperatorPlaceHolder", "CompactorOperatorStateHandlerFactory"
        add(first + 5, name, compactor, factory, partition(first + 4, "forward"), **of_writer)
        commit(first + 6, None)
    return ExpandedSink(operators, ids)
