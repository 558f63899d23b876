"""Recognise the topologies that a caller passes, and check them, in the forms that planners read.

`given_topologies` is the entry; graphs of other libraries become topologies by `import_graph`.
"""

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import member, path, strings, text, whole_number
from penstock.engine.machine.folders import short_lived_folder
from penstock.plans.errors import ConfigurationError, InputError, SchemaError
from penstock.plans.importing.given_graph import (
    EDGE_ATTRIBUTES,
    NODE_ATTRIBUTES,
    ImportOptions,
    SeveralInputs,
    graph_of_library,
    topology_of_graph,
)
from penstock.plans.importing.node_errors import graph_errors
from penstock.plans.printable import first_and_count, limited
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.tables.plain_columns import plain_columns, require_unique_columns
from penstock.plans.topology.find_topology_files import TopologyPaths, examine_paths
from penstock.plans.topology.json_documents import elements
from penstock.plans.topology.normalized_tables import require_given_columns
from penstock.plans.topology.operator_rules import TRANSFORMATION_KEYS
from penstock.plans.topology.rules import shorten
from penstock.plans.topology.topologies_of_lines import NAMED_BY_TRANSFORMATIONS, topology_id
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import Partitioner, PartitionerName, SeveralInputsName, TopologyForm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["import_graph"]

_MUST_BE = "topologies must be dicts, JSON text, paths or frames"
ALLOWED = (
    "give a topology (dict or JSON text), a list of them, a path or a list of paths, a frame with one "
    "topology per row, or two frames: (topologies, transformations)"
)


class TablesOfTopologies(NamedTuple):
    """Tables with the columns of `topologies` and `transformations`."""

    topologies: pa.Table
    transformations: pa.Table


class SparkFrames(NamedTuple):
    """DataFrames of topologies and transformations, or one with one topology per row; columns are checked."""

    frames: list[Any]


TopologySource = TopologyPaths | Sequence[Mapping[str, Any] | bytes] | TablesOfTopologies | SparkFrames
"""Paths, a list of dicts and JSON texts, tables, or DataFrames. Planners in process take all but the last."""


class Given(NamedTuple):
    """Topologies, and a frame of `name` and the columns that a caller wants ignored, if any."""

    source: TopologySource
    ignored: Any = None


def given_topologies(topologies: Any, ignore: Sequence[str] = ()) -> Given:
    """Recognise `topologies` in one of the forms of `ALLOWED`, and check the columns of frames.

    A string is JSON text if it looks like JSON and there is no such path. Frames may be pandas', polars',
    PyArrow's and Spark's, and any other with Arrow's C stream; of the first one, the columns `ignore` are
    split off. Raises InputError, SchemaError, and ConfigurationError for a wrong `ignore`.
    """
    if isinstance(ignore, str) or not all(isinstance(column, str) for column in ignore):
        raise ConfigurationError("ignore must be a list of names of columns, such as ['team']")
    _require_no_keys(ignore)
    if isinstance(topologies, str | os.PathLike | bytes | bytearray | Mapping) or is_frame(topologies):
        items = [topologies]
    elif isinstance(topologies, Iterable):
        items = list(topologies)
    else:
        raise _not_allowed(topologies)
    frames = [item for item in items if is_frame(item)]
    if ignore and (not frames or len(frames) < len(items)):
        raise ConfigurationError("ignore needs frames, which have columns", "leave it out")
    if not frames:
        return Given(_paths_or_objects(items))
    if len(frames) < len(items) or len(items) > 2:
        kinds = ", ".join(dict.fromkeys(_kind(item) for item in items))
        raise InputError(f"{_MUST_BE}, got {len(items)} items ({kinds})", ALLOWED)
    if any(map(is_spark_frame, frames)):
        return _given_dataframes(frames, ignore)
    return _given_frames(frames, ignore)


