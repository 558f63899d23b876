"""The files of the distributed cache out of the option pipeline.cached-files."""

from typing import NamedTuple

from penstock.operators.common.flink_yaml import as_option_text, load_yaml
from penstock.plans.topology.flink_values import FlinkValueError, split_escaped
from penstock.plans.topology.java_path import split_path, uri_error


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
    """Name to path of `name:a,path:b;…`, or of the same as YAML; a file without a name has the name "".

    Raises ValueError where Flink could not parse the value, FlinkValueError where it refuses what it has
    parsed. Source: ConfigurationUtils.convertToList, DistributedCache.parseCachedFilesFromString,
    ExecutionPlanUtils.prepareUserArtifactEntries.
    """
    entries: dict[str | None, _Entry] = {}
    for name, entry in [_named_entry(fields) for fields in [_fields(text) for text in _files(value)]]:
        if name in entries:
            raise _duplicate("null" if name is None else name, entries[name], entry)
        entries[name] = entry
    return {name or "": _path(entry) for name, entry in entries.items()}


def _files(value: str) -> list[str]:
    """The text of each file: the elements of a list in YAML, else the parts between semicolons."""
    try:
        found = load_yaml(value)
        if isinstance(found, list):
            return [as_option_text(one) for one in found]
    except ValueError:
        pass
    return split_escaped(value, ";")


def _named_entry(fields: dict[str, str]) -> tuple[str | None, _Entry]:
    return fields.get("name"), _Entry(fields.get("path"), fields.get("executable", "").lower() == "true")


def _fields(text: str) -> dict[str, str]:
    """The fields of one file: a map in YAML, else key:value between commas; a duplicate is an error."""
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
        found = load_yaml(text)
        if not isinstance(found, dict):
            return None
        fields = {as_option_text(key): as_option_text(item) for key, item in found.items()}
    except ValueError:
        return None
    return fields if len(fields) == len(found) else None


def _path(entry: _Entry) -> str:
    if not entry.path:
        what = "a null" if entry.path is None else "an empty"
        message = f"Can not create a Path from {what} string"
        raise FlinkValueError("has a file without a path", "IllegalArgumentException", message)
    error = uri_error(entry.path)
    if error is not None:
        message = f"java.net.URISyntaxException: {error}"
        raise FlinkValueError("has a file whose path is no URI", "IllegalArgumentException", message)
    scheme, authority, path = split_path(entry.path)
    if scheme is None and authority is not None and path in ("", "/"):
        # Flink takes it for the root directory, which it cannot pack
        message = 'Cannot invoke "org.apache.flink.core.fs.Path.getPath()" because "rootDir" is null'
        raise FlinkValueError("has a file with an authority and no path", "NullPointerException", message)
    return entry.path


def _duplicate(key: str, first: object, second: object) -> FlinkValueError:
    message = f"Duplicate key {key} (attempted merging values {first} and {second})"
    return FlinkValueError(f"has {key} twice", "IllegalStateException", message)
