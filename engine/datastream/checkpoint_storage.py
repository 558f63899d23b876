"""Where Flink keeps checkpoints. Scripts may make these objects; jobs here take no checkpoints.

Source: pyflink.datastream.checkpoint_storage.
"""

from __future__ import annotations

from typing import Any

from operators.common.no_java import no_java


class CheckpointStorage:
    """Where checkpoints are kept."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the JobManager's memory."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size <= 0:
            raise ValueError(f"largest state {max_state_size}: at least 1 byte")

    def get_checkpoint_path(self) -> str | None:
        """As given."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Bytes a state may have; default: 5 MiB."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """None: no constructor sets one."""
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """In files."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024
    _THRESHOLD = 20 * 1024  #: CheckpointingOptions.FS_SMALL_FILE_THRESHOLD
    _WRITE_BUFFER = 4 * 1024  #: CheckpointingOptions.FS_WRITE_BUFFER_SIZE

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ValueError("checkpoint_path must not be None")
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError(f"threshold {threshold}: from -1 to {self.MAX_FILE_STATE_THRESHOLD} bytes")
        self._checkpoint_path = checkpoint_path
        self._file_state_size_threshold = threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """As given."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """None: no constructor sets one."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Bytes below which state needs no file of its own; default: 20 KiB."""
        return self._THRESHOLD if self._file_state_size_threshold < 0 else self._file_state_size_threshold

    def get_write_buffer_size(self) -> int:
        """Bytes; default: 4 KiB."""
        return self._WRITE_BUFFER if self._write_buffer_size < 0 else self._write_buffer_size


class CustomCheckpointStorage(CheckpointStorage):
    """A storage written in Java. Making one raises NoJavaError."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        no_java("CustomCheckpointStorage")
