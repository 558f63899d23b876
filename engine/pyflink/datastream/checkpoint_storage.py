"""Where checkpoints are stored. Source: pyflink.datastream.checkpoint_storage.

Bounded jobs here take no checkpoints; these classes only hold the settings.
"""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import urlsplit

from penstock.operators.common.no_java import no_java


class CheckpointStorage:
    """A place for checkpoints."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """The memory of Flink's JobManager.

    ValueError for a path without scheme (file:, hdfs:, …) or a size that is not positive.
    """

    #: Bytes, 5 MB.
    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else _checked_path(checkpoint_path)
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size <= 0:
            raise ValueError(f"max_state_size {max_state_size}: it has to be positive")

    def get_checkpoint_path(self) -> str | None:
        """Folder of the checkpoints' metadata."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """How many bytes one state may have."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Folder of savepoints: none is set here."""
        return None

    def __str__(self) -> str:
        return (
            f"JobManagerCheckpointStorage (checkpoints to JobManager) ( maxStateSize: {self._max_state_size})"
        )


class FileSystemCheckpointStorage(CheckpointStorage):
    """Files below a folder.

    Sizes of -1 stand for the options' values. ValueError for a path that is None, the root or without scheme,
    a threshold outside -1 to 1 MB, or a buffer size below -1.
    """

    #: Bytes, 1 MB.
    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ValueError("checkpoint_path must not be None")
        self._checkpoint_path = _checked_path(checkpoint_path)
        self._threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._write_buffer_size = write_buffer_size
        if not -1 <= self._threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError(
                f"file_state_size_threshold {self._threshold}: -1 to {self.MAX_FILE_STATE_THRESHOLD}"
            )
        if write_buffer_size < -1:
            raise ValueError(f"write_buffer_size {write_buffer_size}: at least -1")

    def get_checkpoint_path(self) -> str:
        """Folder of the checkpoints."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Folder of savepoints: none is set here."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Bytes below which state lies in the metadata; 20 KB unless set."""
        return 20 * 1024 if self._threshold < 0 else self._threshold

    def get_write_buffer_size(self) -> int:
        """Bytes of a writer's buffer; 4 KB unless set."""
        return 4096 if self._write_buffer_size < 0 else self._write_buffer_size


class CustomCheckpointStorage(CheckpointStorage):
    """A storage written in Java; NoJavaError, always."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        no_java("CustomCheckpointStorage")


def _checked_path(text: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme:
        raise ValueError(f"checkpoint_path {text!r}: it needs a scheme such as file: or hdfs:")
    folder = posixpath.normpath(parts.path or "/")
    if folder in ("/", "//"):
        raise ValueError(f"checkpoint_path {text!r}: not the root folder")
    return f"{parts.scheme}:{f'//{parts.netloc}' if parts.netloc else ''}{folder}"
