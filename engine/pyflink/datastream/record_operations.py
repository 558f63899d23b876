"""Operations on the single records of a stream.

Source: pyflink.datastream.data_stream.DataStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.pyflink.datastream.operator_settings import (
    PickledCopy,
    as_output_type,
    check_function,
    check_methods,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings, schema_of_type
from penstock.engine.run.lowering.transformations import Call, effective_parallelism
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.common.time import WatermarkStrategy
from penstock.operators.common.typeinfo import (
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.functions.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from penstock.operators.process.keyed_process_operators import (
    KeyedCoFlatMapOperator,
    KeyedCoMapOperator,
    KeyedCoProcessOperator,
)
from penstock.operators.process.process_operators import CoProcessOperator, ProcessOperator
from penstock.operators.records.key_selection import KeyedRow
from penstock.operators.records.map_records import FilterOperator, FlatMapOperator, MapOperator
from penstock.operators.records.record_batches import (
    CoFlatMapOperator,
    CoMapOperator,
    ExtractTimestampsOperator,
    FilterBatchesOperator,
    MapBatchesOperator,
    Projection,
    TimestampsAndWatermarksOperator,
)

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream


# Two streams that one operator reads.
#
# Source: pyflink.datastream.data_stream.ConnectedStreams.


_Selectors = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class ConnectedStreams:
    """Two streams that one function reads; keyed if both are keyed.

    If only one is, its records are rows of key and record, without state per key.

    Args:
        stream1: The first input.
        stream2: The second input, of the same environment.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: DeclaredType | None = None,
    ) -> ConnectedStreams:
        """Partition both streams by keys of one type.

        Args:
            key_selector1: Key of the first stream: a function or KeySelector.
            key_selector2: Key of the second stream.
            key_type: Type of the keys; default: pickled Python objects.

        Returns:
            ConnectedStreams: Both keyed.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Transform each record into at most one result.

        Args:
            func: A CoMapFunction; a result of None is omitted.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, CoMapFunction, "map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoMapOperator(func, *selectors) if selectors else CoMapOperator(func)
        return self._result("Co-Map", operator, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Transform each record into any number of results.

        Args:
            func: A CoFlatMapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, CoFlatMapFunction, "flat_map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoFlatMapOperator(func, *selectors) if selectors else CoFlatMapOperator(func)
        return self._result("Co-Flat Map", operator, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results, also to side outputs.

        On keyed streams, the function has state and timers.

        Args:
            func: A CoProcessFunction or KeyedCoProcessFunction; either fits either kind of streams, as in
                PyFlink.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_methods(func, (CoProcessFunction, KeyedCoProcessFunction), "process's function")
        selectors = self._selectors()
        if selectors is None:
            return self._result("Co-Process", CoProcessOperator(func), output_type)
        return self._result("Keyed Co-Process", KeyedCoProcessOperator(func, *selectors), output_type)

    def _selectors(self) -> _Selectors | None:
        first, second = self.stream1._key_selector_or_none(), self.stream2._key_selector_or_none()
        if first is None or second is None:
            return None
        types = [stream._transformation.key_type for stream in (self.stream1, self.stream2)]
        if types[0] != types[1]:
            raise TypeError(f"connected keyed streams must have one key type, got {types[0]} and {types[1]}")
        return first, second

    def _result(self, name: str, operator: Any, output_type: TypeInformation | None) -> DataStream:
        selectors = self._selectors()
        if selectors is None:
            operator.rows = tuple(
                None if (selector := stream._key_selector_or_none()) is None else KeyedRow(selector)
                for stream in (self.stream1, self.stream2)
            )
        return self.stream1._connected_with(
            self.stream2,
            name,
            operator,
            as_output_type(output_type),
            key_selectors=selectors or (),
            call=Call.CO_PROCESS,
        )


# Streams without an operator that could be named, placed or chained.
#
# Source: pyflink.datastream.data_stream.{KeyedStream,CachedDataStream}.


class UnsettableStream(StreamSettings):
    """A stream without an operator of its own: each method that would set something raises TypeError."""

    def _refuse(self, operation: str) -> NoReturn:
        raise TypeError(
            f"{operation} of a {type(self).__name__} is not supported, because it has no operator: "
            "call it on the stream before or after it"
        )

    def get_name(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:
        """Refuse a name: the stream has no operator.

        Args:
            name: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:
        """Refuse an id: the stream has no operator.

        Args:
            uid: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Refuse an operator id: the stream has no operator.

        Args:
            uid_hash: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Refuse a parallelism: the stream has no operator.

        Args:
            parallelism: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Refuse a number of key groups: the stream has no operator.

        Args:
            max_parallelism: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Refuse a buffer timeout: the stream has no operator.

        Args:
            timeout_millis: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Raise TypeError, always: the stream has no operator."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        """Refuse a slot sharing group: the stream has no operator.

        Args:
            slot_sharing_group: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("slot_sharing_group")

    def set_description(self, description: str) -> NoReturn:
        """Refuse a description: the stream has no operator.

        Args:
            description: Not read.

        Raises:
            TypeError: Always; call it on the stream before or after.
        """
        self._refuse("set_description")