def _paths_or_objects(items: list[Any]) -> TopologyPaths | Sequence[Mapping[str, Any] | bytes]:
    paths = [os.fspath(item) for item in items if _is_path(item)]
    if not paths:
        return [json_object for item in items for json_object in _objects(item)]
    if len(paths) < len(items):
        other = next(item for item in items if not _is_path(item))
        raise InputError(f"{_MUST_BE}, got paths and {_kind(other)} {shorten(other, 60)}", ALLOWED)
    wrong = [path for path in paths if not isinstance(path, str) or not path]
    if wrong:
        raise InputError(f"{_MUST_BE}, got the path {wrong[0]!r}", ALLOWED)
    return examine_paths(paths)


def _is_path(item: Any) -> bool:
    return isinstance(item, os.PathLike) or (isinstance(item, str) and not _is_json(item))


def _is_json(text: str) -> bool:
    """Return whether a string is JSON, valid or not, rather than a path or a glob such as {a,b}.jsonl."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return False
    opened = stripped[:1] == "[" and stripped[1:].lstrip()[:1] in ("", "{")
    written = opened or stripped in ("{}", "[]") or any(sign in stripped for sign in ('"', "'", ":", "\n"))
    try:
        return written and not os.path.exists(text)
    except ValueError:  # a path cannot contain such characters
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
            f"topologies must be valid JSON, got JSON text with {broken.split(';')[0]}",
            "check its brackets and commas",
        )
    return [element.value for element in texts] or [text]


def _not_allowed(item: Any) -> InputError:
    return InputError(f"{_MUST_BE}, got {_kind(item)} {shorten(item, 60)}", ALLOWED)


def _kind(value: Any) -> str:
    return type(value).__name__


def is_frame(value: Any) -> bool:
    """Return whether a value is a table of any library."""
    if isinstance(value, pl.LazyFrame) or is_spark_frame(value):
        return True
    if not hasattr(value, "__arrow_c_stream__"):
        return False
    # A Series, and a chunked array, have neither; they are read item by item.
    return hasattr(value, "columns") or hasattr(value, "schema") or not isinstance(value, Iterable)


def is_spark_frame(value: Any) -> bool:
    """Return whether a value is a DataFrame of Spark; always False if pyspark was never imported."""
    spark = sys.modules.get("pyspark.sql")
    return spark is not None and isinstance(value, spark.DataFrame)


def session_of(topologies: Any) -> "SparkSession | None":
    """Return the session of a DataFrame of Spark, or of the first of several frames."""
    frame = topologies[0] if isinstance(topologies, list | tuple) and topologies else topologies
    session: SparkSession | None = frame.sparkSession if is_spark_frame(frame) else None
    return session


_NAME = "name"


def _require_no_keys(ignore: Sequence[str]) -> None:
    wrong = [column for column in ignore if column in TOPOLOGY_KEYS]
    if wrong:
        raise ConfigurationError(f"ignore must not name {', '.join(wrong)}: topologies are planned from it")


def _require_ignored(ignore: Sequence[str], columns: Sequence[str]) -> None:
    missing = [column for column in ignore if column not in columns]
    if missing:
        raise InputError(
            f"ignore: column {', '.join(map(repr, missing))} is missing; "
            f"the frame has {first_and_count(columns)}"
        )


# DataFrames of Spark, in whose names case is irrelevant.


def _given_dataframes(frames: list[Any], ignore: Sequence[str]) -> Given:
    """Check DataFrames; names of columns and fields are spelled as keys afterwards."""
    if not all(map(is_spark_frame, frames)):
        raise InputError(
            "topologies must be frames of one library, got a DataFrame of Spark and another frame",
            "give two of one kind",
        )
    from penstock.plans.frames.spark_schemas import has_ended

    if any(has_ended(frame.sparkSession) for frame in frames):
        raise InputError("topologies: the Spark session of the DataFrame has been stopped")
    if any(frame.isStreaming for frame in frames):
        raise InputError(
            "topologies must not be a streaming DataFrame",
            "plan in df.writeStream.foreachBatch, where each batch is a finite DataFrame",
        )
    first, *others = frames
    ignored = None
    if ignore:
        name = _column_named(first, _NAME) or _NAME
        ignore = [_column_named(first, column) or column for column in ignore]
        _require_no_keys(_spelled_names(ignore, TOPOLOGY_KEYS))
        _require_ignored([name, *ignore], list(map(str, first.columns)))
        ignored = first.selectExpr(f"{quoted(name)} as {_NAME}", *map(quoted, ignore))
        first = first.drop(*ignore)
    if others:
        rows = others[0]
        require_topology(rows.columns)
        named = OF_TOPOLOGY in rows.columns and TOPOLOGY not in rows.columns
        types = {TOPOLOGY: "bigint"} if named else {}
        types |= dict((rows.drop(OF_TOPOLOGY) if named else rows).dtypes)
        require_given_columns(dict(first.dtypes), "topologies")
        require_given_columns(types, "transformations")
    else:
        first = _with_spelled_columns(first)
        require_topologies(first.columns)
        require_unique_columns(first.columns, "topologies")
    return Given(SparkFrames([first, *others]), ignored)


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark, with any characters."""
    return "`" + name.replace("`", "``") + "`"


