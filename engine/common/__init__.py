"""What PyFlink keeps in pyflink.common, under the same names."""

from importlib import import_module
from typing import Any

from engine.common.completable_future import CompletableFuture
from engine.common.config_options import ConfigOption, ConfigOptions
from engine.common.configuration import Configuration
from engine.common.execution_config import ExecutionConfig
from engine.common.input_dependency_constraint import InputDependencyConstraint
from engine.common.job_client import JobClient
from engine.common.job_execution_result import JobExecutionResult
from engine.common.job_id import JobID
from engine.common.job_status import JobStatus
from engine.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from engine.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from engine.common.serializer import TypeSerializer
from engine.common.time import Duration, Instant, Time
from engine.common.typeinfo import TypeInformation, Types
from engine.common.types import Row, RowKind
from engine.common.watermark_strategy import AssignerWithPeriodicWatermarksWrapper, WatermarkStrategy
from engine.pyflink_names.other_names import other_name

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

#: Old places of schemas; these modules import this one.
_FORMATS = {
    "CsvRowDeserializationSchema": "engine.datastream.formats.csv",
    "CsvRowSerializationSchema": "engine.datastream.formats.csv",
    "JsonRowDeserializationSchema": "engine.datastream.formats.json",
    "JsonRowSerializationSchema": "engine.datastream.formats.json",
}


def __getattr__(name: str) -> Any:
    if name in _FORMATS:
        return getattr(import_module(_FORMATS[name]), name)
    return other_name("pyflink.common", name)
