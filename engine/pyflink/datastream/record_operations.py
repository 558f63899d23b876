"""Operations on the single records of a stream.

Source: pyflink.datastream.data_stream.DataStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.pyflink.common.typeinfo import TupleTypeInfo, TypeInformation
from penstock.engine.pyflink.common.watermark_strategy import WatermarkStrategy
from penstock.engine.pyflink.datastream.arrow_schemas import schema_of_type
from penstock.engine.pyflink.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_function, check_methods
from penstock.engine.pyflink.datastream.pickled import Pickled
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings
from penstock.engine.run.runtime.transformations import Call, effective_parallelism
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.process.process_operators import ProcessOperator
from penstock.operators.records.map_records import FilterOperator, FlatMapOperator, MapOperator
from penstock.operators.records.project_records import Projection
from penstock.operators.records.record_batches import FilterBatchesOperator, MapBatchesOperator
from penstock.operators.records.timestamps_and_watermarks import (
    ExtractTimestampsOperator,
    TimestampsAndWatermarksOperator,
)

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream

#: A pyarrow RecordBatch to another, or to several.
BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]]


class RecordOperations(StreamSettings):
    """map, flat_map, filter, process, project, timestamps."""

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """One result for each record. Results without a declared type are pickled."""
        check_function(func, MapFunction, "map's function")
        return self._append_operator("Map", MapOperator(func), as_output_type(output_type), call=Call.PROCESS)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Any number of results for each record."""
        check_function(func, FlatMapFunction, "flat_map's function")
        return self._append_operator(
            "FlatMap", FlatMapOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def filter(self, func: Callable[[Any], Any] | FilterFunction | pc.Expression) -> DataStream:
        """The records for which the function, or a pyarrow compute expression over their fields, is true."""
        if isinstance(func, pc.Expression):
            return self._append_operator(
                "Filter", FilterBatchesOperator(func), self._transformation.output_type
            )
        check_function(func, FilterFunction, "filter's function")
        return self._append_operator(
            "Filter", FilterOperator(func), self._transformation.output_type, call=Call.PROCESS
        )

    def process(
        self, func: ProcessFunction | KeyedProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Any number of results for each record, also to side outputs.

        As in PyFlink a KeyedProcessFunction that uses neither key nor timers will do.
        """
        check_methods(func, (ProcessFunction, KeyedProcessFunction), "process's function")
        return self._append_operator(
            "PROCESS", ProcessOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def map_batches(
        self, func: BatchFunction, schema: pa.Schema | TypeInformation | str | None = None
    ) -> DataStream:
        """Vectorised: a pyarrow RecordBatch to a RecordBatch, or several, with the columns of `schema`.

        Penstock's own. The input needs a declared type of rows, tuples or basic values: a column a field, or
        the one column `value`. `schema` also takes Spark's types; None: the function's batches look like its
        input's. Columns that can become those of the schema without a loss do so; decimals are rounded.
        """
        if not callable(func):
            raise TypeError(f"map_batches needs a callable, not {type(func).__name__}")
        input_type = self._transformation.output_type
        output_type = input_type if schema is None else as_output_type(schema)
        operator = MapBatchesOperator(
            func,
            schema_of_type(input_type),
            schema_of_type(output_type),
            schema.names if isinstance(schema, pa.Schema) else None,
        )
        return self._append_operator("Map Batches", operator, output_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Tuples of these fields, in this order. TypeError unless the stream has a tuple type."""
        input_type = self._transformation.output_type
        if not isinstance(input_type, TupleTypeInfo):
            raise TypeError(f"only streams of tuples can be projected, not of {self.get_type()}")
        types = input_type.get_field_types()
        if not 1 <= len(field_indexes) <= 24:
            raise ValueError(f"project to {len(field_indexes)} fields: from 1 to 24 are possible")
        for index in field_indexes:
            if not 0 <= index < len(types):
                raise IndexError(f"field {index} of a tuple of {len(types)}")
        output_type = TupleTypeInfo([types[index] for index in field_indexes])
        return self._append_operator(
            "Projection",
            MapOperator(Projection(field_indexes)),
            output_type,
            call=Call.PROJECT,
            made_at_once=1 + self._is_keyed(),
        )

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records event time and watermarks.

        With a timestamp assigner it is the last of three operators, as in PyFlink, and has the environment's
        parallelism, otherwise its input's.
        """
        assigner = watermark_strategy.timestamp_assigner
        operator = TimestampsAndWatermarksOperator(replace(watermark_strategy, timestamp_assigner=None))
        settings: dict[str, Any] = {"call": Call.TIMESTAMPS}
        name = "Timestamps/Watermarks"
        if assigner is None:
            settings["default_parallelism"] = effective_parallelism(self._transformation)
        else:
            extract = ExtractTimestampsOperator(assigner)
            settings |= {"timestamp_extractor": Pickled(extract, "Extract-Timestamp"), "made_at_once": 3}
            name = "Remove-Timestamp"
        return self._append_operator(name, operator, self._transformation.output_type, **settings)
