"""Settings of the file sinks: folders (buckets), rolling, names, compaction.

Source: org.apache.flink.streaming.api.functions.sink.filesystem.{bucketassigners,rollingpolicies},
OutputFileConfig, org.apache.flink.connector.file.sink.compactor.
"""

from __future__ import annotations

import datetime
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyarrow import fs

from penstock.operators.common.arguments import NoJavaError, require_integer, require_text
from penstock.operators.connectors.sink import Committable
from penstock.operators.connectors.staged_files import staging_folder
from penstock.operators.files.durable_files import force_file
from penstock.operators.files.filesystem import filesystem_of

# Compaction of several part files of a bucket into one before the commit
#
# Source: org.apache.flink.connector.file.sink.compactor.{FileCompactStrategy,ConcatFileCompactor,
# IdenticalFileCompactor} and operator.CompactCoordinator for the grouping of files.


_COMPACTED = "compacted"


@dataclass(frozen=True)
class FileCompactStrategy:
    """The condition under which files of a bucket are merged.

    Files are merged at the job's only checkpoint, its end: into files of about `size_threshold` bytes or,
    without a threshold, into one.

    Examples:
        >>> from penstock.connectors import FileCompactStrategy
        >>> FileCompactStrategy.builder().set_size_threshold(1 << 20).build().size_threshold
        1048576
    """

    size_threshold: int = -1  #: bytes; -1: no limit
    num_checkpoints_before_compaction: int = -1
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Return a builder without conditions."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a FileCompactStrategy."""

        def __init__(self) -> None:
            self._strategy = FileCompactStrategy()

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge files after a number of checkpoints; a bounded job has one, its end.

            Args:
                num_checkpoints_before_compaction: 1 or more.

            Returns:
                FileCompactStrategy.Builder: This builder.

            Raises:
                ValueError: Below 1.
            """
            if num_checkpoints_before_compaction <= 0:
                raise ValueError("the number of checkpoints before compaction must be above 0")
            self._strategy = replace(
                self._strategy, num_checkpoints_before_compaction=num_checkpoints_before_compaction
            )
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Set the size at which a merged file ends.

            Args:
                size_threshold: Bytes, 0 or more: a merged file ends with the file that reaches this size.

            Returns:
                FileCompactStrategy.Builder: This builder.
            """
            self._strategy = replace(self._strategy, size_threshold=size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accept Flink's number of threads, without effect: the driver merges one file after the other.

            Args:
                num_compact_threads: 1 or more.

            Returns:
                FileCompactStrategy.Builder: This builder.

            Raises:
                ValueError: Below 1.
            """
            if num_compact_threads <= 0:
                raise ValueError("the number of compact threads must be above 0")
            self._strategy = replace(self._strategy, num_compact_threads=num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy.

            Returns:
                FileCompactStrategy: For `enable_compact`.

            Raises:
                ValueError: Neither a size nor a number of checkpoints is set.
            """
            if self._strategy.size_threshold < 0 and self._strategy.num_checkpoints_before_compaction < 0:
                raise ValueError("a compaction strategy needs a size threshold or a number of checkpoints")
            return self._strategy


class FileCompactor:
    """The way to merge several files of a bucket into one.

    Args:
        *java: Must be empty: classes of Java are refused; use the functions below.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, *java: Any) -> None:
        raise NoJavaError(
            "FileCompactor of a Java class: Penstock runs without Flink's JVM; supported: "
            "concat_file_compactor, identical_file_compactor"
        )

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Concatenate files.

        Args:
            file_delimiter: Bytes between two files.

        Returns:
            FileCompactor: For a file sink.
        """
        return ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Keep the only file.

        Returns:
            FileCompactor: For a file sink; ValueError at the commit if there are several.
        """
        return IdenticalFileCompactor()

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        """Merge files into a new one.

        Args:
            system: A pyarrow FileSystem.
            inputs: Paths of the files in `system`, in order.
            output: Path of the new file in `system`.
        """
        raise NotImplementedError


class ConcatFileCompactor(FileCompactor):
    """Appends files to one another."""

    def __init__(self, file_delimiter: bytes) -> None:
        self.file_delimiter = file_delimiter

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        with system.open_output_stream(output, compression=None) as target:
            for number, path in enumerate(inputs):
                if number:
                    target.write(self.file_delimiter)
                with system.open_input_stream(path, compression=None) as source:
                    shutil.copyfileobj(source, target, 1 << 20)


class IdenticalFileCompactor(FileCompactor):
    """Copies a single file."""

    def __init__(self) -> None:
        pass

    def compact(self, system: fs.FileSystem, inputs: list[str], output: str) -> None:
        """Copy the only file. Raises ValueError for several."""
        if len(inputs) != 1:
            raise ValueError(f"identical_file_compactor takes one file, got {len(inputs)}")
        system.copy_file(inputs[0], output)


def compacted(
    base: str,
    write_id: str,
    committables: Iterable[Committable],
    strategy: FileCompactStrategy,
    compactor: FileCompactor,
) -> list[Committable]:
    """Return one committable for each pack of files of a bucket.

    Its file is named `compacted-` and the first file's name. A pack is full when its files reach the
    threshold. The call may be repeated after a failure.
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
            file_info = system.get_file_info(target)
            if file_info.type != fs.FileType.File:
                system.create_dir(folder, recursive=True)
                compactor.compact(system, [committable.staged for committable in pack], staged)
                force_file(system, staged)
                file_info = system.get_file_info(staged)
            size = file_info.size
            result.append(Committable(staged, target, size, pack[0].subtask, {_COMPACTED: True}))
    return result


def is_compacted(committable: Committable) -> bool:
    """Whether `compacted` created it."""
    return _COMPACTED in committable.details


def _refuse_java(name: str, supported: str) -> NoReturn:
    raise NoJavaError(f"{name} of a Java class: Penstock runs without Flink's JVM; supported: {supported}")


class BucketAssigner:
    """Chooses the folder, below the base path, of records.

    Args:
        *java: Must be empty: classes of Java are refused; use the functions below.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, *java: Any) -> None:
        _refuse_java("BucketAssigner", "base_path_bucket_assigner, date_time_bucket_assigner")

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all files into the base path.

        Returns:
            BucketAssigner: For a file sink.
        """
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Make one folder per unit of time, by the clock.

        Args:
            format_str: A pattern of Java's DateTimeFormatter; default: one folder per hour.
            timezone_id: A time zone; default: the machine's.

        Returns:
            BucketAssigner: For a file sink.

        Raises:
            ValueError: Another pattern or time zone.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)

    def bucket(self, processing_time: int) -> str:
        """Return the folder of records that arrive at a time.

        Args:
            processing_time: Milliseconds since the epoch.

        Returns:
            str: Path below the base path; "" is the base path.
        """
        raise NotImplementedError


