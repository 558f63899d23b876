"""The file sinks of PyFlink's API, and their builders.

Source: org.apache.flink.connector.file.sink.FileSink, and
org.apache.flink.streaming.api.functions.sink.filesystem.legacy.StreamingFileSink.
"""

from __future__ import annotations

import copy
import posixpath
import uuid
import warnings
from typing import Any, Protocol, Self

import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.common.arguments import require_text
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.file_sink_settings import (
    BucketAssigner,
    DateTimeBucketAssigner,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
    compacted,
    is_compacted,
)
from penstock.operators.connectors.sink import (
    Committable,
    Recovery,
    Sink,
    SinkWriter,
    StreamTransformer,
    SupportsPreprocessing,
)
from penstock.operators.connectors.staged_files import (
    StagedFiles,
    abort_files,
    commit_files,
    make_staging_folder,
    prepare_files,
)
from penstock.operators.formats.part_formats import BulkWriterFactory, Encoder, PartFormat, RowFormat

# The writer of the part files of a bucketed sink in one subtask
#
# Source: org.apache.flink.connector.file.sink.writer.{FileWriter,FileWriterBucket} and
# org.apache.flink.streaming.api.functions.sink.filesystem.{Buckets,Bucket}.


class PartFileSettings(Protocol):
    """The settings of a sink's part files."""

    base_path: str
    write_id: str
    part_format: PartFormat
    rolling_policy: RollingPolicy
    bucket_assigner: BucketAssigner
    output_file_config: OutputFileConfig
    names_by_bucket: bool  #: names count per bucket and have a random part; otherwise they count per subtask


class _Part:
    """The open file of a bucket; `opened` and `written` are milliseconds since the epoch."""

    def __init__(self, stream: Any, staged: str, writer: Any, name: str, number: int, opened: int) -> None:
        self.stream, self.staged, self.writer, self.name, self.number = stream, staged, writer, name, number
        self.opened = self.written = opened
        self.size = 0


