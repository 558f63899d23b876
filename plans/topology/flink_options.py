"""Keys, deprecated keys, types and defaults of the options that Flink reads during planning.

Flink: ExecutionOptions, BatchExecutionOptions, PipelineOptions, CheckpointingOptions, StateRecoveryOptions,
JobManagerOptions, StateChangelogOptions. Options outside this table are carried with the job and ignored.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Any, NamedTuple

from penstock.operators.common.configuration import parse_integer
from penstock.operators.common.flink_yaml import as_option_text, load_yaml
from penstock.plans.topology.operator_rules import MAX_PARALLELISM

# Parsers of option values, as in Flink 2.3; every parser raises ValueError.
#
# FlinkValueError is raised if Flink's message differs from "Could not parse value".


_JAVA_WHITESPACE = "".join(map(chr, range(33)))
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_LEADING_NUMBER = re.compile(r"([0-9]*)(.*)", re.DOTALL)
_NANOS = {
    "d": 86_400 * 10**9, "day": 86_400 * 10**9, "days": 86_400 * 10**9,
    "h": 3_600 * 10**9, "hour": 3_600 * 10**9, "hours": 3_600 * 10**9,
    "min": 60 * 10**9, "m": 60 * 10**9, "minute": 60 * 10**9, "minutes": 60 * 10**9,
    "s": 10**9, "sec": 10**9, "secs": 10**9, "second": 10**9, "seconds": 10**9,
    "": 10**6, "ms": 10**6, "milli": 10**6, "millis": 10**6, "millisecond": 10**6, "milliseconds": 10**6,
    "µs": 10**3, "micro": 10**3, "micros": 10**3, "microsecond": 10**3, "microseconds": 10**3,
    "ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
}  # fmt: skip
_BYTES = {
    "": 1, "b": 1, "bytes": 1,
    "k": 2**10, "kb": 2**10, "kibibytes": 2**10,
    "m": 2**20, "mb": 2**20, "mebibytes": 2**20,
    "g": 2**30, "gb": 2**30, "gibibytes": 2**30,
    "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip
_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<d>[-+]?\d+)D)?"
    r"(?:T(?:(?P<h>[-+]?\d+)H)?(?:(?P<m>[-+]?\d+)M)?(?:(?P<s>[-+]?\d+)(?:[.,](?P<f>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


class FlinkValueError(ValueError):
    """The reason, exception class and message with which Flink refuses a value that it parsed."""

    def __init__(self, reason: str, error: str, flink_message: str) -> None:
        super().__init__(reason)
        self.error = error
        self.flink_message = flink_message


def parse_duration(value: str) -> int:
    """Return the whole milliseconds of a Flink duration such as "10 s", "100" (ms) or "PT1M"
    (TimeUtils.parseDuration).
    """
    trimmed = value.strip(_JAVA_WHITESPACE)
    number, unit = _LEADING_NUMBER.fullmatch(trimmed).groups()  # type: ignore[union-attr]
    nanos = int(number) * _lookup(_NANOS, unit, "time unit") if number else _iso_nanos(trimmed)
    if nanos // 10**9 > _MAX_LONG:
        raise ValueError("does not fit 64 bits of seconds")
    if nanos // 10**6 > _MAX_LONG:
        raise FlinkValueError("does not fit 64 bits of milliseconds", "ArithmeticException", "long overflow")
    return nanos // 10**6


def _iso_nanos(text: str) -> int:
    match = _ISO_DURATION.fullmatch(text)
    parts = match.groupdict() if match else {}
    if not any(parts.get(k) for k in "dhms") or text[-1] in "Tt":
        raise ValueError("neither starts with a number nor is an ISO-8601 duration")
    seconds = sum(int(parts[k] or 0) * n for k, n in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)))
    fraction = int((parts["f"] or "").ljust(9, "0"))
    nanos = seconds * 10**9 + (-fraction if (parts["s"] or "").startswith("-") else fraction)
    nanos = -nanos if parts["sign"] == "-" else nanos
    if nanos < 0:
        raise ValueError("is negative")
    return nanos


def parse_memory_size(value: str) -> int:
    """Return the bytes of a Flink memory size such as "128 mb" or "1024" (MemorySize.parse)."""
    number, unit = _LEADING_NUMBER.fullmatch(value.strip(_JAVA_WHITESPACE)).groups()  # type: ignore[union-attr]
    if not number:
        raise ValueError("does not start with a number")
    size = int(number) * _lookup(_BYTES, unit, "memory unit")
    if size > _MAX_LONG:
        raise ValueError("does not fit 64 bits of bytes")
    return size


def _lookup(units: dict[str, int], unit: str, kind: str) -> int:
    label = unit.strip(_JAVA_WHITESPACE).lower()
    if label not in units:
        raise ValueError(f"has the unknown {kind} {label!r}")
    return units[label]


def parse_boolean(value: str) -> bool:
    """Parse true or false, in any case."""
    if value.upper() not in ("TRUE", "FALSE"):
        raise ValueError("is neither true nor false")
    return value.upper() == "TRUE"


def parse_int(value: str) -> int:
    """Parse a decimal 32-bit integer, in digits of any script (Integer.parseInt)."""
    number = parse_integer(value)
    if number is None or not -_MAX_INT - 1 <= number <= _MAX_INT:
        raise ValueError("is not a 32-bit integer")
    return number


def _parse_max_parallelism(value: str) -> int:
    """Parse a job's max parallelism; 0 and less mean unset
    (OperatorValidationUtils.validateMaxParallelism).
    """
    number = parse_int(value)
    if number > MAX_PARALLELISM:
        message = f"Maximum parallelism must be between 1 and {MAX_PARALLELISM}. Found: {number}"
        raise FlinkValueError(f"is above {MAX_PARALLELISM}", "IllegalArgumentException", message)
    return number


def parse_long(value: str) -> int:
    """Parse a decimal 64-bit integer, in digits of any script (Long.parseLong)."""
    number = parse_integer(value)
    if number is None or not -_MAX_LONG - 1 <= number <= _MAX_LONG:
        raise ValueError("is not a 64-bit integer")
    return number


def parse_string(value: str) -> str:
    """Return the string unchanged."""
    return value


def enum_parser(values: Iterable[str]) -> Callable[[str], str]:
    """Return a parser that accepts one of `values` in any case and returns Flink's spelling."""
    by_upper = {v.upper(): str(v) for v in values}

    def parse(value: str) -> str:
        if value.upper() not in by_upper:
            raise ValueError("is not one of them")
        return by_upper[value.upper()]

    return parse


