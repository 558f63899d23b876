"""Sources of streams, and plans of an environment's jobs.

Source: pyflink.datastream.stream_execution_environment; org.apache.flink.streaming.api.environment.
StreamExecutionEnvironment.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.pyflink.datastream.data_stream import DataStream, KeyedStream
from penstock.engine.pyflink.datastream.environment_options import EnvironmentOptions
from penstock.engine.pyflink.datastream.operator_settings import PickledCopy, as_output_type, check_source
from penstock.engine.run.lowering.transformations import Call, Job, topology_of
from penstock.operators.common.arguments import no_java, require_text
from penstock.operators.common.declared_types import DeclaredType, declared_type
from penstock.operators.common.time import Duration, WatermarkStrategy
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.collection import CollectionSource
from penstock.operators.connectors.source import Source
from penstock.plans.errors import JobCompileError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_plan_lines import to_execution_plan_lines, to_plan_lines
from penstock.plans.vocabulary import Layer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Input formats of sources. Source: pyflink.common.io.


class InputFormat:
    """A format that a source reads. Penstock's formats are its subclasses.

    Raises NoJavaError if it is constructed from a Java object.
    """

    def __init__(self, j_input_format: Any = None) -> None:
        if j_input_format is not None:
            no_java("InputFormat")


# The plan of a job as plan JSON (docs/plan-json.md), made in this process.


def job_plan(topology: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the section `stream_graph` or `job_graph` of the plan.

    Raises JobCompileError with Flink's error if Flink refuses the job.
    """
    until = Layer.STREAM_GRAPH if section == "stream_graph" else Layer.JOB_GRAPH
    tables = plan_in_process([topology], PlanOptions(until)).tables
    line = json.loads(to_plan_lines({name: from_arrow(table) for name, table in tables.items()})["line"][0])
    planned_section: dict[str, Any] = require_planned(topology, line)[section]
    return planned_section


def require_planned(topology: Mapping[str, Any], line: dict[str, Any]) -> dict[str, Any]:
    """Return `line`, the plan of `topology`. Raises JobCompileError with Flink's error if it is a refusal."""
    if "error" in line:
        raise JobCompileError(
            f"job {topology['name']!r} cannot be planned ({line['error']}): {line['message']}"
        )
    return line


# Flink's JSON of a StreamGraph, for its plan visualizer.
#
# Source: org.apache.flink.streaming.api.graph.JSONGenerator.


def execution_plan_json(job: Job) -> str:
    """Return nodes by id, sinks last: id, type, pact, contents, parallelism, predecessors.

    Raises JobCompileError if Flink refuses the job.
    """
    topology = topology_of(job)
    tables = plan_in_process([topology], PlanOptions(Layer.STREAM_GRAPH)).tables
    lines = to_execution_plan_lines({name: from_arrow(table) for name, table in tables.items()})
    plan = require_planned(topology, json.loads(lines["line"][0]))["execution_plan"]
    nodes = job.lowered.submitted.physical
    for node in plan["nodes"]:
        node["contents"] = nodes[node["id"]].description or node["contents"]
    return json.dumps(plan, indent=2, ensure_ascii=False)


