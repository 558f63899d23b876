"""Recognises what a caller hands over as topologies, in one of the forms that planners read."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.library.frames_as_arrow import frame_as_arrow, is_pandas
from penstock.engine.library.spelled_columns import with_spelled_columns
from penstock.engine.library.topology_tables_of_frames import topology_tables_of_frames
from penstock.plans.errors import InputError, SchemaError
from penstock.plans.printable import first_and_count
from penstock.plans.tables.plain_columns import require_unique_columns
from penstock.plans.topology.json_documents import elements
from penstock.plans.topology.rules import shorten
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import TopologyForm

ALLOWED = (
    "a topology (dict or JSON text), a list of them, a path or a list of paths, a frame with a topology in "
    "each row, or two frames: (topologies, transformations)"
)


class Paths(NamedTuple):
    """Files, folders and globs."""

    paths: list[str]


class Objects(NamedTuple):
    """Dicts and JSON texts of one topology each."""

    topologies: Sequence[Mapping[str, Any] | bytes]


class TablesOfTopologies(NamedTuple):
    """Tables with the columns of `topologies` and `transformations`."""

    topologies: pa.Table
    transformations: pa.Table


class SparkFrames(NamedTuple):
    """DataFrames: of topologies and transformations, or one with a topology in each row."""

    frames: list[Any]


Given = Paths | Objects | TablesOfTopologies | SparkFrames


def given_topologies(topologies: Any) -> Given:
    """What `topologies` are, in the forms that `ALLOWED` names. Raises InputError for anything else.

    A string is JSON text if it looks like it and there is no such path. Frames are those of pandas, polars,
    PyArrow and Spark, and whatever else hands out Arrow's C stream.
    """
    match topologies:
        case str() | os.PathLike() | bytes() | bytearray() | Mapping():
            return _listed([topologies])
        case _ if is_frame(topologies):
            return _recognise_frames([topologies])
        case Iterable():
            return _listed(list(topologies))
    raise _not_allowed(topologies)


def is_frame(value: Any) -> bool:
    """Whether a value is a table of any library."""
    if isinstance(value, pl.LazyFrame) or is_spark_frame(value):
        return True
    if not hasattr(value, "__arrow_c_stream__"):
        return False
    # A Series, and an array in chunks, have neither; they are read item by item.
    return hasattr(value, "columns") or hasattr(value, "schema") or not isinstance(value, Iterable)


def is_spark_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of Spark; nothing is, unless somebody has imported pyspark."""
    spark = sys.modules.get("pyspark.sql")
    return spark is not None and isinstance(value, spark.DataFrame)


def _listed(items: list[Any]) -> Given:
    frames = [item for item in items if is_frame(item)]
    if frames:
        if len(frames) < len(items) or len(items) > 2:
            kinds = ", ".join(dict.fromkeys(_kind(item) for item in items))
            raise InputError(f"topologies: found {len(items)} items ({kinds})", f"allowed: {ALLOWED}")
        return _recognise_frames(items)
    paths = [os.fspath(item) for item in items if _is_path(item)]
    if not paths or not items:
        return Objects([json_object for item in items for json_object in _objects(item)])
    if len(paths) < len(items):
        other = next(item for item in items if not _is_path(item))
        raise InputError(
            f"topologies: found paths beside {_kind(other)} {shorten(other, 60)}", f"allowed: {ALLOWED}"
        )
    wrong = [path for path in paths if not isinstance(path, str) or not path]
    if wrong:
        raise InputError(f"topologies: found the path {wrong[0]!r}", f"allowed: {ALLOWED}")
    return Paths(paths)


def _is_path(item: Any) -> bool:
    return isinstance(item, os.PathLike) or (isinstance(item, str) and not _is_json(item))


