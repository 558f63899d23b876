"""Wire the operators of a chain, with direct calls inside and channel writers at its ends.

Source: org.apache.flink.streaming.runtime.tasks.OperatorChain (createOutputCollector, the order of
initializeStateAndOpenOperators, finishOperators and closeAllOperators).
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.operators.chain.errors import NO_RECORD, misfit
from penstock.operators.chain.operator import (
    Operator,
    OperatorContext,
    Timestamps,
    Values,
    copies,
    failure,
    is_plain,
)
from penstock.operators.common.arrow_columns import coerce
from penstock.operators.common.pickles import is_pickled
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.exchange.blocks import GateSpec, OutputSpec, batch_of_values, values_of_batch
from penstock.operators.exchange.channel_writer import MISFIT, ChannelWriter
from penstock.operators.records.map_records import MOST_FLAT_MAPS, LoopStep, RecordFunctionOperator

# The content of one JobVertex, as data that a Spark task receives


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """One operator of a chain."""

    node: int  #: its stream node
    name: str
    function: str = ""  #: the fused operator's function that this is, if it was fused of several
    operator: Any  #: an Operator, or a Source if `source`
    output_type: TypeInformation | None = None
    side_output_types: Mapping[str, TypeInformation | None] = field(default_factory=dict)
    source: bool = False
    splits: tuple[tuple[Any, ...], ...] = ()  #: the splits of a source by subtask
    operator_ids: tuple[str, ...] = ()  #: OperatorIDs: given by `uid_hash`, if any; generated
    uid: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChainedEdge:
    """An edge inside a chain, which is a direct call."""

    source_node: int
    target_node: int
    input_number: int = 1
    tag: str | None = None
    #: Whether the edge leaves an operator of Python functions, so that records take their declared type.
    encodes: bool = False


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """A JobVertex with its operators, head first, the edges between them, its outputs and its gates."""

    vertex: int
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorSpec, ...]
    edges: tuple[ChainedEdge, ...]
    outputs: tuple[OutputSpec, ...]
    gates: tuple[GateSpec, ...]


# Functions that follow one another in a chain, joined into one loop


def _join_functions(
    operators: Mapping[int, Operator],
    edges: Sequence[ChainedEdge],
    written: Collection[int],
    inputs: Mapping[int, int],
) -> None:
    """Join each run of map, filter and flat map functions, so that its first operator calls the others.

    Takes the operators of a chain, head first; its edges; the nodes whose records leave the chain; the number
    of inputs of each node. A run ends at an operator with a second reader, at a reader with a second input,
    and where records take their declared type.
    """
    readers = Counter(edge.source_node for edge in edges)
    reader = {
        edge.source_node: edge.target_node
        for edge in edges
        if edge.tag is None
        and not edge.encodes
        and readers[edge.source_node] == inputs[edge.target_node] == 1
        and edge.source_node not in written
    }
    followed: set[int] = set()
    for head, operator in operators.items():
        if head in followed or not isinstance(operator, RecordFunctionOperator):
            continue
        followers: list[RecordFunctionOperator] = []
        flat_maps = int(operator.step is LoopStep.FLAT_MAP)
        node = reader.get(head)
        while node is not None and isinstance(follower := operators[node], RecordFunctionOperator):
            flat_maps += follower.step is LoopStep.FLAT_MAP
            if flat_maps > MOST_FLAT_MAPS:
                break
            followers.append(follower)
            followed.add(node)
            node = reader.get(node)
        operator.lead(followers)


class ChainedInput:
    """The target end of a chained edge, which passes on lists, or batches if the operator takes those.

    `producer` is the context of the operator that emits the records. Every failure leaves as a
    UserFunctionError that names the operator in which it occurred.
    """

    def __init__(
        self,
        operator: Operator,
        number: int,
        type_info: TypeInformation | None,
        producer: OperatorContext | None = None,
    ) -> None:
        self._operator, self._type_info = operator, type_info
        self._producer = producer or operator.context
        self._columnar = operator.columnar
        process = (
            operator.process
            if number == 1
            else operator.process_second
            if number == 2
            else lambda values, timestamps: operator.process_input(number, values, timestamps)
        )
        self.collect = self._convert_values if operator.columnar else _guarded(process, operator)
        self.collect_batch = (
            _guarded(operator.process_batch, operator) if operator.columnar else self._convert_batch
        )
        self._process_batch = self.collect_batch
        self.watermark: Callable[[int], None] = self._watermark
        if operator.wants_declared_types:
            self.check_types()

    def check_types(self) -> None:
        """From here on, convert records as their type's coder does, as PyFlink does between operators.

        PyFlink encodes results only where they leave an operator, which may be fused of several functions.
        A record that the coder cannot take raises UserFunctionError.
        """
        if self._columnar or is_pickled(self._type_info):
            return
        receive, type_info = self.collect, self._type_info

        def checked(values: Values, timestamps: Timestamps) -> None:
            try:
                coerced = list(coerce(values, type_info))
            except Exception as error:
                record = misfit(values, lambda part: list(coerce(part, type_info)))
                raise failure(self._producer, error, record, MISFIT) from error
            receive(coerced, timestamps)

        self.collect = checked

    def _watermark(self, timestamp: int) -> None:
        try:
            self._operator.process_watermark(timestamp)
        except BaseException as error:
            raise self._operator.failed(error, NO_RECORD, "watermark") from error

    def _convert_values(self, values: Values, timestamps: Timestamps) -> None:
        stamps = None if timestamps is None else pa.array(timestamps, pa.int64())
        try:
            batch = batch_of_values(values, self._type_info)
        except Exception as error:
            record = misfit(values, lambda part: batch_of_values(part, self._type_info))
            raise failure(self._producer, error, record, MISFIT) from error
        self._process_batch(batch, stamps)

    def _convert_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        stamps = None if timestamps is None else timestamps.to_pylist()
        try:
            values = values_of_batch(batch, self._type_info)
        except Exception as error:
            raise failure(self._producer, error, NO_RECORD, MISFIT) from error
        self.collect(values, stamps)


def _guarded(process: Callable[[Any, Any], None], operator: Operator) -> Callable[[Any, Any], None]:
    # not *arguments: such a call takes more of the thread's stack, which a long chain nearly fills
    def guarded(records: Any, timestamps: Any) -> None:
        try:
            process(records, timestamps)
        except BaseException as error:
            raise operator.failed(error, NO_RECORD) from error

    return guarded


Receiver = ChainedInput | ChannelWriter


class OperatorOutput:
    """The Output of one operator, with all its readers."""

    def __init__(self, main: list[Receiver], sides: Mapping[str, list[Receiver]], operator_name: str) -> None:
        self._main, self._sides, self._name = main, sides, operator_name
        self._all = [*main, *(receiver for receivers in sides.values() for receiver in receivers)]
        self.records_out = 0
        # the usual case, one chained reader, costs only one call
        if len(main) == 1 and isinstance(main[0], ChainedInput):
            self.collect = main[0].collect  # type: ignore[method-assign, assignment]
            self.collect_batch = main[0].collect_batch  # type: ignore[method-assign, assignment]

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Send records to all readers of the main output, each with its own copy."""
        _collect(self._main, values, timestamps)

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Send a batch to all readers of the main output."""
        for receiver in self._main:
            receiver.collect_batch(batch, timestamps)

    def collect_side(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Send records to the readers of a side output; drop them if it has none, as Flink does."""
        _collect(self._sides.get(tag, ()), values, timestamps)

    def watermark(self, timestamp: int) -> None:
        """Send a watermark to the readers of all outputs."""
        for receiver in self._all:
            receiver.watermark(timestamp)


