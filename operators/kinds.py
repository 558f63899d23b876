"""Flink's operator for each physical kind of transformation.

Source: the translators in `org.apache.flink.streaming.runtime.translators`, and the operator (factory)
classes that they and the DataStream API use: SourceOperatorFactory, StreamSource, StreamMap,
AsyncWaitOperatorFactory, CoStreamMap, StreamSink, SinkWriterOperatorFactory, CommitterOperatorFactory,
GlobalCommitterOperator.
"""

from typing import NamedTuple


class OperatorKind(NamedTuple):
    """Properties of an operator that planning reads."""

    name_prefix: str  #: the translator's prefix of the author's name
    invokable: str  #: simple class name of the task that runs it as head of a chain
    operator_factory: str  #: simple class name
    chaining: str  #: chaining strategy unless the author sets one
    source: bool = False  #: FLIP-27 source operator
    legacy_source: bool = False
    yielding: bool = False
    multiple_inputs: bool = False  #: whether its edges are numbered by input, from 1
    operator_class: str | None = None  #: binary name, if the kind decides it


_RUNTIME = "org.apache.flink.streaming.runtime."
_CACHES = f"{_RUNTIME}translators.CacheTransformationTranslator$"

OPERATOR_KINDS: dict[str, OperatorKind] = {
    "source": OperatorKind(
        "Source: ", "SourceOperatorStreamTask", "SourceOperatorFactory", "ALWAYS", source=True
    ),
    "legacy_source": OperatorKind(
        "Source: ", "SourceStreamTask", "SimpleUdfStreamOperatorFactory", "ALWAYS", legacy_source=True
    ),
    "cache_read": OperatorKind(
        "",
        "OneInputStreamTask",
        "SimpleOperatorFactory",
        "ALWAYS",
        operator_class=f"{_CACHES}IdentityStreamOperator",
    ),
    "one_input": OperatorKind("", "OneInputStreamTask", "SimpleUdfStreamOperatorFactory", "ALWAYS"),
    "async": OperatorKind("", "OneInputStreamTask", "AsyncWaitOperatorFactory", "ALWAYS", yielding=True),
    "two_input": OperatorKind(
        "", "TwoInputStreamTask", "SimpleUdfStreamOperatorFactory", "ALWAYS", multiple_inputs=True
    ),
    "multi_input": OperatorKind(
        "",
        "MultipleInputStreamTask",
        "MultipleInputOperatorFactory",
        "HEAD_WITH_SOURCES",
        multiple_inputs=True,
    ),
    "sink": OperatorKind("Sink: ", "OneInputStreamTask", "SimpleUdfStreamOperatorFactory", "ALWAYS"),
    "writer": OperatorKind(
        "",
        "OneInputStreamTask",
        "SinkWriterOperatorFactory",
        "ALWAYS",
        yielding=True,
        operator_class=f"{_RUNTIME}operators.sink.SinkWriterOperator",
    ),
    "committer": OperatorKind(
        "",
        "OneInputStreamTask",
        "CommitterOperatorFactory",
        "ALWAYS",
        operator_class=f"{_RUNTIME}operators.sink.CommitterOperator",
    ),
    "global_committer": OperatorKind("", "OneInputStreamTask", "SimpleOperatorFactory", "ALWAYS"),
    "cache_write": OperatorKind(
        "",
        "OneInputStreamTask",
        "SimpleOperatorFactory",
        "HEAD",
        operator_class=f"{_CACHES}NoOpStreamOperator",
    ),
}
