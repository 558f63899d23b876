"""The names of pyflink.common."""

from importlib import import_module
from typing import Any

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
from penstock.engine.pyflink_names.modules import other_name
from penstock.operators.common.basic_types import TypeSerializer
from penstock.operators.common.configuration import ConfigOption, ConfigOptions, Configuration
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import (
    AssignerWithPeriodicWatermarksWrapper,
    Duration,
    Instant,
    Time,
    WatermarkStrategy,
)
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.formats.part_formats import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)

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

#: Schemas at their old names; imported late, because modules of formats import this one.
_FORMATS = {
    "CsvRowDeserializationSchema": "penstock.operators.formats.csv_schemas",
    "CsvRowSerializationSchema": "penstock.operators.formats.csv_schemas",
    "JsonRowDeserializationSchema": "penstock.operators.formats.json_values",
    "JsonRowSerializationSchema": "penstock.operators.formats.json_values",
}


def __getattr__(name: str) -> Any:
    if name in _FORMATS:
        return getattr(import_module(_FORMATS[name]), name)
    return other_name("pyflink.common", name)