def split_escaped(value: str, delimiter: str) -> list[str]:
    """Split at delimiters; a quoted part may contain them, and a doubled quote is a quote.

    Two adjacent delimiters enclose an empty part; one at the start or end adds no part. Flink:
    StructuredOptionsSplitter.splitEscaped.
    """
    parts: list[str] = []
    cursor, after_quoted, after_delimiter = 0, False, False
    while cursor < len(value):
        char = value[cursor]
        if char == delimiter:
            if after_delimiter:
                parts.append("")
            after_quoted, after_delimiter = False, True
            cursor += 1
        elif char.isspace():
            cursor += 1
        elif after_quoted:
            raise ValueError(f"Could not split string. Illegal quoting at position: {cursor - 1}")
        elif char in "'\"":
            end = re.compile(f"{char}((?:[^{char}]|{char}{char})*){char}").match(value, cursor)
            if end is None:
                raise ValueError("Could not split string. Quoting was not closed properly.")
            parts.append(end.group(1).replace(char * 2, char))
            cursor, after_quoted, after_delimiter = end.end(), True, False
        else:
            after_delimiter = False
            end_at = value.find(delimiter, cursor)
            end_at = len(value) if end_at < 0 else end_at
            parts.append(value[cursor:end_at].strip(_JAVA_WHITESPACE))
            cursor = end_at
    return parts


