"""How Flink keeps state. Scripts may make these objects; state here is in Python structures that go to disk.

Source: pyflink.datastream.state_backend.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

from operators.common.no_java import no_java


class StateBackend:
    """How state is kept."""


class HashMapStateBackend(StateBackend):
    """In memory."""


class PredefinedOptions(Enum):
    """Sets of options for RocksDB."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """In RocksDB. Its settings are kept and have no effect."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                f"enable_incremental_checkpointing {enable_incremental_checkpointing!r}: None or a bool"
            )
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths: list[str] | None = None
        self._predefined = PredefinedOptions.DEFAULT
        self._transfer_threads = 4  # RocksDBOptions.CHECKPOINT_TRANSFER_THREAD_NUM

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the folders of RocksDB's files; none: the default."""
        self._paths = list(paths) or None

    def get_db_storage_paths(self) -> list[str] | None:
        """As set; None by default."""
        return self._paths

    def is_incremental_checkpoints_enabled(self) -> bool:
        """As given; False by default."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set RocksDB's options."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """As set; DEFAULT by default."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """Raises NoJavaError: a factory of options is a class of Java."""
        no_java("EmbeddedRocksDBStateBackend.set_options")

    def get_options(self) -> str | None:
        """None: there can be no factory."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """As set; 4 by default."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set the number of threads that move files. ValueError below 1."""
        if number_of_transfering_threads < 1:
            raise ValueError(f"{number_of_transfering_threads} threads: at least 1")
        self._transfer_threads = number_of_transfering_threads


class CustomStateBackend(StateBackend):
    """A state backend written in Java. Making one raises NoJavaError."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        no_java("CustomStateBackend")
