"""Turn calls of the DataStream API into the transformations that PyFlink makes of them.

Source: pyflink.datastream.{data_stream,stream_execution_environment,async_data_stream}, and the methods of
org.apache.flink.streaming.api.datastream that they call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock.engine.run.lowering.transformations import (
    Call,
    Compaction,
    LoweredTransformation,
    PythonOperator,
    Step,
    Transformation,
    effective_parallelism,
    reachable,
    take_ids,
)
from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.operators.process.keyed_process_operators import KeyedMapOperator
from penstock.operators.records.key_selection import KeyedRow
from penstock.operators.records.map_records import MapOperator, object_text, row_text, same_record

# The transformations of one call: its own operator, operators that PyFlink adds, and virtual ones.
#
# Source: org.apache.flink.api.dag.Transformation, pyflink.datastream.data_stream.


_SETTINGS = (
    "name",
    "chaining",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "slot_resources",
    "co_location_group",
    "description",
    "min_resources",
    "preferred_resources",
)


class TransformationMaker:
    """Makes the transformations of one call after the other, and collects them."""

    def __init__(self) -> None:
        self._ends: dict[int, LoweredTransformation] = {}
        self._made: list[LoweredTransformation] = []
        self._call: Transformation
        self._ids: Iterator[int]

    def end_of(self, call: Transformation) -> LoweredTransformation:
        """Return the last transformation of a call that was lowered."""
        return self._ends[call.created]

    def _begin(self, call: Transformation, ids: Iterable[int]) -> None:
        """Begin to make the transformations of `call`, with these ids."""
        self._call, self._made, self._ids = call, [], iter(ids)

    def _make_operator(
        self, call: Transformation, *, operator: Any = ..., inputs: Any = None, **properties: Any
    ) -> LoweredTransformation:
        """Make the operator of a call, with the author's settings."""
        passes = operator is None
        step = Step(
            name=call.name,
            transformation=next(self._ids),
            operator=None if passes else call.operator,
            pickled=None if passes else call.pickled,
            output_type=call.output_type,
            kind=call.kind,
            call=call,
            key_selectors=call.key_selectors,
        )
        settings = _settings_of(call)
        chaining = OPERATOR_KINDS[call.kind].chaining if call.kind in OPERATOR_KINDS else "ALWAYS"
        operator_of_call = LoweredTransformation(
            id=step.transformation,
            inputs=[self.end_of(read) for read in call.inputs] if inputs is None else inputs,
            managed_memory=dict(call.managed_memory),
            slot_scope=set(call.slot_scope),
            thread_mode=call.thread_mode,
            output_type=call.output_type,
            steps=(step,),
            author_settings=settings,
            **{**settings, "kind": call.kind, "chaining": call.chaining or chaining, **properties},
        )
        return self._add(operator_of_call)

    def _helper(
        self,
        name: str,
        upstream: LoweredTransformation,
        output_type: TypeInformation | None,
        operator: Any,
        *,
        runs: TypeInformation | Any = ...,
        key_selectors: tuple[Any, ...] = (),
        **properties: Any,
    ) -> LoweredTransformation:
        """Make an operator that PyFlink adds for a call.

        `runs`: type of its records when it runs here; by default the call's.
        """
        call = self._call
        step = Step(
            name=name,
            transformation=next(self._ids),
            operator=operator,
            output_type=call.output_type if runs is ... else runs,
            kind="one_input",
            call=None,
            key_selectors=key_selectors,
        )
        helper = LoweredTransformation(
            id=step.transformation,
            kind="one_input",
            name=name,
            inputs=[upstream],
            parallelism=call.environment_parallelism or -1,
            output_type=output_type,
            thread_mode=call.thread_mode,
            steps=(step,),
            **properties,
        )
        return self._add(helper)

    def _virtual(
        self, name: str, kind: str, inputs: list[LoweredTransformation], **properties: Any
    ) -> LoweredTransformation:
        return self._add(
            LoweredTransformation(
                id=next(self._ids),
                kind=kind,
                name=name,
                inputs=inputs,
                parallelism=self._call.default_parallelism or -1,
                output_type=inputs[0].output_type,
                **properties,
            )
        )

    def _add(self, operator: LoweredTransformation) -> LoweredTransformation:
        if any(operator.keyed_inputs):
            operator.slot_scope.add("STATE_BACKEND")
        self._made.append(operator)
        return operator