class PartFilesWriter(SinkWriter):
    """Writes one file per bucket at a time, and a new one when the rolling policy requires it."""

    def __init__(self, sink: PartFileSettings, context: OperatorContext) -> None:
        self._sink, self._context = sink, context
        self._files = StagedFiles(sink.base_path, sink.write_id, context)
        self._format, self._policy = sink.part_format, sink.rolling_policy
        self._parts: dict[str, _Part] = {}
        self._numbers: dict[str, int] = {}
        self._done: list[Committable] = []

    def write(self, values: Values, timestamps: Timestamps) -> None:
        """Write records into the bucket of the current time."""
        now = self._context.processing_time()
        bucket = self._sink.bucket_assigner.bucket(now)
        part = self._part(bucket, now)
        part.written = now
        limit = self._policy.part_size
        if limit is None or not isinstance(self._format, RowFormat):
            part.writer.write(values)
            return
        encoded = self._format.encode(values)
        total = sum(map(len, encoded))
        if part.size + total <= limit:
            part.stream.write(b"".join(encoded))
            part.size += total
            return
        for record in encoded:
            if part.size > limit:  # as in Flink: the record that exceeds the limit is still in the old file
                self._roll(bucket)
                part = self._part(bucket, now)
            part.stream.write(record)
            part.size += len(record)

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Write a batch into the bucket of the current time."""
        now = self._context.processing_time()
        self._part(self._sink.bucket_assigner.bucket(now), now).writer.write_batch(batch)

    def finish(self) -> list[Committable]:
        """Close all files."""
        for bucket in list(self._parts):
            self._roll(bucket)
        return self._done

    def abort(self) -> None:
        """Close and delete all files."""
        for part in self._parts.values():
            part.writer.close()
            part.stream.close()
        self._files.remove()

    def _part(self, bucket: str, now: int) -> _Part:
        part = self._parts.get(bucket)
        if part is not None and self._is_old(part, now):
            self._roll(bucket)
            part = None
        if part is None:
            name, number = self._next_name(bucket)
            stream, staged = self._files.open(name)
            part = self._parts[bucket] = _Part(stream, staged, self._format.open(stream), name, number, now)
        return part

    def _is_old(self, part: _Part, now: int) -> bool:
        policy = self._policy
        if policy.rollover_interval is None or policy.inactivity_interval is None:
            return False
        return (
            now - part.opened >= policy.rollover_interval or now - part.written >= policy.inactivity_interval
        )

    def _roll(self, bucket: str) -> None:
        part = self._parts.pop(bucket)
        part.writer.finish()
        part.stream.close()
        unique = self._sink.names_by_bucket
        self._done.append(
            self._files.committable(part.staged, part.name, {"number": part.number}, is_unique=unique)
        )

    def _next_name(self, bucket: str) -> tuple[str, int]:
        sink, subtask = self._sink, self._context.subtask
        counter_key = bucket if sink.names_by_bucket else ""
        number = self._numbers.get(counter_key, 0)
        self._numbers[counter_key] = number + 1
        # the same for every attempt, so that a repeated commit finds the files of the first one
        owner = str(uuid.uuid5(_NAMES, f"{sink.write_id}/{subtask}/{bucket}"))
        config = sink.output_file_config
        part = owner if sink.names_by_bucket else str(subtask)
        name = f"{config.get_part_prefix()}-{part}-{number}{config.get_part_suffix()}"
        return posixpath.join(bucket, name), number


_NAMES = uuid.UUID("6f5ac1a4-3f0e-4a8e-9d0a-0b6f5f7d7f11")


class BucketedFileSink(Sink):
    """Writes part files in buckets (folders) below `base_path`, in the format `part_format`.

    All settings of the builders are attributes. Files become visible when the job has finished.
    """

    #: Names of part files count per bucket and have a random part; otherwise they count per subtask.
    names_by_bucket = True

    def __init__(self, base_path: str, part_format: PartFormat, rolling_policy: RollingPolicy) -> None:
        super().__init__()
        self.base_path = require_text(base_path, "base_path")
        self.part_format, self.rolling_policy = part_format, rolling_policy
        self.columnar = part_format.columnar
        self.bucket_assigner: BucketAssigner = DateTimeBucketAssigner()
        self.output_file_config = OutputFileConfig("part", "")
        self.compaction: tuple[FileCompactStrategy, FileCompactor] | None = None
        self.compaction_is_disabled = False  #: set by a call of the author

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        started = super().start(write_id, type_info)
        started.part_format = self.part_format.for_type(type_info)
        return started

    def begin(self) -> None:
        make_staging_folder(self.base_path, self.write_id)

    def writer(self, context: OperatorContext) -> SinkWriter:
        return PartFilesWriter(self, context)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        prepared = self._compacted(committables)
        prepare_files(self.base_path, self.write_id, prepared)
        return prepared

    def commit(self, committables: list[Committable]) -> None:
        # compacted again only if `prepare` was skipped
        commit_files(self.base_path, self.write_id, self._compacted(committables))

    def recovery(self) -> Recovery:
        return Recovery("files", self.base_path)

    def abort(self, committables: list[Committable] | None = None) -> None:
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
        """Accept Flink's interval of checks, without effect: files are checked whenever records arrive.

        Args:
            interval: Milliseconds, above 0.

        Returns:
            This builder.

        Raises:
            ValueError: Not above 0.
        """
        if interval <= 0:
            raise ValueError(f"the bucket check interval must be positive, got {interval}")
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Set the folder of each record.

        Args:
            bucket_assigner: A BucketAssigner; default: one folder per hour of the clock.

        Returns:
            This builder.

        Raises:
            TypeError: Not a BucketAssigner.
        """
        self._sink.bucket_assigner = _require_type(bucket_assigner, BucketAssigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Set prefix and suffix of the names of part files.

        Args:
            output_file_config: An OutputFileConfig; default: "part" and no suffix.

        Returns:
            This builder.

        Raises:
            TypeError: Not an OutputFileConfig.
        """
        self._sink.output_file_config = _require_type(output_file_config, OutputFileConfig)
        return self


class FileSink(BucketedFileSink, SupportsPreprocessing):
    """Writes part files `<prefix>-<id>-<number><suffix>` in buckets.

    Each subtask has an id in a bucket, and numbers its files from 0. Made by `for_row_format` and
    `for_bulk_format`.
    """

    supports_concurrent_execution_attempts = True

    def get_transformer(self) -> StreamTransformer | None:
        return None

    class BaseBuilder(_Builder):
        """The methods that builders for row formats and bulk formats share."""

        _sink: FileSink

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Merge small files of a bucket into larger ones at the commit, on the driver.

            Args:
                strategy: A FileCompactStrategy: the size of the merged files.
                compactor: A FileCompactor: the way to merge.

            Returns:
                This builder.

            Raises:
                TypeError: Not objects of these classes.
            """
            self._sink.compaction = (
                _require_type(strategy, FileCompactStrategy),
                _require_type(compactor, FileCompactor),
            )
            return self

        def disable_compact(self) -> Self:
            """Do not merge files, which is the default; `enable_compact` prevails.

            Plans then have the operators that would merge files of an earlier job, as in Flink.

            Returns:
                This builder.
            """
            self._sink.compaction_is_disabled = True
            return self

        def with_rolling_policy(self, rolling_policy: Any) -> Self:
            """Set the condition under which a part file ends.

            Args:
                rolling_policy: A RollingPolicy that the format supports.

            Returns:
                This builder.
            """
            raise NotImplementedError

        def build(self) -> FileSink:
            """Return the sink."""
            return copy.copy(self._sink)

    class RowFormatBuilder(BaseBuilder):
        """Builds a sink of encoded records."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set the size and age at which a part file ends.

            Args:
                rolling_policy: A RollingPolicy; default: 128 MiB, or a minute since the first or last record.

            Returns:
                This builder.

            Raises:
                TypeError: Not a RollingPolicy.
            """
            self._sink.rolling_policy = _require_type(rolling_policy, RollingPolicy)
            return self

    class BulkFormatBuilder(BaseBuilder):
        """Builds a sink of CSV or Parquet files."""

        def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> Self:
            """Accept the only rolling policy of bulk formats, one file per subtask and bucket.

            Args:
                rolling_policy: An OnCheckpointRollingPolicy.

            Returns:
                This builder.

            Raises:
                ValueError: Another policy.
            """
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ValueError("rolling_policy must be OnCheckpointRollingPolicy for bulk format")
            return self

    @staticmethod
    def for_row_format(base_path: str, encoder: Any) -> FileSink.RowFormatBuilder:
        """Start building a sink of encoded records.

        Args:
            base_path: A folder; it is made if missing.
            encoder: An Encoder.

        Returns:
            FileSink.RowFormatBuilder: `build()` ends it.
        """
        return FileSink.RowFormatBuilder(
            FileSink(base_path, _require_type(encoder, Encoder).part_format, DefaultRollingPolicy())
        )

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> FileSink.BulkFormatBuilder:
        """Start building a sink of CSV or Parquet files.

        Args:
            base_path: A folder; it is made if missing.
            writer_factory: A BulkWriterFactory.

        Returns:
            FileSink.BulkFormatBuilder: `build()` ends it.
        """
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
            """Set the condition under which a part file ends.

            Args:
                policy: A RollingPolicy that the format supports.

            Returns:
                This builder.
            """
            raise NotImplementedError

        def build(self) -> StreamingFileSink:
            """Return the sink, with a DeprecationWarning: FileSink replaces it."""
            warnings.warn("StreamingFileSink is deprecated: use FileSink", DeprecationWarning, stacklevel=2)
            return copy.copy(self._sink)

    class DefaultRowFormatBuilder(BaseBuilder):
        """Builds a sink of encoded records."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            """Set the size and age at which a part file ends.

            Args:
                policy: A RollingPolicy; default: 128 MiB, or a minute since the first or last record.

            Returns:
                This builder.

            Raises:
                TypeError: Not a RollingPolicy.
            """
            self._sink.rolling_policy = _require_type(policy, RollingPolicy)
            return self

    class DefaultBulkFormatBuilder(BaseBuilder):
        """Builds a sink of CSV or Parquet files."""

        def with_rolling_policy(self, policy: OnCheckpointRollingPolicy) -> Self:
            """Accept the only rolling policy of bulk formats, one file per subtask and bucket.

            Args:
                policy: An OnCheckpointRollingPolicy.

            Returns:
                This builder.

            Raises:
                ValueError: Another policy.
            """
            if not isinstance(policy, OnCheckpointRollingPolicy):
                raise ValueError("policy must be OnCheckpointRollingPolicy for bulk format")
            return self

    @staticmethod
    def for_row_format(base_path: str, encoder: Any) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Start building a sink of encoded records.

        Args:
            base_path: A folder; it is made if missing.
            encoder: An Encoder.

        Returns:
            StreamingFileSink.DefaultRowFormatBuilder: `build()` ends it.

        Raises:
            TypeError: Not an Encoder.
        """
        sink = StreamingFileSink(
            base_path, _require_type(encoder, Encoder).part_format, DefaultRollingPolicy()
        )
        return StreamingFileSink.DefaultRowFormatBuilder(sink)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: Any) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Start building a sink of CSV or Parquet files.

        Args:
            base_path: A folder; it is made if missing.
            writer_factory: A BulkWriterFactory.

        Returns:
            StreamingFileSink.DefaultBulkFormatBuilder: `build()` ends it.

        Raises:
            TypeError: Not a BulkWriterFactory.
        """
        sink = StreamingFileSink(
            base_path,
            _require_type(writer_factory, BulkWriterFactory).part_format,
            OnCheckpointRollingPolicy(),
        )
        return StreamingFileSink.DefaultBulkFormatBuilder(sink)


def _require_type(value: Any, expected: type) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"a {expected.__name__} is required, got {type(value).__name__}")
    return value
