"""Sources and sinks: files and number sequences as in PyFlink; Delta tables and Nexmark events besides."""

from engine.datastream.connectors.base import *  # noqa: F403
from engine.datastream.connectors.file_system import *  # noqa: F403
from engine.datastream.connectors.number_seq import *  # noqa: F403
from operators.connectors.delta.delta_sink import DeltaSink as DeltaSink
from operators.connectors.delta.delta_source import DeltaSource as DeltaSource
from operators.connectors.file_sources import csv_source as csv_source
from operators.connectors.file_sources import json_lines_source as json_lines_source
from operators.connectors.file_sources import parquet_source as parquet_source
from operators.connectors.file_sources import text_source as text_source
from operators.connectors.nexmark.source import NexmarkSource as NexmarkSource
