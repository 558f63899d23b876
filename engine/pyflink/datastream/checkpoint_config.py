"""Settings of checkpoints. Source: pyflink.datastream.checkpoint_config, CheckpointingOptions."""

from __future__ import annotations

import posixpath
from enum import Enum
from typing import Any, NoReturn
from urllib.parse import urlsplit

from penstock.engine.pyflink.common.execution_config import get_duration, set_duration, set_key
from penstock.operators.common.arguments import no_java, require_kind
from penstock.operators.common.configuration import Configuration
from penstock.operators.common.time import Duration

# The storage of checkpoints. Source: pyflink.datastream.checkpoint_storage.
#
# Bounded jobs here take no checkpoints; these classes only hold the settings.


class CheckpointStorage:
    """Base of the places where Flink stores checkpoints."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Stores checkpoints in the memory of Flink's JobManager.

    Args:
        checkpoint_path: Folder of the checkpoints' metadata: a URI with a scheme such as file: or hdfs:, or
            None.
        max_state_size: Largest size of one state, bytes, 1 or more; default 5 MiB.

    Raises:
        ValueError: A path without scheme, the root folder, or a size below 1.
    """

    #: Bytes, 5 MB.
    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = None if checkpoint_path is None else _checked_path(checkpoint_path)
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size <= 0:
            raise ValueError(f"max_state_size must be positive, got {max_state_size}")

    def get_checkpoint_path(self) -> str | None:
        """Return the folder of the checkpoints' metadata, or None."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Return the largest size of one state, in bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return None: no folder of savepoints is set here."""
        return None

    def __str__(self) -> str:
        return (
            f"JobManagerCheckpointStorage (checkpoints to JobManager) ( maxStateSize: {self._max_state_size})"
        )


class FileSystemCheckpointStorage(CheckpointStorage):
    """Stores checkpoints as files below a folder.

    Args:
        checkpoint_path: The folder: a URI with a scheme such as file: or hdfs:; required.
        file_state_size_threshold: State of fewer bytes is stored in the metadata: 0 to 1,048,576 bytes; -1 or
            None: 20 KiB.
        write_buffer_size: Bytes of a writer's buffer, 0 or more; -1 (default): 4 KiB.

    Raises:
        ValueError: No path, a path without scheme, the root folder, or a size out of range.
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
                f"file_state_size_threshold must be from -1 to {self.MAX_FILE_STATE_THRESHOLD}, got "
                f"{self._threshold}"
            )
        if write_buffer_size < -1:
            raise ValueError(f"write_buffer_size must be at least -1, got {write_buffer_size}")

    def get_checkpoint_path(self) -> str:
        """Return the folder of the checkpoints."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Return None: no folder of savepoints is set here."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return the bytes below which state is stored in the metadata; 20 KiB unless set."""
        return 20 * 1024 if self._threshold < 0 else self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the bytes of a writer's buffer; 4 KiB unless set."""
        return 4096 if self._write_buffer_size < 0 else self._write_buffer_size


class CustomCheckpointStorage(CheckpointStorage):
    """Refuses a storage written in Java.

    Args:
        j_custom_checkpoint_storage: Not read.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        no_java("CustomCheckpointStorage")


def _checked_path(text: str) -> str:
    parts = urlsplit(text)
    if not parts.scheme:
        raise ValueError(f"checkpoint_path must have a scheme such as file: or hdfs:, got {text!r}")
    folder = posixpath.normpath(parts.path or "/")
    if folder in ("/", "//"):
        raise ValueError(f"checkpoint_path must not be the root folder, got {text!r}")
    return f"{parts.scheme}:{f'//{parts.netloc}' if parts.netloc else ''}{folder}"


# Guarantees of a recovery from a checkpoint. Source: pyflink.datastream.checkpointing_mode.


class CheckpointingMode(Enum):
    """Whether a recovery replays records into state exactly once, or at least once."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


# Checkpoints that outlive their job. Source: pyflink.datastream.externalized_checkpoint_retention.


