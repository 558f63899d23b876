"""Compaction: several part files of a bucket become one before they are committed.

Source: org.apache.flink.connector.file.sink.compactor.{FileCompactStrategy,ConcatFileCompactor,
IdenticalFileCompactor} and operator.CompactCoordinator for which files go together.
"""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import fs

from penstock.operators.common.no_java import NoJavaError
from penstock.operators.connectors.file_sinks.staged_files import staging_folder
from penstock.operators.connectors.sink import Committable
from penstock.operators.files.durable_files import force_file
from penstock.operators.files.filesystem import filesystem_of

_COMPACTED = "compacted"


@dataclass(frozen=True)
class FileCompactStrategy:
    """When enough files are there to be made one. Over bounded input there is one checkpoint, the end."""

    size_threshold: int = -1  #: bytes; -1: no limit
    num_checkpoints_before_compaction: int = -1
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """A builder without any condition."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a FileCompactStrategy."""

        def __init__(self) -> None:
            self._strategy = FileCompactStrategy()

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compact after this many checkpoints. ValueError for a number that is not positive."""
            if num_checkpoints_before_compaction <= 0:
                raise ValueError("the number of checkpoints before compaction must be more than 0")
            self._strategy = replace(
                self._strategy, num_checkpoints_before_compaction=num_checkpoints_before_compaction
            )
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact when there are files of this many bytes."""
            self._strategy = replace(self._strategy, size_threshold=size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accepted: the driver compacts file by file. ValueError for a number that is not positive."""
            if num_compact_threads <= 0:
                raise ValueError("the number of compact threads must be more than 0")
            self._strategy = replace(self._strategy, num_compact_threads=num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy. ValueError without any condition."""
            if self._strategy.size_threshold < 0 and self._strategy.num_checkpoints_before_compaction < 0:
                raise ValueError("a compaction strategy needs a size threshold or a number of checkpoints")
            return self._strategy


class FileCompactor:
    """Makes one file out of several."""

    def __init__(self, *java: Any) -> None:
        raise NoJavaError(
            "FileCompactor of a Java class: Penstock runs without Flink's JVM; supported: "
            "concat_file_compactor, identical_file_compactor"
        )

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """The files one after the other, with `file_delimiter` between neighbours."""
        return ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """The only file as it is; ValueError at the commit where there are several."""
        return IdenticalFileCompactor()

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        """Write `output` from `inputs`, paths in `system`."""
        raise NotImplementedError


class ConcatFileCompactor(FileCompactor):
    """Files one after the other."""

    def __init__(self, file_delimiter: bytes) -> None:
        self.file_delimiter = file_delimiter

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        """Copy all of them."""
        with system.open_output_stream(output, compression=None) as target:
            for number, path in enumerate(inputs):
                if number:
                    target.write(self.file_delimiter)
                with system.open_input_stream(path, compression=None) as source:
                    shutil.copyfileobj(source, target, 1 << 20)


class IdenticalFileCompactor(FileCompactor):
    """One file as it is."""

    def __init__(self) -> None:
        pass

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        """Copy the only one."""
        if len(inputs) != 1:
            raise ValueError(f"identical_file_compactor takes one file, not {len(inputs)}")
        system.copy_file(inputs[0], output)


def compacted(
    base: str,
    write_id: str,
    committables: Iterable[Committable],
    strategy: FileCompactStrategy,
    compactor: FileCompactor,
) -> list[Committable]:
    """One committable for each pack of files of a bucket, named `compacted-` and the first file's name.

    A pack is full when its files reach the threshold; may be repeated after a failure.
    """
    system, inside = filesystem_of(base)
    folder = posixpath.join(staging_folder(inside, write_id), "compacted")
    packs: dict[str, list[list[Committable]]] = {}
    for committable in committables:
        bucket_packs = packs.setdefault(posixpath.dirname(committable.target), [[]])
        bucket_packs[-1].append(committable)
        if 0 <= strategy.size_threshold <= sum(file.size for file in bucket_packs[-1]):
            bucket_packs.append([])
    result: list[Committable] = []
    for bucket, bucket_packs in packs.items():
        for pack in filter(None, bucket_packs):
            target = posixpath.join(bucket, f"compacted-{posixpath.basename(pack[0].target)}")
            staged = posixpath.join(folder, str(len(result)))
            there = system.get_file_info(target)
            if there.type != fs.FileType.File:
                system.create_dir(folder, recursive=True)
                compactor.compact(system, [committable.staged for committable in pack], staged)
                force_file(system, staged)
                there = system.get_file_info(staged)
            size = there.size
            result.append(Committable(staged, target, size, pack[0].subtask, {_COMPACTED: True}))
    return result


def is_compacted(committable: Committable) -> bool:
    """Whether `compacted` made it."""
    return _COMPACTED in committable.details
