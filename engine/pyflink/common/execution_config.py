"""Settings of a job's execution.

Source: pyflink.common.execution_config, org.apache.flink.api.common.ExecutionConfig.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, NoReturn

from penstock.operators.common.arguments import require_integer
from penstock.operators.common.configuration import Configuration
from penstock.plans.topology.flink_options import map_text, parse_duration, parse_map

# The condition for the start of a task. Source: pyflink.common.input_dependency_constraint.


class InputDependencyConstraint(Enum):
    """Whether a task starts as soon as any of its inputs can be read, or all of them."""

    ANY = 0
    ALL = 1


# Restart strategies of failed jobs. Source: pyflink.common.restart_strategy.
#
# PyFlink 2.3 still has these classes, but no call that takes one: as in Flink 2, options configure restarts
# (`restart-strategy.type` and options below it, engine.configuration.run_options).


class RestartStrategyConfiguration(ABC):
    """A strategy for restarting a failed job."""

    @abstractmethod
    def get_description(self) -> str:
        """Return a sentence about the strategy."""


class RestartStrategies:
    """Makes restart strategies.

    No method takes one in PyFlink 2.3: the options below `restart-strategy.type` configure restarts.

    Examples:
        >>> from penstock.common import RestartStrategies
        >>> RestartStrategies.fixed_delay_restart(3, 10_000).get_description()
        'Restart with fixed delay (10000 ms). #3 restart attempts.'
    """

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Never restarts."""

        def get_description(self) -> str:
            return "Restart deactivated."

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts a fixed number of times, with a delay (milliseconds or timedelta) before each."""

        restart_attempts: int
        delay_between_attempts_interval: int | timedelta

        def __post_init__(self) -> None:
            _require_at_least(0, self.restart_attempts, "restart_attempts")
            _milliseconds(self.delay_between_attempts_interval)

        def get_restart_attempts(self) -> int:
            """Return the number of restarts."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the delay before each restart."""
            return timedelta(milliseconds=_milliseconds(self.delay_between_attempts_interval))

        def get_description(self) -> str:
            delay = _milliseconds(self.delay_between_attempts_interval)
            return f"Restart with fixed delay ({delay} ms). #{self.restart_attempts} restart attempts."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts as long as the number of failures in an interval is limited, with a delay before each.

        The two times are milliseconds or timedeltas.
        """

        max_failure_rate: int
        failure_interval: int | timedelta
        delay_between_attempts_interval: int | timedelta

        def __post_init__(self) -> None:
            _require_at_least(1, self.max_failure_rate, "max_failure_rate")
            _milliseconds(self.failure_interval)
            _milliseconds(self.delay_between_attempts_interval)

        def get_max_failure_rate(self) -> int:
            """Return the number of failures that an interval may have."""
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            """Return the interval in which failures count."""
            return timedelta(milliseconds=_milliseconds(self.failure_interval))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the delay before each restart."""
            return timedelta(milliseconds=_milliseconds(self.delay_between_attempts_interval))

        def get_description(self) -> str:
            interval = _milliseconds(self.failure_interval)
            delay = _milliseconds(self.delay_between_attempts_interval)
            return (
                f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
                f"{interval} ms and fixed delay {delay} ms."
            )

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Follows the cluster's strategy."""

        def get_description(self) -> str:
            return "Cluster level default restart strategy"

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Return a strategy that never restarts."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """Return a strategy that follows the cluster's."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> FixedDelayRestartStrategyConfiguration:
        """Return a strategy that restarts a fixed number of times.

        Args:
            restart_attempts: Number of restarts, 0 or more.
            delay_between_attempts: Delay before each restart: milliseconds, or a timedelta.

        Returns:
            FixedDelayRestartStrategyConfiguration: The strategy.

        Raises:
            TypeError: An argument of another type.
            ValueError: A number below 0.
        """
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> FailureRateRestartStrategyConfiguration:
        """Return a strategy that restarts as long as failures are rare.

        Args:
            failure_rate: Failures that an interval may have, 1 or more.
            failure_interval: Length of the interval: milliseconds, or a timedelta.
            delay_interval: Delay before each restart: milliseconds, or a timedelta.

        Returns:
            FailureRateRestartStrategyConfiguration: The strategy.

        Raises:
            TypeError: An argument of another type.
            ValueError: A number of failures below 1.
        """
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )


