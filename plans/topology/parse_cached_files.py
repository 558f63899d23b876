"""The files of the distributed cache out of the option pipeline.cached-files."""

from typing import NamedTuple

from plans.topology.flink_values import FlinkValueError, split_escaped


class _Entry(NamedTuple):
    """A file as Flink's DistributedCacheEntry; either may be missing."""

    path: str | None
    executable: bool

    def __str__(self) -> str:
        path, executable = self.path or "null", str(self.executable).lower()
        return (
            f"DistributedCacheEntry{{filePath='{path}', isExecutable={executable}, isZipped=false, "
            "blobKey=null}"
        )


def parse_cached_files(value: str) -> dict[str, str]:
    """Name to path of `name:a,path:b;…`; a file without a name has the name "".

    Raises ValueError where Flink could not parse the value, FlinkValueError where it refuses what it has
    parsed. Source: DistributedCache.parseCachedFilesFromString,
    ExecutionPlanUtils.prepareUserArtifactEntries.
    """
    entries: dict[str | None, _Entry] = {}
    for name, entry in [
        _named_entry(fields) for fields in [_fields(text) for text in split_escaped(value, ";")]
    ]:
        if name in entries:
            raise _duplicate("null" if name is None else name, entries[name], entry)
        entries[name] = entry
    return {name or "": _path(entry) for name, entry in entries.items()}


def _named_entry(fields: dict[str, str]) -> tuple[str | None, _Entry]:
    return fields.get("name"), _Entry(fields.get("path"), fields.get("executable", "").lower() == "true")


def _fields(text: str) -> dict[str, str]:
    """The fields of one file; a duplicate is an error."""
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


def _path(entry: _Entry) -> str:
    if not entry.path:
        what = "a null" if entry.path is None else "an empty"
        message = f"Can not create a Path from {what} string"
        raise FlinkValueError("has a file without a path", "IllegalArgumentException", message)
    return entry.path


def _duplicate(key: str, first: object, second: object) -> FlinkValueError:
    message = f"Duplicate key {key} (attempted merging values {first} and {second})"
    return FlinkValueError(f"has {key} twice", "IllegalStateException", message)