OPERATORS = TopologyForm.TRANSFORMATIONS.value


def _with_spelled_columns(frame: Any) -> Any:
    """Return `frame`, with one topology per row, with columns and fields of transformations spelled as keys.

    Raises SchemaError, which names fields that transformations do not have.
    """
    if len({name.lower() for name in frame.columns}) < len(frame.columns):
        return frame
    if _is_case_sensitive(frame):
        spelled, fields = list(frame.columns), tuple[str, ...]()
    else:
        spelled, fields = _spelled_names(frame.columns, TOPOLOGY_KEYS), TRANSFORMATION_KEYS
    columns, changed = [], spelled != frame.columns
    for name, field in zip(spelled, frame.schema, strict=True):
        column, kind = frame[quoted(field.name)], field.dataType
        if name == OPERATORS:
            kind = _with_spelled_fields(kind, fields)
            _require_no_other_spelling(kind)
        if kind != field.dataType:
            column, changed = column.cast(kind), True
        columns.append(column.alias(name))
    return frame.select(*columns) if changed else frame


def _spelled_names(names: Sequence[str], known: Collection[str]) -> list[str]:
    """Return `names` in the spelling of `known`; unknown names, and ambiguous ones, stay unchanged."""
    spelling = {name.lower(): name for name in known}
    spelled = [name if name in known else spelling.get(name.lower(), name) for name in names]
    return spelled if len(set(spelled)) == len(set(names)) else list(names)


def _column_named(frame: Any, name: str) -> str | None:
    """Return the column of a Spark frame that its session finds by `name`; None if none or several."""
    columns = list(map(str, frame.columns))
    if name in columns:
        return name
    others = [column for column in columns if column.lower() == name.lower()]
    return others[0] if len(others) == 1 and not _is_case_sensitive(frame) else None


