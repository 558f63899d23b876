"""Sources and sinks: files and number sequences as in PyFlink; Delta tables and Nexmark events besides."""

from penstock.operators.connectors.commit_delta import DeltaSink as DeltaSink
from penstock.operators.connectors.delta_source import DeltaSource as DeltaSource
from penstock.operators.connectors.file_sink import FileSink as FileSink
from penstock.operators.connectors.file_sink import StreamingFileSink as StreamingFileSink
from penstock.operators.connectors.file_sink_settings import BucketAssigner as BucketAssigner
from penstock.operators.connectors.file_sink_settings import (
    DefaultRollingPolicy as DefaultRollingPolicy,
)
from penstock.operators.connectors.file_sink_settings import FileCompactor as FileCompactor
from penstock.operators.connectors.file_sink_settings import (
    FileCompactStrategy as FileCompactStrategy,
)
from penstock.operators.connectors.file_sink_settings import (
    OnCheckpointRollingPolicy as OnCheckpointRollingPolicy,
)
from penstock.operators.connectors.file_sink_settings import OutputFileConfig as OutputFileConfig
from penstock.operators.connectors.file_sink_settings import RollingPolicy as RollingPolicy
from penstock.operators.connectors.file_source import FileEnumeratorProvider as FileEnumeratorProvider
from penstock.operators.connectors.file_source import FileSource as FileSource
from penstock.operators.connectors.file_source import FileSourceBuilder as FileSourceBuilder
from penstock.operators.connectors.file_source import FileSplitAssignerProvider as FileSplitAssignerProvider
from penstock.operators.connectors.file_source import csv_source as csv_source
from penstock.operators.connectors.file_source import json_lines_source as json_lines_source
from penstock.operators.connectors.file_source import parquet_source as parquet_source
from penstock.operators.connectors.file_source import text_source as text_source
from penstock.operators.connectors.nexmark import NexmarkSource as NexmarkSource
from penstock.operators.connectors.sink import DeliveryGuarantee as DeliveryGuarantee
from penstock.operators.connectors.sink import Sink as Sink
from penstock.operators.connectors.sink import StreamTransformer as StreamTransformer
from penstock.operators.connectors.sink import SupportsPreprocessing as SupportsPreprocessing
from penstock.operators.connectors.source import NumberSequenceSource as NumberSequenceSource
from penstock.operators.connectors.source import Source as Source
from penstock.operators.connectors.staged_files import CsvSink as CsvSink
from penstock.operators.connectors.staged_files import JsonLinesSink as JsonLinesSink
from penstock.operators.connectors.staged_files import ParquetSink as ParquetSink
from penstock.operators.connectors.staged_files import TextSink as TextSink
from penstock.operators.formats.csv_files import BulkFormat as BulkFormat
from penstock.operators.formats.csv_files import StreamFormat as StreamFormat
