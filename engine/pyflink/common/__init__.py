"""What PyFlink keeps in pyflink.common, under the same names."""

from importlib import import_module
from typing import Any

from penstock.engine.pyflink.common.config_options import ConfigOption, ConfigOptions
from penstock.engine.pyflink.common.configuration import Configuration
from penstock.engine.pyflink.common.execution_config import (
    ExecutionConfig,
    InputDependencyConstraint,
    RestartStrategies,
    RestartStrategyConfiguration,
)
from penstock.engine.pyflink.common.job_client import (
    CompletableFuture,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
)
from penstock.engine.pyflink.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.engine.pyflink.common.serializer import TypeSerializer
from penstock.engine.pyflink.common.time import Duration, Instant, Time
from penstock.engine.pyflink.common.typeinfo import TypeInformation, Types
from penstock.engine.pyflink.common.types import Row, RowKind
from penstock.engine.pyflink.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    WatermarkStrategy,
)
from penstock.engine.pyflink_names.modules import other_name

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
    "CsvRowDeserializationSchema": "penstock.engine.pyflink.datastream.formats.csv",
    "CsvRowSerializationSchema": "penstock.engine.pyflink.datastream.formats.csv",
    "JsonRowDeserializationSchema": "penstock.engine.pyflink.datastream.formats.json",
    "JsonRowSerializationSchema": "penstock.engine.pyflink.datastream.formats.json",
}


def __getattr__(name: str) -> Any:
    if name in _FORMATS:
        return getattr(import_module(_FORMATS[name]), name)
    return other_name("pyflink.common", name)
