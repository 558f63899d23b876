"""Sinks of files in one folder: text, CSV, JSON lines, Parquet.

Each subtask writes one file, `part-<subtask>-<write id><suffix>`, into `path`, next to others. All files
become visible at the commit. A subtask without records writes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import orjson
import pyarrow as pa

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.file_sinks.staged_files import (
    StagedFiles,
    abort_files,
    commit_files,
    make_staging_folder,
    prepare_files,
)
from penstock.operators.connectors.sink import Committable, Recovery, Sink, SinkWriter
from penstock.operators.files.lines import python_charset
from penstock.operators.formats.json_values import to_json
from penstock.operators.formats.part_formats import (
    CsvColumnsFormat,
    ParquetFormat,
    PartFormat,
    PartWriter,
    RowFormat,
    TextLines,
)


class PartFileSink(Sink):
    """One file per subtask, of one format."""

    def __init__(self, path: str, part_format: PartFormat, suffix: str) -> None:
        super().__init__()
        self.path, self.part_format, self.suffix = path, part_format, suffix
        self.columnar = part_format.columnar

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        """The sink for one run; see Sink.start."""
        started = super().start(write_id, type_info)
        started.part_format = self.part_format.for_type(type_info)
        return started

    def begin(self) -> None:
        """Make the folder that subtasks stage in."""
        make_staging_folder(self.path, self.write_id)

    def writer(self, context: OperatorContext) -> SinkWriter:
        """A writer of one file."""
        name = f"part-{context.subtask:05d}-{self.write_id}{self.suffix}"
        return _OneFile(StagedFiles(self.path, self.write_id, context), self.part_format, name)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        """Nothing but forcing names to the disk."""
        prepare_files(self.path, self.write_id, committables)
        return committables

    def commit(self, committables: list[Committable]) -> None:
        commit_files(self.path, self.write_id, committables)

    def recovery(self) -> Recovery:
        """By renaming."""
        return Recovery("files", self.path)

    def abort(self, committables: list[Committable] | None = None) -> None:
        """Delete what is staged."""
        abort_files(self.path, self.write_id)


class TextSink(PartFileSink):
    """One line per record, as Java's toString has it; strings as they are. LookupError: unknown charset."""

    def __init__(self, path: str, *, charset: str = "UTF-8", suffix: str = ".txt") -> None:
        super().__init__(path, TextLines(python_charset(charset)), suffix)


class CsvSink(PartFileSink):
    """CSV with a header (see CsvColumnsFormat). TypeError for types without columns, or with nested ones."""

    def __init__(
        self, path: str, type_info: TypeInformation, *, header: bool = True, delimiter: str = ","
    ) -> None:
        super().__init__(path, CsvColumnsFormat(type_info, header=header, delimiter=delimiter), ".csv")


class JsonLinesSink(PartFileSink):
    """One JSON value per line: rows as objects; without `type_info`, each value as orjson writes it.

    Floats are as orjson writes them; infinities and NaN are null.
    """

    def __init__(self, path: str, type_info: TypeInformation | None = None) -> None:
        super().__init__(path, JsonLinesFormat(type_info), ".jsonl")


class ParquetSink(PartFileSink):
    """Parquet (see ParquetFormat). TypeError for types without columns."""

    def __init__(
        self,
        path: str,
        type_info: TypeInformation,
        *,
        row_group_rows: int = 131_072,
        compression: str = "snappy",
    ) -> None:
        super().__init__(path, ParquetFormat(type_info, row_group_rows, compression), ".parquet")


class JsonLinesFormat(RowFormat):
    """A JSON value and a line feed for each record."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info
        to_json(type_info, java_numbers=False)  # TypeError now, not in the subtasks

    def encode(self, values: Values) -> list[bytes]:
        """The lines. TypeError for values that JSON has no form of."""
        convert: Callable[[Any], Any] = to_json(self.type_info, java_numbers=False)
        dumps, option = orjson.dumps, orjson.OPT_APPEND_NEWLINE
        return [dumps(convert(value), None, option) for value in values]


class _OneFile(SinkWriter):
    """The one file of an attempt, opened with the first record."""

    def __init__(self, files: StagedFiles, part_format: PartFormat, name: str) -> None:
        self._files, self._format, self._name = files, part_format, name
        self._stream: Any = None
        self._staged = ""

    def write(self, values: Values, timestamps: Timestamps) -> None:
        self._opened().write(values)

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        self._opened().write_batch(batch)

    def finish(self) -> list[Committable]:
        if self._stream is None:
            return []
        self._part.finish()
        self._stream.close()
        return [self._files.committable(self._staged, self._name)]

    def abort(self) -> None:
        if self._stream is not None:
            self._part.close()
            self._stream.close()
        self._files.remove()

    def _opened(self) -> PartWriter:
        if self._stream is None:
            self._stream, self._staged = self._files.open(self._name)
            self._part = self._format.open(self._stream)
        return self._part
