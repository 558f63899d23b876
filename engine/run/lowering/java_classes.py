"""Names the Java classes that run a transformation, where PyFlink's API alone decides them.

Source: the operators of org.apache.flink.streaming.api.operators.python, the translators of
org.apache.flink.streaming.runtime.translators.{PythonBroadcastStateTransformationTranslator,
PythonKeyedBroadcastStateTransformationTranslator,CacheTransformationTranslator}.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.engine.run.runtime.lowered_transformation import LoweredTransformation, PythonOperator
from penstock.engine.run.runtime.transformations import Call
from penstock.operators.connectors.file_sinks.file_sink import StreamingFileSink

_OPERATORS = "org.apache.flink.streaming.api.operators."
_FUNCTIONS = "org.apache.flink.streaming.api.functions."
_RUNTIME = "org.apache.flink.streaming.runtime."
_COMPACTOR = "org.apache.flink.connector.file.sink.compactor.operator."
_STREAMING_FILE_SINK = f"{_FUNCTIONS}sink.filesystem.legacy.StreamingFileSink"
_CACHES = f"{_RUNTIME}translators.CacheTransformationTranslator$"
CACHE_WRITE, CACHE_READ = "CacheWrite", "CacheRead"


class JavaClasses(NamedTuple):
    """Binary names of an operator's class and its function's; None: there is none, or it is not known."""

    operator: str | None = None
    function: str | None = None


_BY_FACTORY = {
    "CollectSinkOperatorFactory": JavaClasses(
        f"{_OPERATORS}collect.CollectSinkOperator", f"{_OPERATORS}collect.CollectSinkFunction"
    ),
    "CommitterOperatorFactory": JavaClasses(f"{_RUNTIME}operators.sink.CommitterOperator"),
    "SimpleInputFormatOperatorFactory": JavaClasses(
        f"{_OPERATORS}StreamSource", f"{_FUNCTIONS}source.legacy.InputFormatSourceFunction"
    ),
    "CompactCoordinatorFactory": JavaClasses(f"{_COMPACTOR}CompactCoordinator"),
    "CompactCoordinatorStateHandlerFactory": JavaClasses(f"{_COMPACTOR}CompactCoordinator"),
    "CompactorOperatorStateHandlerFactory": JavaClasses(f"{_COMPACTOR}CompactorOperator"),
    "CompactorOperatorFactory": JavaClasses(f"{_COMPACTOR}CompactorOperator"),
    "SinkWriterOperatorFactory": JavaClasses(f"{_RUNTIME}operators.sink.SinkWriterOperator"),
    "SourceOperatorFactory": JavaClasses(f"{_OPERATORS}SourceOperator"),
    "TimestampsAndWatermarksOperatorFactory": JavaClasses(
        f"{_RUNTIME}operators.TimestampsAndWatermarksOperator"
    ),
}
_BY_CALL = {
    Call.ADD_SINK: JavaClasses(f"{_OPERATORS}StreamSink"),
    Call.LEGACY_SOURCE: JavaClasses(f"{_OPERATORS}StreamSource"),
    Call.PRINT: JavaClasses(f"{_OPERATORS}StreamSink", f"{_FUNCTIONS}sink.legacy.PrintSinkFunction"),
    Call.PROJECT: JavaClasses(f"{_OPERATORS}StreamProject"),
    Call.TIMESTAMPS: JavaClasses(
        f"{_OPERATORS}StreamMap", f"{_FUNCTIONS}python.eventtime.RemoveTimestampMapFunction"
    ),
}
_CACHE_OPERATORS = {
    CACHE_WRITE: JavaClasses(f"{_CACHES}NoOpStreamOperator"),
    CACHE_READ: JavaClasses(f"{_CACHES}IdentityStreamOperator"),
}
_PYTHON_OPERATORS = {
    PythonOperator.PROCESS: "PythonProcessOperator",
    PythonOperator.KEYED_PROCESS: "PythonKeyedProcessOperator",
    PythonOperator.WINDOW: "PythonWindowOperator",
    PythonOperator.CO_PROCESS: "PythonCoProcessOperator",
    PythonOperator.KEYED_CO_PROCESS: "PythonKeyedCoProcessOperator",
}


def java_classes(operator: LoweredTransformation, *, batch: bool) -> JavaClasses:
    """The classes of a physical transformation."""
    if operator.python is not None:
        place = "embedded.Embedded" if operator.thread_mode else "process.External"
        keyed = any(operator.keyed_inputs)
        if operator.python == PythonOperator.BROADCAST:
            in_batch = "PythonBatchKeyedCoBroadcastProcessOperator", "PythonBatchCoBroadcastProcessOperator"
            in_streaming = "PythonKeyedCoProcessOperator", "PythonCoProcessOperator"
            name = (in_batch if batch else in_streaming)[0 if keyed else 1]
        else:
            name = _PYTHON_OPERATORS[operator.python]
        return JavaClasses(f"{_OPERATORS}python.{place}{name}")
    if operator.cache is not None:
        return _CACHE_OPERATORS[operator.name]
    if operator.operator_factory in _BY_FACTORY:
        return _BY_FACTORY[operator.operator_factory]
    call = operator.steps[-1].call if operator.steps else None
    if call is not None and isinstance(call.operator, StreamingFileSink):
        return JavaClasses(f"{_OPERATORS}StreamSink", _STREAMING_FILE_SINK)
    return JavaClasses() if call is None else _BY_CALL.get(call.call, JavaClasses())
