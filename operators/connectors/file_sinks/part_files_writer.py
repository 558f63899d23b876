"""Writes the part files of a bucketed sink in one subtask.

Source: org.apache.flink.connector.file.sink.writer.{FileWriter,FileWriterBucket} and
org.apache.flink.streaming.api.functions.sink.filesystem.{Buckets,Bucket}.
"""

from __future__ import annotations

import posixpath
import uuid
from typing import Any, Protocol

import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.connectors.file_sinks.file_sink_settings import (
    BucketAssigner,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.operators.connectors.file_sinks.staged_files import StagedFiles
from penstock.operators.connectors.sink import Committable, SinkWriter
from penstock.operators.formats.part_formats import PartFormat, RowFormat


class PartFileSettings(Protocol):
    """The settings of a sink's part files."""

    base_path: str
    write_id: str
    part_format: PartFormat
    rolling_policy: RollingPolicy
    bucket_assigner: BucketAssigner
    output_file_config: OutputFileConfig
    names_by_bucket: bool  #: names count within a bucket and have a random part; else within a subtask


class _Part:
    """The open file of a bucket; `opened` and `written` are milliseconds since the epoch."""

    def __init__(self, stream: Any, staged: str, writer: Any, name: str, number: int, opened: int) -> None:
        self.stream, self.staged, self.writer, self.name, self.number = stream, staged, writer, name, number
        self.opened = self.written = opened
        self.size = 0


class PartFilesWriter(SinkWriter):
    """One open file per bucket; a new one where the rolling policy says so."""

    def __init__(self, sink: PartFileSettings, context: OperatorContext) -> None:
        self._sink, self._context = sink, context
        self._files = StagedFiles(sink.base_path, sink.write_id, context)
        self._format, self._policy = sink.part_format, sink.rolling_policy
        self._parts: dict[str, _Part] = {}
        self._numbers: dict[str, int] = {}
        self._done: list[Committable] = []

    def write(self, values: Values, timestamps: Timestamps) -> None:
        """Into the bucket of the present moment."""
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
            if part.size > limit:  # as in Flink: the record that goes over the limit is still in the old file
                self._roll(bucket)
                part = self._part(bucket, now)
            part.stream.write(record)
            part.size += len(record)

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Into the bucket of the present moment."""
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
        counted = bucket if sink.names_by_bucket else ""
        number = self._numbers.get(counted, 0)
        self._numbers[counted] = number + 1
        # the same for every attempt, so that a repeated commit finds what the first one did
        owner = str(uuid.uuid5(_NAMES, f"{sink.write_id}/{subtask}/{bucket}"))
        config = sink.output_file_config
        part = owner if sink.names_by_bucket else str(subtask)
        name = f"{config.get_part_prefix()}-{part}-{number}{config.get_part_suffix()}"
        return posixpath.join(bucket, name), number


_NAMES = uuid.UUID("6f5ac1a4-3f0e-4a8e-9d0a-0b6f5f7d7f11")
