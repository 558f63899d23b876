"""The file sinks of PyFlink's API, and their builders.

Source: org.apache.flink.connector.file.sink.FileSink, and
org.apache.flink.streaming.api.functions.sink.filesystem.legacy.StreamingFileSink.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import require_text
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.base import StreamTransformer, SupportsPreprocessing
from penstock.operators.connectors.file_sinks.compaction import (
    FileCompactor,
    FileCompactStrategy,
    compacted,
    is_compacted,
)
from penstock.operators.connectors.file_sinks.file_sink_settings import (
    BucketAssigner,
    DateTimeBucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.operators.connectors.file_sinks.part_files_writer import PartFilesWriter
from penstock.operators.connectors.file_sinks.staged_files import (
    abort_files,
    commit_files,
    make_staging_folder,
    prepare_files,
)
from penstock.operators.connectors.sink import Committable, Recovery, Sink, SinkWriter
from penstock.operators.formats.part_formats import PartFormat
from penstock.operators.formats.serialization import BulkWriterFactory, Encoder


class BucketedFileSink(Sink):
    """Part files in buckets (folders) below `base_path`, written by `part_format`.

    All settings of the builders are attributes. Files become visible when the job has finished.
    """

    #: Names of part files count within a bucket and have a random part; else within a subtask.
    names_by_bucket = True

    def __init__(self, base_path: str, part_format: PartFormat, rolling_policy: RollingPolicy) -> None:
        super().__init__()
        self.base_path = require_text(base_path, "base_path")
        self.part_format, self.rolling_policy = part_format, rolling_policy
        self.columnar = part_format.columnar
        self.bucket_assigner: BucketAssigner = DateTimeBucketAssigner()
        self.output_file_config = OutputFileConfig("part", "")
        self.compaction: tuple[FileCompactStrategy, FileCompactor] | None = None
        self.compaction_is_disabled = False  #: by a call of the author's

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        """The sink for one run; see Sink.start."""
        started = super().start(write_id, type_info)
        started.part_format = self.part_format.for_type(type_info)
        return started

    def begin(self) -> None:
        """Make the folder that subtasks stage in."""
        make_staging_folder(self.base_path, self.write_id)

    def writer(self, context: OperatorContext) -> SinkWriter:
        """A writer of part files."""
        return PartFilesWriter(self, context)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        """Compact if asked to; force names to the disk."""
        prepared = self._compacted(committables)
        prepare_files(self.base_path, self.write_id, prepared)
        return prepared

    def commit(self, committables: list[Committable]) -> None:
        """Rename; compact before, where `prepare` was left out."""
        commit_files(self.base_path, self.write_id, self._compacted(committables))

    def recovery(self) -> Recovery:
        """By renaming."""
        return Recovery("files", self.base_path)

    def abort(self, committables: list[Committable] | None = None) -> None:
        """Delete what is staged."""
        abort_files(self.base_path, self.write_id)

    def _compacted(self, committables: list[Committable]) -> list[Committable]:
        if self.compaction is None or all(map(is_compacted, committables)):
            return committables
        ordered = sorted(
            committables, key=lambda committable: (committable.subtask, committable.details["number"])
        )
        return compacted(self.base_path, self.write_id, ordered, *self.compaction)


class _Builder:
    def __init__(self, sink: BucketedFileSink) -> None:
        self._sink = sink

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted (milliseconds): times are checked when records come."""
        if interval <= 0:
            raise ValueError(f"the bucket check interval must be positive, not {interval}")
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Set the assigner of folders for records; one per hour unless set."""
        self._sink.bucket_assigner = _require_type(bucket_assigner, BucketAssigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Set the beginning and end of the names of part files."""
        self._sink.output_file_config = _require_type(output_file_config, OutputFileConfig)
        return self