class ExternalizedCheckpointRetention(Enum):
    """Whether the checkpoints of a cancelled job are deleted or retained."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


# Flink's state backends. Source: pyflink.datastream.state_backend.
#
# With any backend, state here is held in Python structures of each subtask, and spilled to disk beyond a
# configured size; these classes only hold the settings.


class StateBackend:
    """Base of the ways in which Flink stores state."""


class HashMapStateBackend(StateBackend):
    """Stores state as objects on the heap."""

    def __str__(self) -> str:
        return "org.apache.flink.runtime.state.hashmap.HashMapStateBackend"


class EmbeddedRocksDBStateBackend(StateBackend):
    """Stores state in RocksDB.

    Args:
        enable_incremental_checkpointing: True, False, or None (default): the cluster's setting.

    Raises:
        TypeError: Another argument.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                "enable_incremental_checkpointing must be None, True or False, got "
                f"{enable_incremental_checkpointing!r}"
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._transfer_threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local folders of RocksDB's files.

        Args:
            *paths: Absolute paths, or file: URIs; none: Flink's default.

        Raises:
            ValueError: A relative path, or another scheme.
        """
        self._paths = [_local_path(path) for path in paths] or None

    def get_db_storage_paths(self) -> list[str] | None:
        """Return the local folders of RocksDB's files; None: Flink's default."""
        return None if self._paths is None else list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints are incremental; False unless enabled."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose a set of RocksDB's options.

        Args:
            options: A PredefinedOptions.

        Raises:
            TypeError: Not a PredefinedOptions.
        """
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"options must be PredefinedOptions, got {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the chosen set of RocksDB's options; DEFAULT unless set."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """Refuse a factory of options, which would be a Java class.

        Args:
            options_factory_class_name: Named in the error.

        Raises:
            NoJavaError: Always.
        """
        no_java(f"EmbeddedRocksDBStateBackend.set_options({options_factory_class_name!r})")

    def get_options(self) -> str | None:
        """Return None: there is no factory of options."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """Return the number of threads that transfer files; 4 unless set."""
        return 4 if self._transfer_threads is None else self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set the number of threads that transfer files.

        Args:
            number_of_transfering_threads: 1 or more.

        Raises:
            ValueError: Below 1.
        """
        if number_of_transfering_threads < 1:
            raise ValueError(
                f"number_of_transfering_threads must be at least 1, got {number_of_transfering_threads}"
            )
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
    """Flink's sets of RocksDB options for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class CustomStateBackend(StateBackend):
    """Refuses a state backend written in Java.

    Args:
        j_custom_state_backend: Not read.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, j_custom_state_backend: Any) -> None:
        no_java("CustomStateBackend")