def _is_json(text: str) -> bool:
    """Whether a string is JSON, right or wrong, and not a path or a glob such as {a,b}.jsonl."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return False
    opened = stripped[:1] == "[" and stripped[1:].lstrip()[:1] in ("", "{")
    written = opened or stripped in ("{}", "[]") or any(sign in stripped for sign in ('"', "'", ":", "\n"))
    try:
        return written and not os.path.exists(text)
    except ValueError:  # no path holds such characters
        return True


def _objects(item: Any) -> Iterable[Mapping[str, Any] | bytes]:
    match item:
        case Mapping():
            return [item]
        case str():
            text = item.encode("utf-8", "surrogatepass")
        case bytes() | bytearray():
            text = bytes(item)
        case _:
            raise _not_allowed(item)
    texts = list(elements([text], len(text)))
    broken = next((element.problem for element in texts if element.problem is not None), None)
    if broken is not None:
        raise InputError(
            f"topologies: found JSON text with {broken.split(';')[0]}", "check its brackets and commas"
        )
    return [element.value for element in texts] or [text]


def _recognise_frames(frames: list[Any]) -> Given:
    if any(is_spark_frame(frame) for frame in frames):
        if not all(is_spark_frame(frame) for frame in frames):
            raise InputError(
                "topologies: found a DataFrame of Spark beside another frame", "give two of one kind"
            )
        from penstock.plans.frames.spark_schemas import has_ended

        if any(has_ended(frame.sparkSession) for frame in frames):
            raise InputError("topologies: found a DataFrame whose Spark session has been stopped")
        if any(frame.isStreaming for frame in frames):
            raise InputError(
                "topologies: found a streaming DataFrame",
                "plan in df.writeStream.foreachBatch, where each batch is a DataFrame with an end",
            )
        return SparkFrames([with_spelled_columns(frames[0])] if len(frames) == 1 else frames)
    if len(frames) == 1:
        return Objects(topologies_of_rows(frames[0]))
    return TablesOfTopologies(*topology_tables_of_frames(*frames))


def _not_allowed(item: Any) -> InputError:
    return InputError(f"topologies: found {_kind(item)} {shorten(item, 60)}", f"allowed: {ALLOWED}")


def _kind(value: Any) -> str:
    return type(value).__name__


# A frame whose rows are topologies as dicts.


_MAPS = ("config", "managed_memory", "input_requirements")


def topologies_of_rows(frame: Any) -> list[Mapping[str, Any]]:
    """The rows of a frame, with the keys of a line of a topology file as columns; null is a key that is not
    set.

    The frame is read once. Raises InputError if it lacks the columns that a topology has in any case, and
    SchemaError where two columns have one name, or it has others.
    """
    if is_pandas(frame):
        require_unique_columns(map(str, frame.columns), "a frame of pandas")
        require_topologies(list(map(str, frame.columns)))
        rows: list[dict[str, Any]] = frame.to_dict("records")
        return [_set({key: _int(value) for key, value in row.items()}) for row in rows]
    table = frame_as_arrow(frame)
    require_topologies(table.column_names)
    return [_set(row) for row in table.to_pylist()]


def require_topologies(columns: Sequence[str]) -> None:
    """InputError or SchemaError unless these can be the columns of a frame with a topology in each row."""
    if "name" in columns and any(form in columns for form in TopologyForm):
        _require_no_others(columns)
        return
    names = first_and_count(columns) or "none"
    raise InputError(
        f"topologies: found a frame with the columns {names}",
        "allowed: one frame with the columns name and transformations (a list of structs) or stream_graph, "
        "or two frames, (topologies, transformations)",
    )


def _require_no_others(columns: Sequence[str]) -> None:
    """SchemaError naming every column of a frame, with a topology in each row, that is no key of one."""
    others = [repr(name) for name in columns if name not in TOPOLOGY_KEYS]
    if others:
        raise SchemaError(
            f"topologies: found columns that no topology has: {first_and_count(others)}; "
            f"allowed {', '.join(TOPOLOGY_KEYS)}",
            "leave them out, or name them in ignore=[…]: they are kept beside the plan",
        )


def _set(row: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with values, at any depth."""
    kept = {key: _plain(key, value) for key, value in row.items()}
    return {key: value for key, value in kept.items() if value is not None}


def _plain(key: str, value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, Mapping):
        return _set(value)
    if isinstance(value, list | tuple):
        if key in _MAPS:
            return _set(dict(value)) if value else None
        return [_plain("", item) for item in value]
    return None if value != value else value  # NaN


def _int(value: Any) -> Any:
    """pandas has ints beside nulls as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