class FileSink(BucketedFileSink, SupportsPreprocessing):
    """Part files `<prefix>-<id>-<number><suffix>` in buckets; made by for_row_format and for_bulk_format.

    Within a bucket, each subtask has an id and numbers its files from 0.
    """

    supports_concurrent_execution_attempts = True

    def get_transformer(self) -> StreamTransformer | None:
        """None: records need no conversion before they are written."""
        return None

    class BaseBuilder(_Builder):
        """The methods that builders for row formats and bulk formats share."""

        _sink: FileSink

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Make larger files out of small ones at the commit, on the driver."""
            self._sink.compaction = (
                _require_type(strategy, FileCompactStrategy),
                _require_type(compactor, FileCompactor),
            )
            return self

        def disable_compact(self) -> Self:
            """Leave files as they are, which is the default, unless `enable_compact` is called, too.

            The plan then has operators for what an earlier job has left to compact, as Flink's.
            """
            self._sink.compaction_is_disabled = True
            return self

        def with_rolling_policy(self, rolling_policy: Any) -> Self:
            """When a new part file is begun."""
            raise NotImplementedError

        def build(self) -> FileSink:
            """The sink."""
            return copy.copy(self._sink)

    class RowFormatBuilder(BaseBuilder):
        """Builds a sink of encoded records."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """When a new part file is begun; 128 MiB or a minute unless set."""
            self._sink.rolling_policy = _require_type(rolling_policy, RollingPolicy)
            return self

    class BulkFormatBuilder(BaseBuilder):
        """Builds a sink of CSV or Parquet files."""

        def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> Self:
            """Bulk formats know only this policy. ValueError for another one."""
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ValueError("rolling_policy must be OnCheckpointRollingPolicy for bulk format")
            return self

    @staticmethod
    def for_row_format(base_path: str, encoder: Any) -> FileSink.RowFormatBuilder:
        """Start building a sink of records that an Encoder writes."""
        return FileSink.RowFormatBuilder(
            FileSink(base_path, _require_type(encoder, Encoder).part_format, DefaultRollingPolicy())
        )

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> FileSink.BulkFormatBuilder:
        """Start building a sink of files that a BulkWriterFactory writes."""
        return FileSink.BulkFormatBuilder(
            FileSink(
                base_path,
                _require_type(writer_factory, BulkWriterFactory).part_format,
                OnCheckpointRollingPolicy(),
            )
        )


class StreamingFileSink(BucketedFileSink):
    """Part files `<prefix>-<subtask>-<number><suffix>` in buckets; older than FileSink.

    PyFlink leaves the last files of a bounded input unfinished under hidden names; here they are committed.
    A file of an earlier run that has the same name is replaced, as in Flink.
    """

    names_by_bucket = False

    class BaseBuilder(_Builder):
        """The methods that builders for row formats and bulk formats share."""

        _sink: StreamingFileSink

        def with_rolling_policy(self, policy: Any) -> Self:
            """When a new part file is begun."""
            raise NotImplementedError

        def build(self) -> StreamingFileSink:
            """The sink; DeprecationWarning."""
            warnings.warn("StreamingFileSink is deprecated: use FileSink", DeprecationWarning, stacklevel=2)
            return copy.copy(self._sink)

    class DefaultRowFormatBuilder(BaseBuilder):
        """Builds a sink of encoded records."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            """When a new part file is begun; 128 MiB or a minute unless set."""
            self._sink.rolling_policy = _require_type(policy, RollingPolicy)
            return self

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Builds a sink of CSV or Parquet files."""

        def with_rolling_policy(self, policy: OnCheckpointRollingPolicy) -> Self:
            """Bulk formats know only this policy. ValueError for another one."""
            if not isinstance(policy, OnCheckpointRollingPolicy):
                raise ValueError("policy must be OnCheckpointRollingPolicy for bulk format")
            return self

    @staticmethod
    def for_row_format(base_path: str, encoder: Any) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Start building a sink of records that an Encoder writes."""
        sink = StreamingFileSink(
            base_path, _require_type(encoder, Encoder).part_format, DefaultRollingPolicy()
        )
        return StreamingFileSink.DefaultRowFormatBuilder(sink)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Start building a sink of files that a BulkWriterFactory writes."""
        sink = StreamingFileSink(
            base_path,
            _require_type(writer_factory, BulkWriterFactory).part_format,
            OnCheckpointRollingPolicy(),
        )
        return StreamingFileSink.DefaultBulkFormatBuilder(sink)


def _require_type(value: Any, expected: type) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"found {type(value).__name__} instead of a {expected.__name__}")
    return value