def _local_path(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("", "file"):
        raise ValueError(f"path must be local, got {text!r}")
    if not parts.path.startswith("/"):
        raise ValueError(f"path must be absolute, got {text!r}")
    return parts.path


_PREFIX = "execution.checkpointing."
_INTERVAL = _PREFIX + "interval"
_MODE = _PREFIX + "mode"
_TIMEOUT = _PREFIX + "timeout"
_MIN_PAUSE = _PREFIX + "min-pause"
_CONCURRENT = _PREFIX + "max-concurrent-checkpoints"
_TOLERABLE_FAILURES = _PREFIX + "tolerable-failed-checkpoints"
_RETENTION = _PREFIX + "externalized-checkpoint-retention"
_UNALIGNED = _PREFIX + "unaligned.enabled"
_FORCED = _PREFIX + "unaligned.forced"
_ALIGNED_TIMEOUT = _PREFIX + "aligned-checkpoint-timeout"
_LEAST_MILLISECONDS = 10
_MAX_INT = 2**31 - 1


class CheckpointConfig:
    """Settings of checkpoints, kept as options of a Configuration.

    Plans show them. Bounded jobs here take no checkpoints: a failed task is repeated.

    Examples:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().enable_checkpointing(60_000)
        >>> env.get_checkpoint_config().set_checkpoint_timeout(30_000).get_checkpoint_interval()
        60000
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Tell whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode.

        Returns:
            CheckpointingMode: AT_LEAST_ONCE in BATCH mode or without checkpoints; otherwise the mode that is
            set, by default EXACTLY_ONCE.
        """
        batch = self._configuration.get_string("execution.runtime-mode", "") == "BATCH"
        if batch or not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return CheckpointingMode[(self._configuration.get_string(_MODE, "") or "EXACTLY_ONCE").upper()]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the mode.

        Args:
            checkpointing_mode: A CheckpointingMode; default EXACTLY_ONCE.

        Returns:
            CheckpointConfig: This configuration.
        """
        self._configuration.set_string(_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds between checkpoints; -1 unless set."""
        return get_duration(self._configuration, -1, _INTERVAL)

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the time between checkpoints, which enables them.

        Args:
            checkpoint_interval: Milliseconds, 10 or more.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            ValueError: Below 10.
        """
        _at_least(_LEAST_MILLISECONDS, checkpoint_interval, "checkpoint_interval")
        set_duration(self._configuration, checkpoint_interval, _INTERVAL)
        return self

    def get_checkpoint_timeout(self) -> int:
        """Return the milliseconds that a checkpoint may take; 600,000 unless set."""
        return get_duration(self._configuration, 600_000, _TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the time that a checkpoint may take.

        Args:
            checkpoint_timeout: Milliseconds, 10 or more; default 600,000.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            ValueError: Below 10.
        """
        _at_least(_LEAST_MILLISECONDS, checkpoint_timeout, "checkpoint_timeout")
        set_duration(self._configuration, checkpoint_timeout, _TIMEOUT)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the milliseconds between the end of a checkpoint and the next; 0 unless set."""
        return get_duration(self._configuration, 0, _MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least time between the end of a checkpoint and the next.

        Args:
            min_pause_between_checkpoints: Milliseconds, 0 or more; default 0.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            ValueError: Below 0.
        """
        _at_least(0, min_pause_between_checkpoints, "min_pause_between_checkpoints")
        set_duration(self._configuration, min_pause_between_checkpoints, _MIN_PAUSE)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the number of checkpoints that may run at once; 1 unless set."""
        return self._configuration.get_integer(_CONCURRENT, 1)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the number of checkpoints that may run at once.

        Args:
            max_concurrent_checkpoints: 1 or more; default 1.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            ValueError: Below 1.
        """
        _at_least(1, max_concurrent_checkpoints, "max_concurrent_checkpoints")
        self._configuration.set_integer(_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Tell whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job.

        Args:
            fail_on_checkpointing_errors: True, or False to tolerate all failures.

        Returns:
            CheckpointConfig: This configuration.
        """
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _MAX_INT)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return the number of consecutive checkpoints that may fail; 0 unless set."""
        return self._configuration.get_integer(_TOLERABLE_FAILURES, 0)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set the number of consecutive checkpoints that may fail.

        Args:
            tolerable_checkpoint_failure_number: 0 or more; default 0.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            ValueError: Below 0.
        """
        _at_least(0, tolerable_checkpoint_failure_number, "tolerable_checkpoint_failure_number")
        self._configuration.set_integer(_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set whether the checkpoints of a cancelled job are retained.

        Args:
            retention_mode: An ExternalizedCheckpointRetention; default NO_EXTERNALIZED_CHECKPOINTS.

        Returns:
            CheckpointConfig: This configuration.
        """
        self._configuration.set_string(_RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints outlive their job."""
        off = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not off

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return whether the checkpoints of a cancelled job are retained.

        Returns:
            ExternalizedCheckpointRetention: NO_EXTERNALIZED_CHECKPOINTS unless set.
        """
        name = self._configuration.get_string(_RETENTION, "") or "NO_EXTERNALIZED_CHECKPOINTS"
        return ExternalizedCheckpointRetention[name.upper()]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints are unaligned: enabled, and the mode is EXACTLY_ONCE."""
        exactly_once = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        key = set_key(self._configuration, _UNALIGNED, _PREFIX + "unaligned")
        return exactly_once and key is not None and self._configuration.get_boolean(key, False)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Set whether barriers may overtake records.

        Args:
            enabled: A bool; default True.

        Returns:
            CheckpointConfig: This configuration.

        Raises:
            TypeError: Not a bool.
        """
        self._configuration.set_boolean(_UNALIGNED, require_kind(enabled, bool, "enabled"))
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Do not let barriers overtake records."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set the time after which a checkpoint that began aligned becomes unaligned.

        Args:
            alignment_timeout: A Duration; default 0.

        Returns:
            CheckpointConfig: This configuration.
        """
        set_duration(self._configuration, alignment_timeout.milliseconds, _ALIGNED_TIMEOUT)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the time after which a checkpoint that began aligned becomes unaligned.

        Returns:
            Duration: 0 unless set.
        """
        key = _PREFIX + "alignment-timeout"
        return Duration.of_millis(get_duration(self._configuration, 0, _ALIGNED_TIMEOUT, key))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Call `set_aligned_checkpoint_timeout`, of which this is the older name.

        Args:
            alignment_timeout: A Duration; default 0.

        Returns:
            CheckpointConfig: This configuration.
        """
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Call `get_aligned_checkpoint_timeout`, of which this is the older name."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Set whether checkpoints are unaligned for every job.

        Args:
            force_unaligned_checkpoints: A bool; default True.

        Returns:
            CheckpointConfig: This configuration.
        """
        self._configuration.set_boolean(_FORCED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Tell whether checkpoints are unaligned for every job; False unless set."""
        return self._configuration.get_boolean(_FORCED, False)


def _at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
