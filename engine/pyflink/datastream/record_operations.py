"""Operations on the single records of a stream.

Source: pyflink.datastream.data_stream.DataStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.pyflink.common.typeinfo import TupleTypeInfo, TypeInformation
from penstock.engine.pyflink.common.watermark_strategy import WatermarkStrategy
from penstock.engine.pyflink.datastream.functions import (
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
from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_function, check_methods
from penstock.engine.pyflink.datastream.pickled import Pickled
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings, schema_of_type
from penstock.engine.run.runtime.transformations import Call, effective_parallelism
from penstock.operators.common.declared_types import DeclaredType
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
    """`stream1` and `stream2`, whose types may differ; keyed where both are keyed streams.

    If only one of them is, its records are rows of key and record, and there is no state by key.
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
        """Both streams by keys of one type; records of the same key meet in the same subtask."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """At most one result for each record, by `map1` or `map2`; None is no result."""
        check_methods(func, CoMapFunction, "map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoMapOperator(func, *selectors) if selectors else CoMapOperator(func)
        return self._result("Co-Map", operator, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Any number of results for each record, by `flat_map1` or `flat_map2`."""
        check_methods(func, CoFlatMapFunction, "flat_map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoFlatMapOperator(func, *selectors) if selectors else CoFlatMapOperator(func)
        return self._result("Co-Flat Map", operator, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Any number of results for each record, with side outputs and, on keyed streams, state and timers.

        Either class of function goes with either kind of streams, as in PyFlink.
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
            raise TypeError(f"keyed streams of two key types cannot be connected: {types[0]} and {types[1]}")
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


# Streams that have no operator of their own to be named, placed or chained.
#
# Source: pyflink.datastream.data_stream.{KeyedStream,CachedDataStream}.


class UnsettableStream(StreamSettings):
    """Every setting raises TypeError."""

    def _refuse(self, operation: str) -> NoReturn:
        raise TypeError(
            f"{operation} of a {type(self).__name__} is not supported: it has no operator of its own; "
            "do this on the stream before or after it"
        )

    def get_name(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Raises TypeError."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        """Raises TypeError."""
        self._refuse("slot_sharing_group")

    def set_description(self, description: str) -> NoReturn:
        """Raises TypeError."""
        self._refuse("set_description")


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
