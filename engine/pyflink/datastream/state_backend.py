"""Where Flink keeps state. Source: pyflink.datastream.state_backend.

State here lives in Python structures of each subtask and goes to disk beyond a configured size, whatever the
backend; these classes only hold the settings.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn
from urllib.parse import urlsplit

from penstock.operators.common.no_java import no_java


class StateBackend:
    """A way to keep state."""


class HashMapStateBackend(StateBackend):
    """State as objects on the heap."""

    def __str__(self) -> str:
        return "org.apache.flink.runtime.state.hashmap.HashMapStateBackend"


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB. TypeError for another argument than None, True or False."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                "enable_incremental_checkpointing has to be None, True or False, not "
                f"{enable_incremental_checkpointing!r}"
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._transfer_threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local folders of RocksDB's files; none: the default. ValueError for others."""
        self._paths = [_local_path(path) for path in paths] or None

    def get_db_storage_paths(self) -> list[str] | None:
        """The local folders of RocksDB's files; None: the default."""
        return None if self._paths is None else list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are incremental; False unless enabled."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose a set of RocksDB's options. TypeError for anything else."""
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"PredefinedOptions are needed, not {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The chosen set of RocksDB's options."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """NoJavaError: the factory would be a Java class."""
        no_java(f"EmbeddedRocksDBStateBackend.set_options({options_factory_class_name!r})")

    def get_options(self) -> str | None:
        """Name of the Java class of the options' factory: there is none."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """How many threads move files; 4 unless set."""
        return 4 if self._transfer_threads is None else self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set how many threads move files. ValueError below 1."""
        if number_of_transfering_threads < 1:
            raise ValueError(f"{number_of_transfering_threads} transfer threads: at least 1")
        self._transfer_threads = number_of_transfering_threads

    def __str__(self) -> str:
        paths = "null" if self._paths is None else f"[{', '.join(self._paths)}]"
        incremental = "UNDEFINED" if self._incremental is None else str(self._incremental).upper()
        threads = -1 if self._transfer_threads is None else self._transfer_threads
        return (
            f"EmbeddedRocksDBStateBackend{{, localRocksDbDirectories={paths}, "
            f"enableIncrementalCheckpointing={incremental}, numberOfTransferThreads={threads}, "
            "writeBatchSize=-1}"
        )


class PredefinedOptions(Enum):
    """Sets of RocksDB's options by the hardware they are for."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class CustomStateBackend(StateBackend):
    """A backend written in Java; NoJavaError, always."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        no_java("CustomStateBackend")


def _local_path(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"path {text!r}: it is not local")
    if not parts.path.startswith("/"):
        raise ValueError(f"path {text!r}: it has to be absolute")
    return parts.path