class BasePathBucketAssigner(BucketAssigner):
    """Puts all records into one bucket."""

    def __init__(self) -> None:
        pass

    def bucket(self, processing_time: int) -> str:
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """Chooses buckets by processing time."""

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self._format = JavaDateFormat(format_str, timezone_id)

    def bucket(self, processing_time: int) -> str:
        return self._format.text(processing_time)


class RollingPolicy:
    """The size or age at which a part file ends.

    Args:
        *java: Must be empty: classes of Java are refused; use the functions below.

    Raises:
        NoJavaError: Always.
    """

    part_size: int | None = None  #: bytes; None: no limit
    rollover_interval: int | None = None  #: milliseconds a file may stay open
    inactivity_interval: int | None = None  #: milliseconds without a record

    def __init__(self, *java: Any) -> None:
        _refuse_java("RollingPolicy", "default_rolling_policy, on_checkpoint_rolling_policy")

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """End files by size and age.

        Args:
            part_size: Bytes, above 0.
            rollover_interval: Milliseconds since the first record, above 0.
            inactivity_interval: Milliseconds since the last record, above 0.

        Returns:
            DefaultRollingPolicy: For a file sink.

        Raises:
            ValueError: Not above 0.
        """
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """End files at checkpoints: over bounded input, one file.

        Returns:
            OnCheckpointRollingPolicy: For a file sink.
        """
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Ends files by size and age.

    Args:
        part_size: Bytes, above 0; default 128 MiB.
        rollover_interval: Milliseconds since the first record, above 0; default one minute.
        inactivity_interval: Milliseconds since the last record, above 0; default one minute.

    Raises:
        TypeError: Not ints.
        ValueError: Not above 0.
    """

    def __init__(
        self,
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> None:
        for limit in (part_size, rollover_interval, inactivity_interval):
            require_integer(limit, "part_size, rollover_interval and inactivity_interval")
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ValueError("part_size, rollover_interval and inactivity_interval must be positive")
        self.part_size = part_size
        self.rollover_interval, self.inactivity_interval = rollover_interval, inactivity_interval


class OnCheckpointRollingPolicy(RollingPolicy):
    """Ends files at checkpoints: over bounded input, at its end."""

    def __init__(self) -> None:
        pass


class OutputFileConfig:
    """Prefix and suffix of the names of part files.

    Args:
        part_prefix: Beginning of the names.
        part_suffix: End of the names.

    Examples:
        >>> from penstock.connectors import OutputFileConfig
        >>> OutputFileConfig.builder().with_part_suffix(".csv").build().get_part_prefix()
        'part'
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        self._part_prefix, self._part_suffix = part_prefix, part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Start building.

        Returns:
            OutputFileConfigBuilder: Prefix "part" and no suffix, unless set.
        """
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the beginning of the names."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """Return the end of the names."""
        return self._part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig."""

        def __init__(self) -> None:
            self.part_prefix, self.part_suffix = "part", ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the beginning of the names of part files.

            Args:
                prefix: A string; default "part".

            Returns:
                OutputFileConfigBuilder: This builder.

            Raises:
                TypeError: Not a string.
            """
            self.part_prefix = require_text(prefix, "prefix")
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the end of the names of part files.

            Args:
                suffix: A string such as ".csv"; default: none.

            Returns:
                OutputFileConfigBuilder: This builder.

            Raises:
                TypeError: Not a string.
            """
            self.part_suffix = require_text(suffix, "suffix")
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)