#: A pyarrow RecordBatch to another, or to several.
BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]]


class RecordOperations(StreamSettings):
    """map, flat_map, filter, process, project, timestamps."""

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into one result.

        Args:
            func: A function of a record, or a MapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, MapFunction, "map's function")
        return self._append_operator("Map", MapOperator(func), as_output_type(output_type), call=Call.PROCESS)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results.

        Args:
            func: A function of a record that returns or yields results, or a FlatMapFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, FlatMapFunction, "flat_map's function")
        return self._append_operator(
            "FlatMap", FlatMapOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def filter(self, func: Callable[[Any], Any] | FilterFunction | pc.Expression) -> DataStream:
        """Keep the records for which a condition is true.

        Args:
            func: A function of a record, a FilterFunction, or a pyarrow compute expression over the fields.

        Returns:
            DataStream: The records that are kept, of the same type.
        """
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
        """Transform each record into any number of results, also to side outputs.

        Args:
            func: A ProcessFunction; as in PyFlink, a KeyedProcessFunction that uses neither key nor timers
                will do.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results; `get_side_output` returns the others.
        """
        check_methods(func, (ProcessFunction, KeyedProcessFunction), "process's function")
        return self._append_operator(
            "PROCESS", ProcessOperator(func), as_output_type(output_type), call=Call.PROCESS
        )

    def map_batches(
        self, func: BatchFunction, schema: pa.Schema | TypeInformation | str | None = None
    ) -> DataStream:
        """Transform record batches, vectorised.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink. The stream must have a declared type of rows, tuples or basic values: a batch has one
        column per field, or the one column `value`. Columns are cast to the schema's types if nothing is
        lost; decimals are rounded.

        Args:
            func: A function of a pyarrow.RecordBatch that returns one or yields several.
            schema: A pyarrow.Schema or Spark type of the results; default: the columns of the input.

        Returns:
            DataStream: Rows with the columns of `schema`.
        """
        if not callable(func):
            raise TypeError(f"map_batches's function must be a callable, got {type(func).__name__}")
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
        """Keep some fields of a stream of tuples.

        Args:
            *field_indexes: Numbers of fields, from 0, in the order of the result.

        Returns:
            DataStream: Tuples of these fields.

        Raises:
            TypeError: The stream has no tuple type.
        """
        input_type = self._transformation.output_type
        if not isinstance(input_type, TupleTypeInfo):
            raise TypeError(f"project: the stream must have a tuple type, got {self.get_type()}")
        types = input_type.get_field_types()
        if not 1 <= len(field_indexes) <= 24:
            raise ValueError(f"project must get 1 to 24 fields, got {len(field_indexes)}")
        for index in field_indexes:
            if not 0 <= index < len(types):
                raise IndexError(f"project: a field must be from 0 to {len(types) - 1}, got {index}")
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

        With a timestamp assigner, three operators do it, as in PyFlink; the last has the environment's
        parallelism.

        Args:
            watermark_strategy: A WatermarkStrategy.

        Returns:
            DataStream: The same records.
        """
        assigner = watermark_strategy.timestamp_assigner
        operator = TimestampsAndWatermarksOperator(replace(watermark_strategy, timestamp_assigner=None))
        settings: dict[str, Any] = {"call": Call.TIMESTAMPS}
        name = "Timestamps/Watermarks"
        if assigner is None:
            settings["default_parallelism"] = effective_parallelism(self._transformation)
        else:
            extract = ExtractTimestampsOperator(assigner)
            settings |= {"timestamp_extractor": PickledCopy(extract, "Extract-Timestamp"), "made_at_once": 3}
            name = "Remove-Timestamp"
        return self._append_operator(name, operator, self._transformation.output_type, **settings)