def _is_case_sensitive(frame: Any) -> bool:
    return bool(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true")


def _with_spelled_fields(kind: Any, keys: Collection[str]) -> Any:
    """Return the type of a list of structs, with the names of their fields spelled as in `keys`."""
    fields = getattr(getattr(kind, "elementType", None), "fields", None)
    if fields is None:
        return kind
    names = _spelled_names([field.name for field in fields], keys)
    from pyspark.sql.types import ArrayType, StructField, StructType

    spelled = [
        StructField(name, field.dataType, field.nullable) for name, field in zip(names, fields, strict=True)
    ]
    return ArrayType(StructType(spelled), kind.containsNull) if names != kind.elementType.names else kind


def _require_no_other_spelling(kind: Any) -> None:
    fields = getattr(getattr(kind, "elementType", None), "fields", None) or ()
    others = [repr(field.name) for field in fields if field.name not in TRANSFORMATION_KEYS]
    if others:
        raise SchemaError(
            f"{OPERATORS}: fields must be among {', '.join(TRANSFORMATION_KEYS)}, "
            f"got {first_and_count(others)}",
            "leave them out of the structs",
        )


# Frames of other libraries: dicts of rows, or tables.


def _given_frames(frames: list[Any], ignore: Sequence[str]) -> Given:
    first, *others = frames
    ignored = None
    if ignore:
        table = frame_as_arrow(first)
        _require_ignored([_NAME, *ignore], table.column_names)
        first, ignored = table.drop_columns(list(ignore)), table.select([_NAME, *ignore])
    if others:
        return Given(TablesOfTopologies(*topology_tables_of_frames(first, *others)), ignored)
    return Given(topologies_of_rows(first), ignored)


_MAPS = ("config", "managed_memory", "input_requirements")


def topologies_of_rows(frame: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a frame whose columns are keys of a topology line; null is a key that is not set.

    The frame is read once. Raises InputError if it lacks required columns, and
    SchemaError if two columns have the same name, or it has unknown ones.
    """
    if _is_pandas(frame):
        require_unique_columns(map(str, frame.columns), "a frame of pandas")
        require_topologies(list(map(str, frame.columns)))
        rows: list[dict[str, Any]] = frame.to_dict("records")
        return [_set({key: _int(value) for key, value in row.items()}) for row in rows]
    table = frame_as_arrow(frame)
    require_topologies(table.column_names)
    return [_set(row) for row in table.to_pylist()]


def require_topologies(columns: Sequence[str]) -> None:
    """Raise InputError or SchemaError unless a frame with one topology per row may have these columns."""
    if "name" in columns and any(form in columns for form in TopologyForm):
        _require_no_others(columns)
        return
    names = first_and_count(columns) or "none"
    raise InputError(
        f"topologies: a frame must have the columns name and transformations (a list of structs) or "
        f"stream_graph, got {names}",
        "or pass two frames, (topologies, transformations)",
    )


def _require_no_others(columns: Sequence[str]) -> None:
    """Raise SchemaError, which names every column that is not a key of topologies."""
    others = [repr(name) for name in columns if name not in TOPOLOGY_KEYS]
    if others:
        raise SchemaError(
            f"topologies: columns must be among {', '.join(TOPOLOGY_KEYS)}, got {first_and_count(others)}",
            "leave them out, or name them in ignore=[…]: Plan.ignored then returns them",
        )


def _set(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that have values, at any depth."""
    plain = {key: _plain(key, value) for key, value in row.items()}
    return {key: value for key, value in plain.items() if value is not None}


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
    """Convert whole floats to ints, because pandas represents ints with nulls as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


OF_TOPOLOGY = "topology"
"""Column of `transformations` with the name of the topology, from which topology_id is computed."""


def topology_tables_of_frames(topologies: Any, transformations: Any) -> tuple[pa.Table, pa.Table]:
    """Return both frames as Arrow tables; `transformations` has topology_id, or `topology` with its name.

    Columns without any value are left out. Maps may be structs, or lists of keys and values. Raises
    InputError.
    """
    given = _with_maps(frame_as_arrow(topologies), "topologies")
    rows = _with_maps(frame_as_arrow(transformations), "transformations")
    require_topology(rows.column_names)
    if OF_TOPOLOGY in rows.column_names and TOPOLOGY not in rows.column_names:
        names = rows[OF_TOPOLOGY].to_pylist()
        wrong = next((name for name in names if not isinstance(name, str)), "")
        if wrong != "":
            raise InputError(
                f"transformations: column {OF_TOPOLOGY} must be a name in each row, got {wrong!r}",
                "name a topology of the first frame in each row",
            )
        ids = {name: topology_id(name) for name in set(names)}
        rows = rows.drop_columns([OF_TOPOLOGY])
        rows = rows.append_column(TOPOLOGY, pa.array([ids[name] for name in names], pa.int64()))
        given = _with_missing(given, dict.fromkeys(names))
    return given, rows


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _with_missing(topologies: pa.Table, names: Iterable[str]) -> pa.Table:
    """Add a row, to be rejected, for each of the `names` that `topologies` lacks."""
    named = [name for name in ("name", "form") if name in topologies.column_names]
    if "name" not in named or not all(_is_text(topologies.schema.field(name).type) for name in named):
        return topologies  # without names, or refused by the declared schema
    known = set(topologies["name"].to_pylist())
    missing = [name for name in names if name not in known]
    if not missing:
        return topologies
    forms = [NAMED_BY_TRANSFORMATIONS] * len(missing)
    texts = [pa.array(column, pa.large_string()) for column in (missing, forms)]
    for name in named:
        place = topologies.column_names.index(name)
        topologies = topologies.set_column(place, name, topologies[name].cast(pa.large_string()))
    return pa.concat_tables([topologies, pa.table(texts, ["name", "form"])], promote_options="default")


def require_topology(columns: Sequence[str]) -> None:
    """Raise InputError unless transformations with these columns name their topology."""
    if OF_TOPOLOGY not in columns and TOPOLOGY not in columns:
        raise InputError(
            f"transformations: a column that names the topology is missing: {first_and_count(columns)}",
            f"add {OF_TOPOLOGY}, the topology's name, or {TOPOLOGY}, the name's xxhash64",
        )


def _with_maps(table: pa.Table, name: str) -> pa.Table:
    declared = TABLES[name]
    columns = {}
    for column in table.column_names:
        kind = table[column].type
        if pa.types.is_null(kind):
            continue
        if pa.types.is_list(kind) and pa.types.is_null(kind.value_type) and column in declared.names:
            columns[column] = table[column].cast(declared.field(column).type)  # lists without any value
            continue
        is_map = column in declared.names and pa.types.is_map(declared.field(column).type)
        if is_map and not pa.types.is_map(kind):
            wanted = declared.field(column).type
            columns[column] = _as_maps(
                table[column], pa.map_(wanted.key_type, wanted.item_type), name, column
            )
        else:
            columns[column] = table[column]
    return pa.Table.from_pydict(columns)


def _as_maps(column: pa.ChunkedArray, kind: pa.DataType, table: str, name: str) -> pa.Array:
    try:
        return pa.array([_pairs(value) for value in column.to_pylist()], kind)
    except (pa.ArrowException, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{table}: column {name} must be a map, a struct or a list of (key, value), got {column.type}",
        ) from None


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return [(key, item) for key, item in value.items() if item is not None]
    return [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in value]


def frame_as_arrow(frame: Any) -> pa.Table:
    """Convert a frame of pandas, polars or PyArrow, or of any library with Arrow's C stream, to a table.

    A stream that can be read once is read. In pandas, NaN is null, and a column of whole floats (ints with
    NaN) becomes one of ints. Columns get plain types (see plain_columns). Raises InputError for a frame that
    Arrow cannot represent, such as one with two types of values in a column, and for an empty stream,
    and SchemaError if two columns have the same name.
    """
    if _is_pandas(frame):
        require_unique_columns(map(str, frame.columns), "a frame of pandas")
    table = _as_arrow(frame)
    if not len(table) and not _can_be_read_again(frame):
        raise InputError(
            f"topologies must have rows, got an empty stream ({type(frame).__name__})",
            "a stream can be read once: make it again, or pass the table from which it was made",
        )
    return plain_columns(table)


def _can_be_read_again(frame: Any) -> bool:
    """Return whether a frame still has its rows after they have been read."""
    return hasattr(frame, "__len__") or hasattr(frame, "num_rows") or isinstance(frame, pl.LazyFrame)


def _as_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    try:
        if isinstance(frame, pl.DataFrame):
            return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not _is_pandas(frame):
            return frame if isinstance(frame, pa.Table) else _read(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise InputError(f"{kind} has values that Arrow cannot represent: {limited(str(error))}") from None
    columns = [_ints(table[name]) for name in table.column_names]
    return pa.Table.from_arrays(columns, table.column_names)


def _read(frame: Any) -> pa.Table:
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    reader = frame if isinstance(frame, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(frame)
    return reader.read_all()


def _is_pandas(frame: Any) -> bool:
    """Return whether a value is a DataFrame of pandas, which the caller has imported to make it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _ints(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


# Convert costs of operators to the form of --costs.


@contextmanager
def costs_named(costs: Any) -> Iterator[str | None]:
    """Yield costs in the form of --costs; costs in a frame are in a file inside the context."""
    if costs is None or isinstance(costs, str):
        yield costs
    elif is_frame(costs):
        from pyarrow import parquet

        if is_spark_frame(costs):
            from penstock.engine.run.runtime.spark_application import in_running_session

            with in_running_session(costs.sparkSession, "costs"):
                table = costs.toArrow()
        else:
            table = frame_as_arrow(costs)
        with short_lived_folder("costs") as folder:
            file = Path(folder) / "costs.parquet"
            parquet.write_table(table, file)
            try:
                yield str(file)
            except (InputError, ConfigurationError) as error:
                if str(file) not in error.message:
                    raise
                raise type(error)(error.message.replace(str(file), "costs"), error.hint) from None
    elif isinstance(costs, os.PathLike):
        yield path("costs", costs)
    else:
        raise ConfigurationError(
            f"costs must be a frame, the path of a file or store, 'drawn' or 'alike', got {shorten(costs)}"
        )


# Convert graphs of other libraries to topologies by a library call.


def import_graph(
    graph: Any,
    name: str | None = None,
    *,
    parallelism: int | None = None,
    partitioner: Partitioner | PartitionerName | None = None,
    several_inputs: SeveralInputs | SeveralInputsName = SeveralInputs.OPERATOR,
    take: Mapping[str, str] | None = None,
    reverse: bool = False,
) -> dict[str, Any]:
    """Turn a directed graph of networkx or igraph into a topology.

    Each node becomes an operator, each edge an edge. Attributes named as keys of topology files (kind,
    parallelism, uid, partitioner, …) are taken. Without `kind`, nodes that read nothing are sources, nodes
    that nothing reads are sinks, and others have as many inputs as edges.

    Args:
        graph: A networkx.DiGraph or MultiDiGraph, or a directed igraph.Graph.
        name: Name of the topology; default: the graph's.
        parallelism: For nodes without one, 1 to 32768.
        partitioner: For edges without one: forward, rebalance, rescale, shuffle, broadcast, global, hash or
            custom.
        several_inputs: Of nodes with two or more inputs: "operator" (default: two_input or multi_input), or
            "union" (one_input over a union).
        take: Attribute by key, for attributes with other names: {"uid": "label"}.
        reverse: Edges point from readers to what they read.

    Returns:
        dict: A topology for `plan`. Its `config` lists assumptions and ignored attributes.

    Raises:
        InputError: Lists all reasons, such as a cycle, an undirected graph or a wrong value.
        ConfigurationError: Another argument is invalid.

    Examples:
        >>> import networkx
        >>> topology = penstock.import_graph(networkx.DiGraph([("read", "write")]), "a")
        >>> [node["kind"] for node in topology["transformations"]]
        ['source', 'sink']
    """
    options = ImportOptions(
        parallelism=None if parallelism is None else whole_number("parallelism", parallelism),
        partitioner=None if partitioner is None else str(member("partitioner", partitioner, Partitioner)),
        several_inputs=member("several_inputs", several_inputs, SeveralInputs),
        take=known_keys("take", strings("take", take)),
        reverse=bool(reverse),
    )
    read_graph = graph_of_library(graph, None if name is None else text("name", name, "my graph"))
    converted = topology_of_graph(read_graph, type(graph).__module__.partition(".")[0], options)
    errors = converted if isinstance(converted, list) else graph_errors(converted)
    if errors or isinstance(converted, list):
        raise InputError(f"graph: {first_and_count([error.message for error in errors], '; ')}")
    return converted


def known_keys(argument: str, take: Mapping[str, str]) -> Mapping[str, str]:
    """Return `take` if all its keys may come from attributes. Raises ConfigurationError."""
    allowed = (*NODE_ATTRIBUTES, *EDGE_ATTRIBUTES)
    if wrong := [key for key in take if key not in allowed]:
        raise ConfigurationError(f"keys of {argument} must be among {', '.join(allowed)}, got {wrong[0]!r}")
    return take