# Maps of strings as option values.
#
# Source: ConfigurationUtils.convertToProperties.


_QUOTED = frozenset("'\",;: ")


def parse_map(text: str) -> dict[str, str]:
    """Parse "a:1,b:2", or a map in YAML. Raises ValueError for any other text."""
    if text.lstrip().startswith("{"):
        document = load_yaml(text)
        if isinstance(document, dict):
            return {as_option_text(name): as_option_text(value) for name, value in document.items()}
    pairs = [split_escaped(entry, ":") for entry in split_escaped(text, ",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("is not a list of key:value")
    entries = {pair[0]: pair[1] for pair in pairs}
    if len(entries) < len(pairs):
        raise ValueError("has a key twice")
    return entries


def map_text(values: Mapping[str, str]) -> str:
    """Return the text that `parse_map` parses as `values`."""
    entries = (f"{_quoted(name)}:{_quoted(value)}" for name, value in values.items())
    return ",".join(map(_quoted, entries))


def _quoted(text: str) -> str:
    if text and not _QUOTED & set(text) and not text.startswith("{"):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


# Parsing of strings as Flink's Path: a URI, or an error with Java's message.
#
# Source: org.apache.flink.core.fs.Path; java.net.URI for the errors.


_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]*")
#: Characters that java.net.URI keeps in a path and in an authority; other ASCII characters are escaped.
_IN_PATH = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*:@&=+$,;/")
_IN_SCHEME = re.compile(r"[A-Za-z0-9+.-]*")


def _uri_error(path: str) -> str | None:
    """Return the message of URISyntaxException if the non-empty `path` is not a path in Flink, else None."""
    scheme, authority, rest = _split_path(path)
    if scheme is None:
        return (
            None if authority is None else _authority_error("//" + authority + _escaped(rest), 2, authority)
        )
    uri = f"{scheme}:{'' if authority is None else '//' + authority}{_escaped(rest)}"
    if rest and not rest.startswith("/"):
        return f"Relative path in absolute URI: {uri}"
    if re.search("[?#]", scheme):
        return _character_error(uri)  # java.net.URI reads a query or a fragment
    if not scheme:
        return f"Expected scheme name at index 0: {uri}"
    if not re.match("[A-Za-z]", scheme):
        return f"Illegal character in scheme name at index 0: {uri}"
    legal = _IN_SCHEME.match(scheme)
    assert legal is not None
    if legal.end() < len(scheme):
        return f"Illegal character in scheme name at index {legal.end()}: {uri}"
    if not rest and authority is None:
        return f"Expected scheme-specific part at index {len(uri)}: {uri}"
    return None if authority is None else _authority_error(uri, len(scheme) + 3, authority)


def _split_path(path: str) -> tuple[str | None, str | None, str]:
    """Return scheme, authority and normalised path, as Path's constructor."""
    if re.match("[A-Za-z]:", path):
        path = "/" + path  # a Windows drive
    scheme = authority = None
    colon, slash = path.find(":"), path.find("/")
    start = 0
    if colon >= 0 and (slash < 0 or colon < slash):
        scheme, start = path[:colon], colon + 1
    if path.startswith("//", start) and len(path) - start > 2:
        end = path.find("/", start + 2)
        end = end if end > 0 else len(path)
        authority, start = path[start + 2 : end], end
    rest = re.sub("/+", "/", path[start:].replace("\\", "/"))
    if rest.endswith("/") and rest != "/" and not re.fullmatch("/[A-Za-z]:/", rest):
        rest = rest[:-1]
    return scheme, authority, rest


def _character_error(uri: str) -> str | None:
    """Return the error for the first illegal character of a URI without scheme and authority."""
    path, *_ = re.split("([?#])", uri, maxsplit=1)
    query_end = uri.find("#")
    for place, character in enumerate(uri):
        component = (
            "path" if place < len(path) else "query" if query_end < 0 or place < query_end else "fragment"
        )
        if character == "%":
            if not re.match("%[0-9A-Fa-f]{2}", uri[place:]):
                return f"Malformed escape pair at index {place}: {uri}"
        elif (
            ord(character) < 0x80
            and character not in _IN_PATH
            and (component == "path" or character not in "[]?")
            and place not in (len(path), query_end)
        ):
            return f"Illegal character in {component} at index {place}: {uri}"
    return None


def _escaped(path: str) -> str:
    return "".join(
        character if character in _IN_PATH or ord(character) >= 0x80 else f"%{ord(character):02X}"
        for character in path
    )


def _authority_error(uri: str, start: int, authority: str) -> str | None:
    """Return the error for misplaced brackets; anything else that is not a host is a registry-based name."""
    if "[" not in authority and "]" not in authority:
        return None
    user, at, host = authority.rpartition("@")
    bracket = re.search(r"[][]", user)
    if bracket is not None:
        return f"Illegal character in user info at index {start + bracket.start()}: {uri}"
    begin = start + len(user) + len(at)
    if not host.startswith("["):
        legal = _ALPHANUMERIC.match(host)
        assert legal is not None
        return f"Illegal character in hostname at index {begin + legal.end()}: {uri}"
    end = host.find("]")
    if end <= 1:
        place = begin + (1 if end == 1 else len(host))
        return f"Expected closing bracket for IPv6 address at index {place}: {uri}"
    try:
        IPv6Address(host[1:end])
    except AddressValueError:
        return f"Malformed IPv6 address at index {begin + 1}: {uri}"
    return _port_error(uri, begin + end + 1, host[end + 1 :])


def _port_error(uri: str, start: int, port: str) -> str | None:
    if port and not port.startswith(":"):
        return f"Expected port number at index {start}: {uri}"
    digits = re.match("[0-9]*", port[1:])
    assert digits is not None
    if digits.end() < len(port[1:]):
        return f"Illegal character in port number at index {start + 1 + digits.end()}: {uri}"
    if port[1:] and int(port[1:]) >= 1 << 31:
        return f"Malformed port number at index {start + 1}: {uri}"
    return None


# The files of the distributed cache, from the option pipeline.cached-files.


class _Entry(NamedTuple):
    """A file as Flink's DistributedCacheEntry; path and executable are optional."""

    path: str | None
    executable: bool

    def __str__(self) -> str:
        path, executable = self.path or "null", str(self.executable).lower()
        return (
            f"DistributedCacheEntry{{filePath='{path}', isExecutable={executable}, isZipped=false, "
            "blobKey=null}"
        )


def parse_cached_files(value: str) -> dict[str, str]:
    """Parse `name:a,path:b;…`, or the same as YAML, to name: path; a file without a name has the name "".

    Raises ValueError if Flink cannot parse the value, FlinkValueError if it refuses the parsed value. Source:
    ConfigurationUtils.convertToList, DistributedCache.parseCachedFilesFromString,
    ExecutionPlanUtils.prepareUserArtifactEntries.
    """
    entries: dict[str | None, _Entry] = {}
    for name, entry in [_named_entry(fields) for fields in [_fields(text) for text in _files(value)]]:
        if name in entries:
            raise _duplicate("null" if name is None else name, entries[name], entry)
        entries[name] = entry
    return {name or "": _path(entry) for name, entry in entries.items()}


def _files(value: str) -> list[str]:
    """Return the text of each file, the elements of a YAML list or else the parts between semicolons."""
    try:
        document = load_yaml(value)
        if isinstance(document, list):
            return [as_option_text(part) for part in document]
    except ValueError:
        pass
    return split_escaped(value, ";")


def _named_entry(fields: dict[str, str]) -> tuple[str | None, _Entry]:
    return fields.get("name"), _Entry(fields.get("path"), fields.get("executable", "").lower() == "true")


def _fields(text: str) -> dict[str, str]:
    """Return the fields of one file, given as a YAML map or else as key:value pairs between commas; a
    duplicate is an error.
    """
    in_yaml = _fields_in_yaml(text)
    if in_yaml is not None:
        return in_yaml
    fields: dict[str, str] = {}
    try:
        pairs = [split_escaped(item, ":") for item in split_escaped(text, ",")]
    except ValueError as error:
        raise FlinkValueError("cannot be split", "IllegalArgumentException", str(error)) from error
    for pair in pairs:
        if len(pair) != 2:
            message = "Map item is not a key-value pair (missing ':'?)"
            raise FlinkValueError("has an item that is not key:value", "IllegalArgumentException", message)
        key, value = pair
        if key in fields:
            raise _duplicate(key, fields[key], value)
        fields[key] = value
    return fields


def _fields_in_yaml(text: str) -> dict[str, str] | None:
    try:
        document = load_yaml(text)
        if not isinstance(document, dict):
            return None
        fields = {as_option_text(key): as_option_text(item) for key, item in document.items()}
    except ValueError:
        return None
    return fields if len(fields) == len(document) else None


def _path(entry: _Entry) -> str:
    if not entry.path:
        kind = "a null" if entry.path is None else "an empty"
        message = f"Can not create a Path from {kind} string"
        raise FlinkValueError("has a file without a path", "IllegalArgumentException", message)
    error = _uri_error(entry.path)
    if error is not None:
        message = f"java.net.URISyntaxException: {error}"
        raise FlinkValueError("has a file whose path is not a URI", "IllegalArgumentException", message)
    scheme, authority, path = _split_path(entry.path)
    if scheme is None and authority is not None and path in ("", "/"):
        # Flink treats it as the root directory, which it cannot pack.
        message = 'Cannot invoke "org.apache.flink.core.fs.Path.getPath()" because "rootDir" is null'
        raise FlinkValueError("has a file with an authority and no path", "NullPointerException", message)
    return entry.path


def _duplicate(key: str, first: object, second: object) -> FlinkValueError:
    message = f"Duplicate key {key} (attempted merging values {first} and {second})"
    return FlinkValueError(f"has {key} twice", "IllegalStateException", message)


# The options.


class FlinkOption(NamedTuple):
    """One option; `values` are the names of an enum, `default` is a parsed value.

    `meaning`: what it decides, for the reference of options; empty for options that only scripts set.
    """

    key: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    meaning: str = ""
    deprecated: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def _enum(
    key: str, default: str | None, meaning: str, *values: str, deprecated: tuple[str, ...] = ()
) -> FlinkOption:
    return FlinkOption(key, enum_parser(values), default, ", ".join(values), meaning, deprecated, values)


def _flag(key: str, default: bool, meaning: str, *deprecated: str) -> FlinkOption:
    return FlinkOption(key, parse_boolean, default, "true or false", meaning, deprecated)


def _duration(key: str, default: int | None, meaning: str, *deprecated: str) -> FlinkOption:
    allowed = "a duration such as 100 ms, 10 s or PT1M"
    return FlinkOption(key, parse_duration, default, allowed, meaning, deprecated)


def _number(key: str, default: int, meaning: str) -> FlinkOption:
    return FlinkOption(key, parse_int, default, "a 32-bit integer", meaning)


RUNTIME_MODE = _enum(
    "execution.runtime-mode",
    "STREAMING",
    "whether a job is planned as a streaming or a batch job",
    "STREAMING",
    "BATCH",
    "AUTOMATIC",
)
BATCH_SHUFFLE_MODE = _enum(
    "execution.batch-shuffle-mode",
    "ALL_EXCHANGES_BLOCKING",
    "how tasks of a batch job exchange data",
    "ALL_EXCHANGES_PIPELINED",
    "ALL_EXCHANGES_BLOCKING",
    "ALL_EXCHANGES_HYBRID_FULL",
    "ALL_EXCHANGES_HYBRID_SELECTIVE",
)
BUFFER_TIMEOUT = _duration(
    "execution.buffer-timeout.interval",
    100,
    "how long a record may wait in a buffer",
    "execution.buffer-timeout",
)
BUFFER_TIMEOUT_ENABLED = _flag(
    "execution.buffer-timeout.enabled", True, "whether buffers are sent before they are full"
)
SORT_INPUTS = _flag(
    "execution.sorted-inputs.enabled", True, "whether keyed operators of a batch job get sorted inputs"
)
SORTED_INPUTS_MEMORY = FlinkOption(
    "execution.sorted-inputs.memory",
    parse_memory_size,
    128 * 2**20,
    "a memory size such as 128 mb",
    "weight of sorting inputs in managed memory",
)
BATCH_STATE_BACKEND = _flag(
    "execution.batch-state-backend.enabled", True, "whether batch jobs use a state backend of their own"
)
SCHEDULER = _enum(
    "jobmanager.scheduler",
    None,
    "the scheduler; batch jobs under AdaptiveBatch get dynamic graphs",
    "Default",
    "Adaptive",
    "AdaptiveBatch",
)
JOB_NAME = FlinkOption("pipeline.name", parse_string, None, "a string", "the name of a job")
MAX_PARALLELISM_OPTION = FlinkOption(
    "pipeline.max-parallelism",
    _parse_max_parallelism,
    -1,
    f"an integer up to {MAX_PARALLELISM}",
    "number of key groups of operators that set none; -1: derived",
)
AUTO_GENERATE_UIDS = _flag("pipeline.auto-generate-uids", True, "whether operators may be without uid")
OPERATOR_CHAINING = _flag(
    "pipeline.operator-chaining.enabled", True, "whether operators are chained", "pipeline.operator-chaining"
)
CHAIN_DIFFERENT_MAX_PARALLELISM = _flag(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    True,
    "whether operators of different max parallelism are chained",
)
VERTEX_DESCRIPTION_MODE = _enum(
    "pipeline.vertex-description-mode",
    "TREE",
    "how the description of a vertex is laid out",
    "TREE",
    "CASCADING",
)
VERTEX_NAME_INDEX_PREFIX = _flag(
    "pipeline.vertex-name-include-index-prefix", False, "whether names of vertices begin with their index"
)
CACHED_FILES = FlinkOption(
    "pipeline.cached-files",
    parse_cached_files,
    {},
    "name:file1,path:'file:///tmp/file1';name:…,path:…",
    "files of the distributed cache",
)
PARALLELISM_OVERRIDES = FlinkOption(
    "pipeline.jobvertex-parallelism-overrides",
    parse_map,
    {},
    "vertex:parallelism,… with ids of job vertices",
    "parallelism of job vertices by id, in place of the planned parallelism; a job's entries win over the "
    "configuration's",
)
AUTO_PARALLELISM = _flag(
    "execution.batch.adaptive.auto-parallelism.enabled",
    True,
    "whether dynamic graphs reset parallelism that is not set",
)
CHECKPOINTING_INTERVAL = _duration(
    "execution.checkpointing.interval", None, "time between checkpoints; none: no checkpoints"
)
CHECKPOINTING_INTERVAL_DURING_BACKLOG = _duration(
    "execution.checkpointing.interval-during-backlog", None, "time between checkpoints during a backlog"
)
CHECKPOINTING_MODE = _enum(
    "execution.checkpointing.mode",
    "EXACTLY_ONCE",
    "exactly-once or at-least-once checkpoints",
    "EXACTLY_ONCE",
    "AT_LEAST_ONCE",
)
CHECKPOINTING_TIMEOUT = _duration(
    "execution.checkpointing.timeout", 600000, "time after which a checkpoint is discarded"
)
CHECKPOINTING_MIN_PAUSE = _duration(
    "execution.checkpointing.min-pause", 0, "least time between two checkpoints"
)
MAX_CONCURRENT_CHECKPOINTS = _number(
    "execution.checkpointing.max-concurrent-checkpoints", 1, "checkpoints that may be under way at once"
)
TOLERABLE_FAILED_CHECKPOINTS = _number(
    "execution.checkpointing.tolerable-failed-checkpoints", 0, "checkpoints that may fail before the job does"
)
CHECKPOINT_RETENTION = _enum(
    "execution.checkpointing.externalized-checkpoint-retention",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "whether checkpoints outlive the job",
    "DELETE_ON_CANCELLATION",
    "RETAIN_ON_CANCELLATION",
    "NO_EXTERNALIZED_CHECKPOINTS",
)
CHECKPOINTS_AFTER_TASKS_FINISH = _flag(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    "whether checkpoints continue after tasks end",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
ALIGNED_CHECKPOINT_TIMEOUT = _duration(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    "time after which aligned checkpoints go unaligned",
    "execution.checkpointing.alignment-timeout",
)
RECOVER_OUTPUT_ON_DOWNSTREAM = _flag(
    "execution.checkpointing.unaligned.recover-output-on-downstream.enabled",
    False,
    "whether output in flight is recovered by its readers",
)
CHECKPOINT_ID_OF_IGNORED_IN_FLIGHT_DATA = FlinkOption(
    "execution.state-recovery.without-channel-state.checkpoint-id",
    parse_long,
    -1,
    "a 64-bit integer",
    "checkpoint whose data in flight is ignored",
    ("execution.checkpointing.recover-without-channel-state.checkpoint-id",),
)
STATE_CHANGELOG = _flag(
    "state.changelog.enabled", False, "whether changes of state are logged", "state.backend.changelog.enabled"
)
CLAIM_MODE = _enum(
    "execution.state-recovery.claim-mode",
    "NO_CLAIM",
    "owner of the files of the restored snapshot",
    "CLAIM",
    "NO_CLAIM",
    "LEGACY",
    deprecated=("execution.savepoint-restore-mode",),
)
UNALIGNED = _flag(
    "execution.checkpointing.unaligned.enabled",
    False,
    "whether checkpoints are unaligned",
    "execution.checkpointing.unaligned",
)
FORCE_UNALIGNED = _flag(
    "execution.checkpointing.unaligned.forced", False, "whether checkpoints are unaligned for every job"
)
PAUSE_SOURCES = _flag(
    "pipeline.sources.pause-until-first-checkpoint", False, "whether sources wait for the first checkpoint"
)
SAVEPOINT_PATH = FlinkOption(
    "execution.state-recovery.path",
    parse_string,
    None,
    "a path",
    "the snapshot to restore from",
    ("execution.savepoint.path",),
)
IGNORE_UNCLAIMED_STATE = _flag(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "whether state that no operator claims is dropped",
    "execution.savepoint.ignore-unclaimed-state",
)
APPROXIMATE_LOCAL_RECOVERY = _flag(
    "execution.state-recovery.approximate-local-recovery",
    False,
    "whether failed tasks restart on their own",
    "execution.checkpointing.approximate-local-recovery",
)

OPTIONS: tuple[FlinkOption, ...] = tuple(v for v in globals().values() if isinstance(v, FlinkOption))
"""Every option in this module."""


def parallelism_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """Return parallelism as text by job vertex id; the option's map wins over keys set one by one.

    Raises ValueError. Source: Dispatcher.applyParallelismOverrides, Configuration (prefix maps).
    """
    prefix = f"{PARALLELISM_OVERRIDES.key}."
    single = {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}
    return {**single, **read_option(config, PARALLELISM_OVERRIDES)}


def key_set(config: Mapping[str, str], option: FlinkOption) -> str | None:
    """Return the key under which the option is set, preferring its own to deprecated ones; None if unset."""
    return next((key for key in (option.key, *option.deprecated) if key in config), None)


def read_option(config: Mapping[str, str], option: FlinkOption) -> Any:
    """Return the option's value or its default (Configuration.get). Raises ValueError if it
    cannot be parsed.
    """
    key = key_set(config, option)
    return option.default if key is None else option.parse(config[key])