class EnvironmentSources(EnvironmentOptions, ABC):
    """from_collection, from_source, add_source, create_input, from_dataframe."""

    def from_collection(self, collection: Sequence[Any], type_info: DeclaredType | None = None) -> DataStream:
        """Make a stream of the elements of a collection, in one subtask.

        Args:
            collection: A list or other iterable.
            type_info: Type of the elements; default: pickled Python objects.

        Returns:
            DataStream: The elements, in order.

        Raises:
            TypeError: An element is not of the type.
            ValueError: An element is out of the type's range.
        """
        source = CollectionSource(collection, as_output_type(type_info))
        stream = self._source("legacy_source", "Collection Source", source, type_info, Call.INPUT_FORMAT)
        return stream.force_non_parallel()

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: DeclaredType | None = None,
    ) -> DataStream:
        """Make a stream of the records of a source.

        Args:
            source: A source of penstock.connectors.
            watermark_strategy: Timestamps and watermarks of the records.
            source_name: Name of the operator.
            type_info: Type of the records; default: the source's.

        Returns:
            DataStream: The records.

        Raises:
            TypeError: `source` is not a source.
        """
        check_source(source)
        require_text(source_name, "source_name")
        stream = self._source("source", source_name, source, type_info or source.type_info, Call.SOURCE)
        stream._transformation.watermark_strategy = _copy_strategy(watermark_strategy)
        return stream

    def add_source(
        self,
        source_func: Source,
        source_name: str = "Custom Source",
        type_info: DeclaredType | None = None,
    ) -> DataStream:
        """Make a stream of the records of a source function.

        Args:
            source_func: A source of penstock.connectors; each is a source function, too.
            source_name: Name of the operator; default "Custom Source".
            type_info: Type of the records; default: the source's.

        Returns:
            DataStream: The records.
        """
        check_source(source_func)
        return self._source(
            "legacy_source", source_name, source_func, type_info or source_func.type_info, Call.LEGACY_SOURCE
        )

    def create_input(
        self, input_format: InputFormat | Source, type_info: DeclaredType | None = None
    ) -> DataStream:
        """Make a stream of the records of an input format.

        Args:
            input_format: A source of penstock.connectors.
            type_info: Type of the records; default: the source's.

        Returns:
            DataStream: The records.

        Raises:
            TypeError: Another input format.
        """
        source = check_source(input_format)
        return self._source(
            "legacy_source",
            "Custom File Source",
            source,
            type_info or source.type_info,
            Call.INPUT_FORMAT,
        )

    @overload
    def from_dataframe(
        self,
        df: DataFrame,
        type_info: DeclaredType | None = None,
        *,
        event_time: str | None = None,
        watermark: str | timedelta | Duration | None = None,
        key: None = None,
    ) -> DataStream: ...

    @overload
    def from_dataframe(
        self,
        df: DataFrame,
        type_info: DeclaredType | None = None,
        *,
        event_time: str | None = None,
        watermark: str | timedelta | Duration | None = None,
        key: str | Sequence[str],
    ) -> KeyedStream: ...

    def from_dataframe(
        self,
        df: DataFrame,
        type_info: DeclaredType | None = None,
        *,
        event_time: str | None = None,
        watermark: str | timedelta | Duration | None = None,
        key: str | Sequence[str] | None = None,
    ) -> DataStream:
        """Read the rows of a Spark DataFrame, lazily. Penstock's own: PyFlink lacks it.

        Without `event_time`, subtasks read whole partitions, one after the other. Column names match in any
        case unless the session's spark.sql.caseSensitive is true; `user.id` names a field of a struct.

        Args:
            df: A DataFrame that is not streaming.
            type_info: Type of the rows, whose fields match the columns by position; columns are cast to
                fields of Spark's types. Default: the columns, with the values that PySpark's own functions
                receive.
            event_time: Column of the event time: timestamps, dates, or milliseconds since the epoch. Rows are
                read in its order.
            watermark: Largest delay of a row: an interval such as "10 seconds", a timedelta or a Duration, 0
                or more; default 0.
            key: Column or columns by which the stream is keyed.

        Returns:
            DataStream: The rows; a KeyedStream with `key`.

        Raises:
            TypeError: A streaming DataFrame, a column whose values functions cannot receive, or an
                `event_time` or `key` that is not a name.
            ValueError: A column that is missing or ambiguous, or an invalid interval.
            ConfigurationError: The session of `df` has been stopped.
        """
        from penstock.engine.pyflink.datastream.dataframe_streams import dataframe_source, keys_of_rows

        declared = None if type_info is None else declared_type(type_info, "type_info of from_dataframe")
        source = dataframe_source(df, declared, event_time, watermark)
        stream = self._source("source", "DataFrame", source, source.type_info, Call.SOURCE)
        if key is None:
            return stream
        return stream.key_by(*keys_of_rows(df, source.type_info, key))

    @abstractmethod
    def _source(
        self, kind: str, name: str, source: Any, type_info: TypeInformation | None, call: Call
    ) -> DataStream:
        """Return the stream of a source."""


def _copy_strategy(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Copy `strategy` and its timestamp assigner, so that later changes do not affect them."""
    if strategy.timestamp_assigner is None:
        return strategy
    assigner: Any = PickledCopy(strategy.timestamp_assigner, "from_source")
    return replace(strategy, timestamp_assigner=assigner)