def _require_at_least(least: int, number: int, name: str) -> None:
    if require_integer(number, name, 32) < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")


def _milliseconds(length: int | timedelta) -> int:
    if isinstance(length, timedelta):
        return round(length.total_seconds() * 1000)
    if not isinstance(length, int):
        raise TypeError(f"a length of time must be milliseconds or a timedelta, got {length!r}")
    return length


# Flink's options in a Configuration, read with their defaults and deprecated keys.


def set_key(configuration: Configuration, key: str, *deprecated: str) -> str | None:
    """Return the first key of an option that is set: its own, then its deprecated ones; None if none is."""
    return next(
        (candidate for candidate in (key, *deprecated) if configuration.contains_key(candidate)), None
    )


def get_duration(configuration: Configuration, default: int, key: str, *deprecated: str) -> int:
    """Return the milliseconds of a duration. Raises ValueError for any other text."""
    used_key = set_key(configuration, key, *deprecated)
    if used_key is None:
        return default
    text = configuration.get_string(used_key, "") or ""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"option {used_key!r}: {text!r} {error}") from error


def set_duration(configuration: Configuration, milliseconds: int, key: str) -> None:
    """Set a duration. Raises TypeError unless it is an int."""
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        raise TypeError(f"option {key!r} must be an int (milliseconds), got {milliseconds!r}")
    configuration.set_string(key, f"{milliseconds} ms")


def get_map(configuration: Configuration, key: str) -> dict[str, str]:
    """Return a map of strings. Raises ValueError for any other text."""
    text = configuration.get_string(key, "") or ""
    try:
        return parse_map(text)
    except ValueError as error:
        raise ValueError(f"option {key!r}: {text!r} {error}") from None


def set_map(configuration: Configuration, values: Mapping[str, str], key: str) -> None:
    """Set a map of strings."""
    configuration.set_string(key, map_text(values))


_PARALLELISM = "parallelism.default"
_MAX_PARALLELISM = "pipeline.max-parallelism"
_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
_LATENCY_INTERVAL = "metrics.latency.interval"
_CANCELLATION_INTERVAL = "task.cancellation.interval"
_CANCELLATION_TIMEOUT = "task.cancellation.timeout"
_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_OBJECT_REUSE = "pipeline.object-reuse"
_AUTO_UIDS = "pipeline.auto-generate-uids"
_JOB_PARAMETERS = "pipeline.global-job-parameters"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"


