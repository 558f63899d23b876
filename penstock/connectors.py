"""Sources and sinks: files and number sequences as in PyFlink; Delta tables and Nexmark events besides."""

from penstock.engine.pyflink.datastream.connectors.base import *
from penstock.engine.pyflink.datastream.connectors.file_system import *
from penstock.engine.pyflink.datastream.connectors.number_seq import *
from penstock.operators.connectors.delta.commit_delta import DeltaSink as DeltaSink
from penstock.operators.connectors.delta.delta_source import DeltaSource as DeltaSource
from penstock.operators.connectors.file_source import csv_source as csv_source
from penstock.operators.connectors.file_source import json_lines_source as json_lines_source
from penstock.operators.connectors.file_source import parquet_source as parquet_source
from penstock.operators.connectors.file_source import text_source as text_source
from penstock.operators.connectors.nexmark.source import NexmarkSource as NexmarkSource