def _collect(receivers: Sequence[Receiver], values: Values, timestamps: Timestamps) -> None:
    """Send the records of one output to its last reader, and copies to the others.

    Writers come after chained readers and do not change records, so for them a copy of the list is enough.
    """
    for receiver in receivers[:-1]:
        copied = copies(values) if isinstance(receiver, ChainedInput) else list(values)
        receiver.collect(copied, None if timestamps is None else list(timestamps))
    for receiver in receivers[-1:]:
        receiver.collect(values, timestamps)


class Chain:
    """The running operators of one subtask."""

    def __init__(
        self,
        spec: ChainSpec,
        context: OperatorContext,
        writer: Callable[[OutputSpec, OperatorContext], ChannelWriter],
    ) -> None:
        self.spec = spec
        self.contexts = {
            operator.node: replace(
                context,
                operator_name=operator.name,
                function_name=operator.function,
                metrics={},
                plain_results=is_plain(operator.output_type),
            )
            for operator in spec.operators
        }
        self.writers = [writer(output, self.contexts[output.source_node]) for output in spec.outputs]
        self.operators: dict[int, Operator] = {
            operator.node: operator.operator for operator in spec.operators if not operator.source
        }
        self._edges_of: dict[int, list[ChainedEdge]] = {}
        for edge in spec.edges:
            self._edges_of.setdefault(edge.source_node, []).append(edge)
        inputs = Counter(edge.target_node for edge in spec.edges)
        chained = set(inputs)
        inputs.update(gate.target_node for gate in spec.gates)
        #: Heads with chained sources and other inputs: the task sends their watermarks.
        self.multiple_input_heads = [node for node, count in inputs.items() if count > 1 and node in chained]
        self.outputs: dict[int, OperatorOutput] = {}
        for operator in reversed(spec.operators):
            output = self.outputs[operator.node] = self._output_of(operator)
            if not operator.source:
                self.operators[operator.node].setup(self.contexts[operator.node], output)
        written = {output.source_node for output in spec.outputs}
        _join_functions(self.operators, spec.edges, written, inputs)

    def open(self) -> None:
        """Open the operators, tail first, then the partitioners of the writers."""
        for operator in reversed(list(self.operators.values())):
            try:
                operator.open()
            except BaseException as error:
                raise operator.failed(error, NO_RECORD, "open") from error
        for writer in self.writers:
            writer.open()

    def watermark(self, node: int, timestamp: int) -> None:
        """Pass on a watermark for a head of the chain, or from a source of it."""
        operator = self.operators.get(node)
        if operator is None:
            self.outputs[node].watermark(timestamp)
            return
        try:
            operator.process_watermark(timestamp)
        except BaseException as error:
            raise operator.failed(error, NO_RECORD, "watermark") from error

    def finish(self) -> None:
        """Finish the operators, head first, then write the buffered records."""
        for operator in self.operators.values():
            try:
                operator.finish()
            except BaseException as error:
                raise operator.failed(error, NO_RECORD, "finish") from error
        for writer in self.writers:
            writer.flush()

    def tell_cut_off(self) -> None:
        """Emit the buffered records at the ends of the chain, and a mark that later ones may be missing."""
        for operator in self.operators.values():
            if hasattr(operator, "tell_cut_off"):
                operator.tell_cut_off()
        for writer in self.writers:
            writer.tell_cut_off()

    def close(self) -> None:
        """Close partitioners and key selectors, then operators, tail first; all of them, even if one fails.

        Raises the first failure. Source: RegularOperatorChain.closeAllOperators.
        """
        failures: list[BaseException] = []
        for writer in self.writers:
            try:
                writer.close()
            except BaseException as error:
                failures.append(error)
        for operator in reversed(list(self.operators.values())):
            try:
                operator.close()
            except BaseException as error:
                try:
                    raise operator.failed(error, NO_RECORD, "close") from error
                except BaseException as described:
                    failures.append(described)
        if failures:
            raise failures[0]

    def input_of(self, node: int, number: int, type_info: TypeInformation | None) -> ChainedInput:
        """The receiver of records for input `number` of a head."""
        return ChainedInput(self.operators[node], number, type_info)

    def _output_of(self, operator: OperatorSpec) -> OperatorOutput:
        main: list[Receiver] = []
        sides: dict[str, list[Receiver]] = {}
        for edge in self._edges_of.get(operator.node, ()):
            type_info = operator.output_type if edge.tag is None else operator.side_output_types.get(edge.tag)
            target = self.operators[edge.target_node]
            reader = ChainedInput(target, edge.input_number, type_info, self.contexts[operator.node])
            if edge.encodes:
                reader.check_types()
            if edge.target_node in self.multiple_input_heads:
                # chained sources are read before the gates: until then no single input's watermark counts
                reader.watermark = _no_watermark
            (main if edge.tag is None else sides.setdefault(edge.tag, [])).append(reader)
        for output, writer in zip(self.spec.outputs, self.writers, strict=True):
            if output.source_node == operator.node:
                (main if output.tag is None else sides.setdefault(output.tag, [])).append(writer)
        return OperatorOutput(main, sides, operator.name)


def _no_watermark(timestamp: int) -> None:
    """Ignore the watermark of a source whose operator has further inputs."""


def chain_order(operators: Mapping[int, Any], edges: tuple[ChainedEdge, ...]) -> list[int]:
    """Return the nodes of a chain, every operator before its readers."""
    waiting = Counter(edge.target_node for edge in edges)
    readers: dict[int, list[int]] = {}
    for edge in edges:
        readers.setdefault(edge.source_node, []).append(edge.target_node)
    ready = deque(node for node in operators if not waiting[node])
    order: list[int] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for target in readers.get(node, ()):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return order