class ExecutionConfig:
    """Settings of a job's execution, kept as options of a Configuration.

    The parallelisms, the watermark interval, the job parameters and the uids have an effect here; the others,
    which concern Flink's JVM, are only kept.

    Examples:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_config()
        >>> config.set_global_job_parameters({"threshold": 5}).get_global_job_parameters()
        {'threshold': '5'}
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Turn on Flink's closure cleaner, without effect here: Python functions have no Java closures."""
        self._configuration.set_string(_CLOSURE_CLEANER, "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Turn off Flink's closure cleaner, without effect here: Python functions have no Java closures."""
        self._configuration.set_string(_CLOSURE_CLEANER, "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Tell whether the closure cleaner is on; True unless disabled."""
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE") != "NONE"

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between watermarks.

        Args:
            interval: Milliseconds, 0 or more; 0: only one watermark, at the end of the input.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            ValueError: Below 0.
        """
        set_duration(self._configuration, _at_least(0, interval, "interval"), _WATERMARK_INTERVAL)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the milliseconds between watermarks; 200 unless set."""
        return get_duration(self._configuration, 200, _WATERMARK_INTERVAL)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between latency markers, without effect here.

        Args:
            interval: Milliseconds.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            TypeError: Not an int.
        """
        set_duration(self._configuration, interval, _LATENCY_INTERVAL)
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return the milliseconds between latency markers; 0 unless set."""
        return get_duration(self._configuration, 0, _LATENCY_INTERVAL)

    def get_parallelism(self) -> int:
        """Return the number of subtasks of operators that set none; 1 unless set."""
        return self._configuration.get_integer(_PARALLELISM, 1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the number of subtasks of operators that set none.

        Args:
            parallelism: 1 or more; PARALLELISM_DEFAULT: Flink's default; PARALLELISM_UNKNOWN: no change.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            TypeError: Not an int.
            ValueError: Another number, or one beyond 32 bits.
        """
        if require_integer(parallelism, "parallelism", 32) != self.PARALLELISM_UNKNOWN:
            if parallelism != self.PARALLELISM_DEFAULT:
                _at_least(1, parallelism, "parallelism")
            self._configuration.set_integer(_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of operators that set none.

        Returns:
            int: -1 unless set: each operator gets its own number.
        """
        return self._configuration.get_integer(_MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups of operators that set none.

        Args:
            max_parallelism: 1 or more.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            TypeError: Not an int.
            ValueError: Below 1, or beyond 32 bits.
        """
        require_integer(max_parallelism, "max_parallelism", 32)
        self._configuration.set_integer(_MAX_PARALLELISM, _at_least(1, max_parallelism, "max_parallelism"))
        return self

    def get_task_cancellation_interval(self) -> int:
        """Return the milliseconds between attempts to cancel a task; 30,000 unless set."""
        return get_duration(self._configuration, 30_000, _CANCELLATION_INTERVAL, "task.cancellation-interval")

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the time between attempts to cancel a task, without effect here: Spark cancels tasks.

        Args:
            interval: Milliseconds.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            TypeError: Not an int.
        """
        set_duration(self._configuration, interval, _CANCELLATION_INTERVAL)
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return the milliseconds within which a task must be cancelled; 180,000 unless set."""
        return get_duration(self._configuration, 180_000, _CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set the time within which a task must be cancelled, without effect here: Spark cancels tasks.

        Args:
            timeout: Milliseconds, 0 or more.

        Returns:
            ExecutionConfig: This configuration.

        Raises:
            ValueError: Below 0.
        """
        set_duration(self._configuration, _at_least(0, timeout, "timeout"), _CANCELLATION_TIMEOUT)
        return self

    def enable_force_kryo(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("enable_force_kryo")

    def disable_force_kryo(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("disable_force_kryo")

    def is_force_kryo_enabled(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("is_force_kryo_enabled")

    def enable_generic_types(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("enable_generic_types")

    def disable_generic_types(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("disable_generic_types")

    def has_generic_types_disabled(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("has_generic_types_disabled")

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Let operators without a uid get one."""
        self._configuration.set_boolean(_AUTO_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse jobs with operators without a uid."""
        self._configuration.set_boolean(_AUTO_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Tell whether operators without a uid get one; True unless disabled."""
        return self._configuration.get_boolean(_AUTO_UIDS, True)

    def enable_force_avro(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("enable_force_avro")

    def disable_force_avro(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("disable_force_avro")

    def is_force_avro_enabled(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("is_force_avro_enabled")

    def enable_object_reuse(self) -> ExecutionConfig:
        """Turn on object reuse, without effect here."""
        self._configuration.set_boolean(_OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Turn off object reuse, without effect here."""
        self._configuration.set_boolean(_OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Tell whether object reuse is on; False unless enabled."""
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that `RuntimeContext.get_job_parameter` looks up."""
        return get_map(self._configuration, _JOB_PARAMETERS)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Set the parameters that `RuntimeContext.get_job_parameter` looks up.

        Args:
            global_job_parameters_dict: A dict of names and values; values become strings by `str`.

        Returns:
            ExecutionConfig: This configuration.
        """
        texts = {key: str(value) for key, value in global_job_parameters_dict.items()}
        set_map(self._configuration, texts, _JOB_PARAMETERS)
        return self

    def get_default_kryo_serializer_classes(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("get_default_kryo_serializer_classes")

    def get_registered_kryo_types(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("get_registered_kryo_types")

    def get_registered_pojo_types(self) -> NoReturn:
        """Refuse the setting, which Flink 2 lacks: raises NotImplementedError."""
        _refuse_removed("get_registered_pojo_types")

    def is_use_snapshot_compression(self) -> bool:
        """Tell whether snapshots of state are compressed; False unless set."""
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether snapshots of state are compressed, without effect here: none are taken.

        Args:
            use_snapshot_compression: A bool.

        Returns:
            ExecutionConfig: This configuration.
        """
        self._configuration.set_boolean(_SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


def _refuse_removed(name: str) -> NoReturn:
    raise NotImplementedError(
        f"ExecutionConfig.{name}: Flink 2 does not have this setting; PyFlink 2.3 fails on it as well"
    )
