"""Settings of the file sinks: folders (buckets), rolling, names, compaction.

Source: org.apache.flink.streaming.api.functions.sink.filesystem.{bucketassigners,rollingpolicies},
OutputFileConfig, org.apache.flink.connector.file.sink.compactor.
"""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.operators.common.arguments import require_integer, require_text
from penstock.operators.common.no_java import NoJavaError
from penstock.operators.connectors.file_sinks.java_dates import JavaDateFormat


def _of_java(name: str, supported: str) -> NoReturn:
    raise NoJavaError(f"{name} of a Java class: Penstock runs without Flink's JVM; supported: {supported}")


class BucketAssigner:
    """Says which folder below the base path records go to."""

    def __init__(self, *java: Any) -> None:
        _of_java("BucketAssigner", "base_path_bucket_assigner, date_time_bucket_assigner")

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All files lie in the base path itself."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """One folder per hour, or per whatever part of the time `format_str` shows.

        The time is the processor's; `format_str` is a pattern of Java's DateTimeFormatter (JavaDateFormat
        says which letters are supported), the time zone the machine's own if None. ValueError for another
        pattern or an unknown time zone.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)

    def bucket(self, processing_time: int) -> str:
        """The folder for records that come now (milliseconds since the epoch); "" is the base path."""
        raise NotImplementedError


class BasePathBucketAssigner(BucketAssigner):
    """One bucket."""

    def __init__(self) -> None:
        pass

    def bucket(self, processing_time: int) -> str:
        """The base path."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Buckets by processing time."""

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self._format = JavaDateFormat(format_str, timezone_id)

    def bucket(self, processing_time: int) -> str:
        """The time in the assigner's format."""
        return self._format.text(processing_time)


class RollingPolicy:
    """Says when a part file is full."""

    part_size: int | None = None  #: bytes; None: it never is
    rollover_interval: int | None = None  #: milliseconds a file may stay open
    inactivity_interval: int | None = None  #: milliseconds without a record

    def __init__(self, *java: Any) -> None:
        _of_java("RollingPolicy", "default_rolling_policy, on_checkpoint_rolling_policy")

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """A new file where the last one is larger (bytes) or older (milliseconds) than this.

        ValueError for numbers that are not positive. Times are looked at when records come.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """A new file at every checkpoint, which over bounded input is: one file."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """By size and time."""

    def __init__(
        self,
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> None:
        for given in (part_size, rollover_interval, inactivity_interval):
            require_integer(given, "part_size, rollover_interval and inactivity_interval")
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ValueError("part_size, rollover_interval and inactivity_interval must be positive")
        self.part_size = part_size
        self.rollover_interval, self.inactivity_interval = rollover_interval, inactivity_interval


class OnCheckpointRollingPolicy(RollingPolicy):
    """Only at the end."""

    def __init__(self) -> None:
        pass


class OutputFileConfig:
    """Prefix and suffix of the names of part files."""

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        self._part_prefix, self._part_suffix = part_prefix, part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """A builder; prefix `part` and no suffix unless set."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """What names start with."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """What names end in."""
        return self._part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig."""

        def __init__(self) -> None:
            self.part_prefix, self.part_suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """What names start with."""
            self.part_prefix = require_text(prefix, "prefix")
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """What names end in."""
            self.part_suffix = require_text(suffix, "suffix")
            return self

        def build(self) -> OutputFileConfig:
            """The configuration."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)