def _settings_of(call: Transformation) -> dict[str, Any]:
    """Return the author's settings of a call, by fields of LoweredTransformation."""
    return {
        "parallelism": call.parallelism or call.default_parallelism or -1,
        "parallelism_configured": call.parallelism is not None,
        "max_parallelism": call.max_parallelism or -1,
        "buffer_timeout": -1 if call.buffer_timeout is None else call.buffer_timeout,
        **{name: getattr(call, name) for name in _SETTINGS},
    }


def _take_later_settings(operator: LoweredTransformation, call: Transformation) -> None:
    """Copy to the operator of a call the settings that its author has changed since it was lowered."""
    before = operator.author_settings
    if before is None:
        return
    operator.author_settings = _settings_of(call)
    for name, value in operator.author_settings.items():
        if value != before[name] and not (name == "chaining" and operator.python == PythonOperator.BROADCAST):
            setattr(operator, name, value)
    operator.steps = tuple(
        replace(step, name=call.name) if step.call is call else step for step in operator.steps
    )


def _take_rows(operator: LoweredTransformation, call: Transformation) -> None:
    """Give an operator on a keyed stream the rows of key and record, if `call` has a key selector."""
    if call.key_selector is not None:
        rows = MapOperator(KeyedRow(call.key_selector))
        operator.steps = (
            replace(operator.steps[0], name="Key By", operator=rows, pickled=None, call=None),
            *operator.steps,
        )


#: PythonConfigUtil.{KEYED_STREAM_VALUE,STREAM_KEY_BY_MAP,STREAM_PARTITION_CUSTOM_MAP}_OPERATOR_NAME.
KEYED_VALUES = "_keyed_stream_values_operator"
KEY_BY_MAP = "_stream_key_by_map_operator"
PARTITION_CUSTOM_MAP = "_partition_custom_map_operator"

#: Kinds in the environment's list of transformations; the others are reached through inputs.
_REGISTERED = frozenset({"one_input", "async", "two_input", "multi_input", "sink"})
_UDF = "SimpleUdfStreamOperatorFactory"