# Times as text by a pattern of Java's DateTimeFormatter
#
# Source: java.time.format.DateTimeFormatterBuilder.appendPattern and java.time.ZoneId.of, with English names.


Part = Callable[[datetime.datetime], str]

_TOKEN = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'\[\]{}#]+)")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


class JavaDateFormat:
    """A pattern of the letters y u M L d D E a H h K k m s S z Z X x, and VV; quotes as in Java.

    A time zone of None is the machine's zone. Raises ValueError for other letters or widths, and for unknown
    time zones.
    """

    def __init__(self, pattern: str, timezone_id: str | None = None) -> None:
        self.pattern, self.timezone_id = pattern, timezone_id
        _parts(pattern)
        _zone(timezone_id)

    def text(self, milliseconds: int) -> str:
        """Return the text of a time in milliseconds since the epoch."""
        moment = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
        moment = moment.astimezone(_zone(self.timezone_id)).replace(microsecond=milliseconds % 1000 * 1000)
        return "".join(part(moment) for part in _parts(self.pattern))


def _zone(name: str | None) -> datetime.tzinfo | None:
    if name is None:
        return None
    if name in ("Z", "UTC", "GMT", "UT"):
        return datetime.UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        shift = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return datetime.timezone(-shift if sign == "-" else shift, name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"time zone {name!r} is unknown") from error


def _parts(pattern: str) -> list[Part]:
    parts: list[Part] = []
    place = 0
    while place < len(pattern):
        token = _TOKEN.match(pattern, place)
        if token is None:
            raise ValueError(f"pattern {pattern!r}: {pattern[place]!r} is not supported")
        quoted, letters, letter, plain = token.groups()
        if letters:
            parts.append(_part(letter, len(letters), pattern))
        else:
            parts.append(_literal(plain or (quoted or "").replace("''", "'") or "'"))
        place = token.end()
    return parts


def _literal(text: str) -> Part:
    return lambda moment: text


def _part(letter: str, width: int, pattern: str) -> Part:
    if letter in _NUMBERS and width <= (3 if letter == "D" else 2):
        number = _NUMBERS[letter]
        return lambda moment: f"{number(moment):0{width}d}"
    if letter in "yu":
        return lambda moment: f"{moment.year % 100:02d}" if width == 2 else f"{moment.year:0{width}d}"
    if letter == "S" and width <= 9:
        return lambda moment: f"{moment.microsecond:06d}000"[:width]
    named = {"M": "%b%B", "L": "%b%B", "E": "%a%A", "a": "%p"}.get(letter)
    if named is not None and (letter != "a" or width == 1):
        if width == 4:
            return lambda moment: moment.strftime(named[2:])
        cut = 1 if width == 5 else None
        if width <= 5 and (letter in "Ea" or width >= 3):
            return lambda moment: moment.strftime(named[:2])[:cut]
    if letter == "z" and width <= 3:
        return lambda moment: moment.tzname() or ""
    if letter == "V" and width == 2:
        return lambda moment: str(moment.tzinfo)
    if letter in "ZXx" and width <= 3:
        return lambda moment: _offset(moment, letter, width)
    raise ValueError(f"pattern {pattern!r}: {letter * width!r} is not supported")


def _offset(moment: datetime.datetime, letter: str, width: int) -> str:
    minutes = (moment.utcoffset() or datetime.timedelta()) // datetime.timedelta(minutes=1)
    if letter == "X" and not minutes:
        return "Z"
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    if letter == "Z":
        return f"{sign}{hours:02d}{rest:02d}"
    if width == 1:
        return f"{sign}{hours:02d}{f'{rest:02d}' if rest else ''}"
    return f"{sign}{hours:02d}{':' if width == 3 else ''}{rest:02d}"


_NUMBERS: dict[str, Callable[[datetime.datetime], int]] = {
    "M": lambda moment: moment.month,
    "L": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "h": lambda moment: moment.hour % 12 or 12,
    "K": lambda moment: moment.hour % 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
}