class LoweredCalls(TransformationMaker):
    """Lowers calls to transformations, one call after the other in the order of the script."""

    def __init__(self, *, lowers_all: bool) -> None:
        super().__init__()
        self._lowers_all = lowers_all
        self._lowered: list[tuple[Transformation, LoweredTransformation]] = []
        #: Operators of earlier jobs that this one reads.
        self.earlier: list[LoweredTransformation] = []

    def lower(
        self, roots: Sequence[Transformation], planned: Sequence[LoweredTransformation] = ()
    ) -> list[LoweredTransformation]:
        """Return the transformations that calls `roots` register with the environment, in PyFlink's order.

        `planned`: transformations that an earlier plan has made of some of them, which stay unchanged. The
        inputs of `roots` are lowered, too, and reached through the inputs of the result. Sinks that collect
        records are left out: see `collect_sink`.
        """
        wanted = {root.created for root in roots}
        known = {
            step.call.created for operator in planned for step in operator.steps if step.call is not None
        }
        registered = list(planned)
        for call in reachable(roots):
            if call.call is Call.COLLECT:
                continue
            if call.lowered is not None and not self._lowers_all:
                _take_later_settings(call.lowered, call)
                self._ends[call.created] = call.lowered
                if call.created in wanted - known and call.lowered.kind in _REGISTERED:
                    registered.append(call.lowered)
                continue
            self._begin(call, range(call.first_id, call.first_id + call.made_at_once))
            self._ends[call.created] = getattr(self, f"_{call.call.name.lower()}")(call)
            self._lowered.append((call, self._ends[call.created]))
            registered_now = [operator for operator in self._made if operator.kind in _REGISTERED]
            (registered if call.created in wanted else self.earlier).extend(registered_now)
        return registered

    def store_lowered(self) -> None:
        """Store the lowered form in each call, for later jobs and plans; fusing may have replaced its inputs.

        PyFlink replaces the operator in the stream itself if a sink of the Sink V2 API reads it.
        """
        for call, end in self._lowered:
            call.lowered = end
        for call, end in self._lowered:
            if call.call is Call.SINK_TO and call.inputs[0].call is not Call.KEY_BY:
                call.inputs[0].lowered = end.inputs[0]

    def collect_sink(self, call: Transformation, upstream: LoweredTransformation) -> LoweredTransformation:
        """Make the sink of execute_and_collect with input `upstream`; call it after operators are fused."""
        self._begin(call, (take_ids(),))
        factory = "CollectSinkOperatorFactory"
        sink = self._make_operator(call, inputs=[upstream], operator_factory=factory)
        sink.uid = f"dataStreamCollect_{sink.id}"
        sink.supports_concurrent_execution_attempts = False
        _take_rows(sink, call)
        return sink

    # one method for each Call, named after it

    def _source(self, call: Transformation) -> LoweredTransformation:
        return self._make_operator(call, operator_factory="SourceOperatorFactory")

    def _legacy_source(self, call: Transformation) -> LoweredTransformation:
        return self._make_operator(call, operator_factory=_UDF, chaining=call.chaining or "HEAD")

    def _input_format(self, call: Transformation) -> LoweredTransformation:
        factory = "SimpleInputFormatOperatorFactory"
        chaining = call.chaining or "HEAD"
        return self._make_operator(call, operator_factory=factory, chaining=chaining)

    def _process(self, call: Transformation) -> LoweredTransformation:
        keyed = (True,) if call.inputs[0].call is Call.KEY_BY else ()  # for an async function
        operator = self._make_operator(
            call, kind="one_input", python=PythonOperator.PROCESS, keyed_inputs=keyed
        )
        _take_rows(operator, call)
        return operator

    def _keyed_process(self, call: Transformation) -> LoweredTransformation:
        return self._make_operator(call, python=PythonOperator.KEYED_PROCESS, keyed_inputs=(True,))

    def _window(self, call: Transformation) -> LoweredTransformation:
        python = PythonOperator.WINDOW if call.thread_mode else PythonOperator.KEYED_PROCESS
        return self._make_operator(call, python=python, keyed_inputs=(True,))

    def _co_process(self, call: Transformation) -> LoweredTransformation:
        if call.key_selectors:
            return self._make_operator(
                call, python=PythonOperator.KEYED_CO_PROCESS, keyed_inputs=(True, True)
            )
        # Flink has keyed state for the input that is keyed, although PyFlink's operator is not keyed
        keyed = tuple(read.call is Call.KEY_BY for read in call.inputs)
        return self._make_operator(
            call, python=PythonOperator.CO_PROCESS, keyed_inputs=keyed if any(keyed) else ()
        )

    def _broadcast_process(self, call: Transformation) -> LoweredTransformation:
        keyed = (True, False) if call.key_selectors else ()
        operator = self._make_operator(call, python=PythonOperator.BROADCAST, keyed_inputs=keyed)
        operator.parallelism_configured, operator.chaining = (
            True,
            "ALWAYS",
        )  # Flink reads these from the operator, not from the call
        return operator

    def _project(self, call: Transformation) -> LoweredTransformation:
        return self._make_operator(call, inputs=[self._plain(call.inputs[0])])

    def _timestamps(self, call: Transformation) -> LoweredTransformation:
        factory, name = "TimestampsAndWatermarksOperatorFactory", "Timestamps/Watermarks"
        if call.timestamp_extractor is None:
            operator = self._make_operator(call, operator_factory=factory)
            _take_rows(operator, call)
            return operator
        pair = Types.TUPLE([call.output_type or Types.PICKLED_BYTE_ARRAY(), Types.LONG()])
        extract = self._helper(
            "Extract-Timestamp",
            self.end_of(call.inputs[0]),
            pair,
            call.timestamp_extractor,
            python=PythonOperator.PROCESS,
        )
        _take_rows(extract, call)
        stamped = self._helper(name, extract, pair, call.operator, operator_factory=factory)
        return self._make_operator(call, inputs=[stamped], operator_factory=_UDF, operator=None)

    def _key_by(self, call: Transformation) -> LoweredTransformation:
        row = Types.ROW(
            [call.key_type or Types.PICKLED_BYTE_ARRAY(), call.output_type or Types.PICKLED_BYTE_ARRAY()]
        )
        upstream = self.end_of(call.inputs[0])
        return self._partition(
            call, self._helper(KEY_BY_MAP, upstream, row, None, python=PythonOperator.PROCESS)
        )

    def _partition_custom(self, call: Transformation) -> LoweredTransformation:
        row = Types.ROW([Types.INT(), call.output_type or Types.PICKLED_BYTE_ARRAY()])
        upstream, python = self.end_of(call.inputs[0]), PythonOperator.PROCESS
        partitioned = self._partition(
            call, self._helper(PARTITION_CUSTOM_MAP, upstream, row, None, python=python)
        )
        return self._make_operator(call, inputs=[partitioned], kind="one_input", python=python, operator=None)

    def _partition(
        self, call: Transformation, upstream: LoweredTransformation | None = None
    ) -> LoweredTransformation:
        upstream = upstream or self.end_of(call.inputs[0])
        partitioner = "custom" if call.call is Call.PARTITION_CUSTOM else call.partitioner
        return self._virtual(
            "Partition", "partition", [upstream], partitioner=partitioner, partition_call=call
        )

    def _union(self, call: Transformation) -> LoweredTransformation:
        return self._virtual("Union", "union", [self._plain(read) for read in call.inputs])

    def _side_output(self, call: Transformation) -> LoweredTransformation:
        side = self._virtual("SideOutput", "side_output", [self.end_of(call.inputs[0])], tag=call.tag)
        side.output_type = call.output_type
        return self._make_operator(
            call, inputs=[side], kind="one_input", python=PythonOperator.PROCESS, operator=None
        )

    def _cache(self, call: Transformation) -> LoweredTransformation:
        data_set = cached_data_set(call.first_id)
        if call.cached_from is None:
            upstream = self.end_of(call.inputs[0])
            return self._virtual("Cache", "cache", [upstream], cache=data_set, cached=upstream)
        cache = self._make_operator(call, kind="cache", cache=data_set, filled=True)
        cached = call.cached_from  # computed by an earlier job
        cache.parallelism = effective_parallelism(cached) or -1
        cache.max_parallelism = cached.max_parallelism or -1
        return cache

    def _print(self, call: Transformation) -> LoweredTransformation:
        upstream, output_type = self._plain(call.inputs[0]), call.inputs[0].output_type
        if output_type is None or isinstance(output_type, RowTypeInfo):
            text = MapOperator(object_text if output_type is None else row_text)
            upstream = self._helper(
                "Map",
                upstream,
                Types.STRING(),
                text,
                python=PythonOperator.PROCESS,
                runs=Types.STRING(),
            )
        return self._make_operator(call, inputs=[upstream], operator_factory=_UDF)

    def _add_sink(self, call: Transformation) -> LoweredTransformation:
        sink = self._make_operator(call, inputs=[self._plain(call.inputs[0])], operator_factory=_UDF)
        sink.supports_concurrent_execution_attempts = call.operator.supports_concurrent_execution_attempts
        return sink

    def _sink_to(self, call: Transformation) -> LoweredTransformation:
        keyed = (True,) if call.inputs[0].call is Call.KEY_BY else ()
        sink = self._make_operator(call, operator_factory="SinkWriterOperatorFactory", keyed_inputs=keyed)
        sink.commits = needs_commit(call.operator)
        if getattr(call.operator, "compaction", None) is not None:
            sink.compaction = Compaction.ENABLED
        elif getattr(call.operator, "compaction_is_disabled", False):
            sink.compaction = Compaction.DISABLED
        sink.supports_concurrent_execution_attempts = call.operator.supports_concurrent_execution_attempts
        _take_rows(sink, call)
        return sink

    def _own(self, call: Transformation) -> LoweredTransformation:
        if call.kind == "partition":
            return self._partition(call)
        if call.kind in ("union", "side_output"):
            inputs = [self.end_of(read) for read in call.inputs]
            return self._virtual(call.name, call.kind, inputs, tag=call.tag)
        kind = OPERATOR_KINDS[call.kind]
        return self._make_operator(
            call,
            operator_factory=kind.operator_factory,
            keyed_inputs=tuple(True for _ in call.key_selectors),
        )

    def _plain(self, call: Transformation) -> LoweredTransformation:
        """Return the last transformation of a call; for a keyed stream, an operator after it that removes the
        keys from its records (KeyedStream._values).
        """
        records = self.end_of(call)
        if call.call is not Call.KEY_BY:
            return records
        assert call.key_selector is not None
        values = KeyedMapOperator(same_record, call.key_selector)
        return self._helper(
            KEYED_VALUES,
            records,
            call.output_type,
            values,
            python=PythonOperator.KEYED_PROCESS,
            keyed_inputs=(True,),
            key_selectors=(call.key_selector,),
            runs=call.output_type,
        )


def cached_data_set(transformation: int) -> str:
    """Return the id of the data set of a cached stream, 32 hex digits, which Flink draws at random."""
    return hashlib.md5(f"cache {transformation}".encode(), usedforsecurity=False).hexdigest()
