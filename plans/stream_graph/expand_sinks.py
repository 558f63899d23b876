"""Expand sinks of the Sink V2 API, and caches, into the operators that Flink creates for them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrays import Ints, runs
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.stream_graph.resolve_virtual_nodes import (
    FIRST_VIRTUAL,
    KINDS,
    InputRows,
    input_rows,
)
from penstock.plans.stream_graph.transformation_details import details_of, has_details, with_node_ids
from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.tables.column_types import BOOL, INT, STR, TOPOLOGY
from penstock.plans.topology.canonical_texts import RESOURCES_OF_ZERO, json_of_keys
from penstock.plans.topology.operator_rules import DETAILS
from penstock.plans.vocabulary import (
    SOURCE_KINDS,
    VIRTUAL_KINDS,
    ChainingStrategy,
    JobType,
    Kind,
    Partitioner,
    StreamExchangeMode,
)

# The operators that a sink of the Sink V2 API expands to, derived from the sink's own keys.
#
# Source: SinkTransformationTranslator.SinkExpander, GlobalCommitterTransformationTranslator.


EXPANDED = pa.schema(
    [
        *(field for field in TRANSFORMATIONS if field.name != "sink_topology"),
        pa.field("position", INT, False),
        pa.field("transformation", INT, False),
        pa.field("concurrent_attempts", BOOL, False),
    ]
)
"""Rows of transformations after the expansion of sinks. position: the order in which Flink translates them,
from 1; transformation: the author's id of the original transformation."""

_INHERITED = ("parallelism", "max_parallelism", "slot_sharing_group")
"""Attributes that an operator inherits from its sink unless it sets them itself."""

_SINK_ITSELF: dict[str, Any] = dict.fromkeys((*_INHERITED, "uid", "co_location_group", "chaining")) | {
    "kind": str(Kind.UNION),
    "inputs": [],
}
"""Values that replace an expanded sink's own."""

_WRITER, _COMMITTER, _GLOBAL_COMMITTER = "Writer", "Committer", "Global Committer"
_UIDS = {
    _WRITER: ("", ""),
    _COMMITTER: ("Sink Committer: ", ""),
    _GLOBAL_COMMITTER: ("Sink ", " Global Committer"),
}
"""Name of an operator, Flink's or a step's, to the text before and after the sink's uid."""

_FROM_TRANSFORMATIONS = (
    *("kind", "name", "uid", "uid_hash", *_INHERITED, "co_location_group", "buffer_timeout", "chaining"),
    *("managed_memory", "slot_scope", "min_resources", "preferred_resources", "partitioner", "exchange_mode"),
    "details",
)
_PART = pa.schema(
    [
        pa.field("sink_topology", STR, False),
        *(TRANSFORMATIONS.field(name).with_nullable(True) for name in _FROM_TRANSFORMATIONS),
        pa.field("id_after", INT, False),
        pa.field("ways_before", INT, False),
        pa.field("before_uid", STR, True),
        pa.field("after_uid", STR, True),
        pa.field("takes_of_sink", BOOL, False),
        pa.field("concurrent_attempts", BOOL, False),
    ]
)
"""The columns of parts of sinks. Columns of transformations contain the values that the part sets itself.

Its id is id_after, plus ways_before times the ways into the sink, after the ids assigned before; it reads the
previous part. The sink's uid is inserted between before_uid and after_uid; both null: the part has no uid.
takes_of_sink: it inherits values that it does not set from the sink."""


def _parts_of_sink(sink_topology: str) -> tuple[list[dict[str, Any]], int, int]:
    """Return the parts of a sink (PART) in order, and the ids they take: a fixed number, and a number per
    way.

    All parts take their ids first, as Flink creates all transformations first; then virtual nodes take
    theirs.
    """
    sink: dict[str, Any] = orjson.loads(sink_topology)
    is_global = bool(sink.get("global_committer"))
    steps = list(_before_global_committer(sink))
    last = max((place for place, part in enumerate(steps) if part["kind"] != Kind.PARTITION), default=0)
    ids, ways = len(steps) + is_global, 0  # GlobalCommitterTransform has an id and is not a node
    read_by_one = True
    for part in steps if is_global else steps[: last + 1]:
        if part["kind"] != Kind.PARTITION:
            read_by_one = False
        elif read_by_one:
            ways += 1
        else:
            ids += 1
    parts = [{**part, "id_after": place, "ways_before": 0} for place, part in enumerate(steps, 1)]
    if is_global:
        way_offset = {"ways_before": ways}
        parts.append(_partition(Partitioner.GLOBAL) | way_offset | {"id_after": ids + 1})
        parts.append(_global_committer() | way_offset | {"id_after": ids + 2})
        ids += 3  # including the virtual node of the partition
    return [{"sink_topology": sink_topology, **part} for part in parts], ids, ways


def _before_global_committer(sink: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hashes = {
        _WRITER: sink["writer"].get("uid_hash"),
        _COMMITTER: sink.get("committer", {}).get("uid_hash"),
    }
    concurrent = bool(sink["writer"].get("supports_concurrent_execution_attempts", False))
    configured = {CONFIGURED: sink[CONFIGURED]} if CONFIGURED in sink else {}
    for step in sink.get("pre_write", ()):
        attempts = concurrent and step["kind"] != Kind.PARTITION
        yield _step(step, hashes, configured) | {"concurrent_attempts": attempts}
    yield _operator(Kind.WRITER, _WRITER, hashes, configured) | {"concurrent_attempts": concurrent}
    if "committer" in sink:
        yield _fail_over_region()
        for step in sink.get("pre_commit", ()):
            yield _step(step, hashes, configured)
        yield _operator(Kind.COMMITTER, _COMMITTER, hashes, configured)
    if sink.get("post_commit") or sink.get("global_committer"):
        yield _fail_over_region()
        for step in sink.get("post_commit", ()):
            yield _step(step, hashes, configured)


_NO_ROWS = dict.fromkeys(RESOURCES_OF_ZERO, 0)
_EMPTY: dict[str, Any] = {"managed_memory": [], "slot_scope": []}


def _partition(partitioner: str, exchange_mode: str | None = None) -> dict[str, Any]:
    return {
        **_EMPTY,
        "kind": str(Kind.PARTITION),
        "partitioner": str(partitioner),
        "exchange_mode": exchange_mode,
        "takes_of_sink": False,
        "concurrent_attempts": False,
    }


def _fail_over_region() -> dict[str, Any]:
    """In BATCH mode, its input is written completely before it is read (SinkExpander.addFailOverRegion)."""
    return _partition(Partitioner.FORWARD, str(StreamExchangeMode.BATCH))


def _operator(
    kind: Kind, name: str, hashes: Mapping[str, str | None], configured: Mapping[str, bool]
) -> dict[str, Any]:
    before, after = _UIDS[name]
    return {
        **_EMPTY,
        "kind": str(kind),
        "name": name,
        "uid_hash": hashes.get(name),
        "before_uid": before,
        "after_uid": after,
        "takes_of_sink": True,
        "concurrent_attempts": False,
        "details": json_of_keys(dict(configured), DETAILS),
    }


def _global_committer() -> dict[str, Any]:
    """It inherits only the name and the uid of the sink."""
    own = {"parallelism": 1, "max_parallelism": 1, "chaining": str(ChainingStrategy.ALWAYS)}
    operator = _operator(Kind.GLOBAL_COMMITTER, _GLOBAL_COMMITTER, {}, {})
    return {**operator, **own, "takes_of_sink": False}


def _step(
    step: Mapping[str, Any], hashes: Mapping[str, str | None], configured: Mapping[str, bool]
) -> dict[str, Any]:
    """Return a step; one named like a writer or committer gets such a uid, too (SinkExpander.concatUid).

    `configured`: the sink's parallelism_configured, for steps without a parallelism of their own.
    """
    details = json_of_keys({**({} if "parallelism" in step else configured), **step}, DETAILS)
    if step["kind"] == Kind.PARTITION:
        details = json_of_keys(dict(step), DETAILS)
        return _partition(step["partitioner"], step.get("exchange_mode")) | {"details": details}
    name, uid = step.get("name", ""), step.get("uid")
    before, after = _UIDS.get(name, (None, None) if uid is None else ("", f": {uid}"))
    specified = {
        key: {**_NO_ROWS, **step[key]} for key in ("min_resources", "preferred_resources") if key in step
    }
    return {
        **step,
        **specified,
        "name": name,
        "uid_hash": hashes.get(name) or step.get("uid_hash"),
        "managed_memory": list(step.get("managed_memory", {}).items()),
        "slot_scope": step.get("slot_scope", []),
        "before_uid": before,
        "after_uid": after,
        "takes_of_sink": True,
        "concurrent_attempts": bool(step.get("supports_concurrent_execution_attempts", False)),
        "details": details,
    }


_SINK, _CACHE, _SIDE_OUTPUT = map(KINDS.index, (Kind.SINK, Kind.CACHE, Kind.SIDE_OUTPUT))
_IS_SOURCE = np.array([kind in SOURCE_KINDS for kind in KINDS])
_HAS_NODE = np.array([kind in (Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT) for kind in KINDS])
_NONE = -1


CONFIGURED = "parallelism_configured"
CACHE_WRITE, CACHE_READ = "CacheWrite", "CacheRead"
"""Flink's names for the operators of a cache. Source: CacheTransformationTranslator."""


def expand_transformations(transformations: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The transformations with sinks and caches expanded, and node ids instead of ids.

    In: transformations, job_settings. Out (key topology_id, id): EXPANDED. Ids of the parts of sinks follow
    the ids of all transformations.

    Source: {Sink,GlobalCommitter,Cache}TransformationTranslator.

    Example: a sink that commits becomes a writer and a committer
    (tests/passes/fixtures/expanded_transformations.txt).

      transformations
      id  kind    inputs  name   uid  sink_topology
      1   source  []      s      -    -
      2   sink    [1]     Files  out  {"committer":{},"writer":{}}

      -> expanded_transformations
      id  kind       inputs  name              uid
      1   source     []      s                 -
      2   union      []      Files             -
      3   writer     [1]     Files: Writer     out
      4   partition  [3]     ""                -
      5   committer  [4]     Files: Committer  Sink Committer: out
    """
    expanded = expand_sinks(transformations, job_settings)
    if not has_details(expanded):
        return expanded
    return with_node_ids(expand_caches(expanded, job_settings))


def expand_sinks(transformations: pl.DataFrame, job_settings: pl.DataFrame | None = None) -> pl.DataFrame:
    """The transformations with their sinks expanded (see EXPANDED).

    `job_settings`: needed if there are caches, for which ids are drawn in BATCH mode.
    """
    is_sink = pl.col("sink_topology").is_not_null()
    with_sinks = transformations.filter(is_sink)[TOPOLOGY].unique().implode()
    if not with_sinks.list.len().item():
        return _plain(transformations)
    has_sinks = pl.col(TOPOLOGY).is_in(with_sinks)
    ordered = with_configured(transformations.filter(has_sinks).sort(TOPOLOGY, "id"))
    links = input_rows(ordered.select(TOPOLOGY, "id", "inputs", "kind"))
    sizes, drawn = sizes_of_sinks(ordered), draw_ids(links, _caches_with_nodes(ordered, links, job_settings))
    numbers = number_sinks(ordered[TOPOLOGY].to_numpy(), links, sizes, drawn, _highest_ids(ordered))
    expanded = expand_numbered_sinks(ordered, numbers)
    return pl.concat([_plain(transformations.filter(~has_sinks)), expanded])


def _plain(transformations: pl.DataFrame) -> pl.DataFrame:
    return transformations.with_columns(
        position=pl.col("id"), transformation=pl.col("id"), concurrent_attempts=pl.lit(value=True)
    ).select(EXPANDED.names)


def sizes_of_sinks(transformations: pl.DataFrame) -> pl.DataFrame:
    """Return row, parts, ids and ids_of_ways of each row that is a sink to expand.

    A sink takes a fixed number of ids, and ids_of_ways for each way into it.
    """
    texts = transformations["sink_topology"]
    rows = texts.is_not_null().arg_true()
    _, sizes = _parts(texts.drop_nulls().unique())
    sinks = pl.DataFrame({"row": rows.cast(pl.Int64), "sink_topology": texts.gather(rows)})
    return sinks.join(sizes, on="sink_topology", how="left", maintain_order="left").drop("sink_topology")


class DrawnIds(NamedTuple):
    """The stream nodes that each row expands to, and the ids of virtual nodes drawn for each operator."""

    node_counts: Ints
    drawn: Ints


def draw_ids(links: InputRows, caches_with_nodes: Ints | None = None) -> DrawnIds:
    """Return the ids of virtual nodes, for links between rows by topology and id.

    `caches_with_nodes`: rows of caches for which Flink makes a virtual node.
    """
    node_counts, drawn = (np.zeros(len(links.kinds), np.int64) for _ in range(2))
    virtual = links.kinds >= FIRST_VIRTUAL
    run_loop(
        _count_ways,
        len(links.kinds),
        (links.bounds, links.rows, virtual, links.kinds == _SINK),
        (node_counts,),
    )
    has_node = _HAS_NODE[links.kinds]
    if caches_with_nodes is not None:
        has_node[caches_with_nodes] = True
    if has_node.any():
        first = np.full(len(links.kinds), _NONE, np.int64)
        run_loop(
            _count_drawn,
            len(links.kinds),
            (links.bounds, links.rows, virtual, _IS_SOURCE[links.kinds], has_node, node_counts),
            (drawn, first),
        )
    return DrawnIds(node_counts, drawn)


def number_sinks(
    topologies: Ints,
    links: InputRows,
    sizes: pl.DataFrame,
    drawn_ids: DrawnIds | None = None,
    highest_ids: Ints | None = None,
) -> pl.DataFrame:
    """Return last_id, after which the ids of a sink's parts begin, and `ways`, the ways into it.

    In: the topology of each row and the links between rows, by topology and id; `sizes` (see sizes_of_sinks)
    of their sinks, which are the rows of the result. `highest_ids`: the highest node id of each row's
    topology, if they differ from ids.
    """
    node_counts, drawn = drawn_ids or draw_ids(links)
    of_topologies = runs(topologies)
    counts = np.diff(np.append(of_topologies.starts, len(topologies)))
    sinks = sizes["row"].to_numpy()
    of_sinks = of_topologies.of_row[sinks]
    before = np.append(0, np.cumsum(drawn))
    drawn_until = before[sinks + 1] - before[of_topologies.starts[of_sinks]]
    ways = node_counts[links.rows[links.bounds[sinks]]]
    taken = _taken_ids(sizes, ways)
    taken_before = np.cumsum(taken) - taken
    first_sinks = np.searchsorted(of_sinks, of_sinks)
    highest = counts[of_sinks]
    if highest_ids is not None:
        highest = np.maximum(highest, highest_ids[sinks])
    last_id = highest + drawn_until + taken_before - taken_before[first_sinks]
    return pl.DataFrame({"last_id": last_id, "ways": ways})


def _taken_ids(sizes: pl.DataFrame, ways: Ints) -> Ints:
    """Return the ids that each sink takes."""
    taken: Ints = sizes["ids"].to_numpy() + sizes["ids_of_ways"].to_numpy() * ways
    return taken


def _highest_ids(ordered: pl.DataFrame) -> Ints | None:
    """Return the highest node id of each row's topology; None if none is set."""
    if not has_details(ordered):
        return None
    node_ids = details_of(ordered).hstack([ordered[TOPOLOGY]])
    highest: Ints = (
        node_ids.select(pl.col("node_id").max().over(TOPOLOGY).fill_null(0)).to_series().to_numpy()
    )
    return highest


def _caches_with_nodes(
    ordered: pl.DataFrame, links: InputRows, job_settings: pl.DataFrame | None
) -> Ints | None:
    """Return the rows of caches of side outputs in BATCH mode, for which Flink makes a virtual node."""
    caches = links.kinds == _CACHE
    if job_settings is None or not caches.any():
        return None
    rows = np.flatnonzero(
        caches & ordered[TOPOLOGY].is_in(_batch_topologies(job_settings).implode()).to_numpy()
    )
    of_side_outputs: Ints = rows[links.kinds[links.rows[links.bounds[rows]]] == _SIDE_OUTPUT]
    return of_side_outputs


def ids_of_translation(transformations: pl.DataFrame, job_settings: pl.DataFrame) -> int:
    """Return the number of ids that virtual nodes and the parts of sinks of the only topology take."""
    ordered = transformations.sort("id")
    links = input_rows(ordered.select(TOPOLOGY, "id", "inputs", "kind"))
    node_counts, drawn = draw_ids(links, _caches_with_nodes(ordered, links, job_settings))
    sizes = sizes_of_sinks(ordered)
    ways = node_counts[links.rows[links.bounds[sizes["row"].to_numpy()]]]
    return int(drawn.sum() + _taken_ids(sizes, ways).sum())


def expand_numbered_sinks(ordered: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """Expand the sinks of transformations in order of topology and id, all of which have sinks.

    In: `numbers` (see number_sinks) of the sinks. Out: EXPANDED, the given rows first.
    """
    is_sink = pl.col("sink_topology").is_not_null()
    parts, sizes = _parts(ordered["sink_topology"].drop_nulls().unique())
    placed = _with_positions(ordered, sizes)
    schema = _plain(ordered.clear()).schema
    replaced = placed.with_columns(
        pl.when(is_sink).then(pl.lit(value, schema[name])).otherwise(name).alias(name)
        for name, value in _SINK_ITSELF.items()
    )
    sinks = placed.filter(is_sink)
    first = sinks.select(pl.int_ranges(pl.col("position") + 1, pl.col("position") + 1 + pl.col("parts")))
    sink_parts = (
        sinks.drop("position", "transformation", "concurrent_attempts", "parts")
        .hstack(numbers)
        .join(parts, on="sink_topology", maintain_order="left_right")
    )
    expanded = _as_transformations(sink_parts).with_columns(position=first.to_series().explode())
    return pl.concat(table.select(schema.names()).cast(schema) for table in (replaced, expanded))


def _parts(sink_topologies: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the parts (PART) of each distinct text, and for each text the number of its parts and of their
    ids.
    """
    rows: list[dict[str, Any]] = []
    sizes: list[tuple[str, int, int, int]] = []
    for text in sink_topologies.to_list():
        parts, ids, ways = _parts_of_sink(text)
        rows += parts
        sizes.append((text, len(parts), ids, ways))
    columns = ("sink_topology", "parts", "ids", "ids_of_ways")
    text_sizes = pl.DataFrame(
        sizes, dict(zip(columns, (pl.String, *[pl.Int64] * 3), strict=True)), orient="row"
    )
    return from_arrow(pa.Table.from_pylist(rows, _PART)), text_sizes


def with_configured(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the parallelism_configured of sinks to their sink_topology, from which parts are made."""
    if not has_details(rows):
        return rows
    configured, sink = details_of(rows)[CONFIGURED].cast(pl.String), pl.col("sink_topology")
    longer = pl.concat_str(sink.str.head(-1), pl.lit(f',"{CONFIGURED}":'), configured, pl.lit("}"))
    return rows.with_columns(sink_topology=pl.coalesce(longer, sink))


def _with_positions(ordered: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """Return transformations sorted by id, with `parts`, the number of their parts, and their positions."""
    parts = pl.col("parts").fill_null(0)
    return (
        ordered.join(sizes.drop("ids", "ids_of_ways"), on="sink_topology", how="left", maintain_order="left")
        .with_columns(parts=parts)
        .with_columns(
            position=pl.col("id") + pl.col("parts").cum_sum().over(TOPOLOGY) - pl.col("parts"),
            transformation=pl.col("id"),
            concurrent_attempts=pl.lit(value=True),
        )
    )


def _count_ways(bounds: Ints, inputs: Ints, virtual: Ints, sinks: Ints, node_counts: Ints) -> None:
    """Count the stream nodes that each transformation expands to; 0 for a sink (see run_loop)."""
    for row in range(len(virtual)):
        if virtual[row]:
            count = 0
            for place in range(bounds[row], bounds[row + 1]):
                count += node_counts[inputs[place]]
            node_counts[row] = count
        else:
            node_counts[row] = 1 - sinks[row]


def _count_drawn(
    bounds: Ints,
    inputs: Ints,
    virtual: Ints,
    sources: Ints,
    has_node: Ints,
    node_counts: Ints,
    drawn: Ints,
    first: Ints,
) -> None:
    """Count the virtual nodes created for each operator, the first to reach them (see run_loop).

    `first`: the first operator that reads a virtual transformation, directly or through others.
    """
    for back in range(len(virtual)):
        row = len(virtual) - 1 - back
        reader = first[row] if virtual[row] else row
        if reader >= 0 and not sources[row]:
            if has_node[row]:
                drawn[reader] += node_counts[row]
            for place in range(bounds[row], bounds[row + 1]):
                read = inputs[place]
                if first[read] < 0 or reader < first[read]:
                    first[read] = reader


def _as_transformations(sink_parts: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of sinks as transformations. Columns that sinks share with them end in _right."""
    own = {
        name: pl.col(f"{name}_right")
        for name in _PART.names
        if name in sink_parts.columns and f"{name}_right" in sink_parts.columns
    }
    id = pl.col("last_id") + pl.col("id_after") + pl.col("ways_before") * pl.col("ways")
    is_first = pl.col("id_after") == 1
    takes = pl.col("takes_of_sink")
    group, own_group = pl.col("co_location_group"), own["co_location_group"]
    has_uid = pl.col("before_uid").is_not_null()
    is_operator = own["name"].is_not_null()
    return sink_parts.select(
        TOPOLOGY,
        id=id,
        kind=own["kind"],
        name=pl.when(is_operator)
        .then(pl.concat_str("name", pl.lit(": "), own["name"]))
        .otherwise(pl.lit("")),
        inputs=pl.concat_list(pl.when(is_first).then(pl.col("inputs").list.first()).otherwise(id.shift(1))),
        uid=pl.when(pl.col("uid").is_null())
        .then(own["uid"])
        .when(has_uid)
        .then(pl.concat_str("before_uid", "uid", "after_uid")),
        **{
            name: pl.when(takes).then(pl.coalesce(own[name], name)).otherwise(own[name])
            for name in _INHERITED
        },
        co_location_group=pl.when(~takes | group.is_null())
        .then(own_group)
        .otherwise(pl.concat_str(group, pl.lit(": ") + own_group, ignore_nulls=True)),
        chaining=pl.when(takes).then(pl.coalesce("chaining", own["chaining"])).otherwise(own["chaining"]),
        **{name: own[name] for name in _ONLY_FROM_PARTS},
        tag=pl.lit(None, pl.String),
        names=pl.lit(None, pl.List(pl.String)),
        transformation=pl.col("id"),
        concurrent_attempts=pl.col("concurrent_attempts"),
    )


_ONLY_FROM_PARTS = (
    *("uid_hash", "buffer_timeout", "managed_memory", "slot_scope"),
    *("min_resources", "preferred_resources", "partitioner", "exchange_mode", "details"),
)


# In BATCH mode, an operator stores the stream that a cache reads; the readers of the cache read that stream.
#
# Source: CacheTransformationTranslator.


def _batch_topologies(job_settings: pl.DataFrame) -> pl.Series:
    return job_settings.filter(pl.col("job_type") == JobType.BATCH)[TOPOLOGY]


def expand_caches(expanded: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """Replace the caches that operators of batch jobs read by operators, in the order of translation.

    Operators that read a cache of an earlier job get their name.
    """
    caches = expanded.filter(pl.col("kind") == Kind.CACHE)[TOPOLOGY].unique()
    batch = caches.filter(caches.is_in(_batch_topologies(job_settings).implode()))
    reads_caches = pl.col("kind") == Kind.CACHE_READ
    named = expanded.with_columns(name=pl.when(reads_caches).then(pl.lit(CACHE_READ)).otherwise("name"))
    if batch.is_empty():
        return named
    with_caches = pl.col(TOPOLOGY).is_in(batch.implode())
    changed = [
        _cached(topology.sort("position"))
        for _, topology in named.filter(with_caches).group_by(TOPOLOGY, maintain_order=True)
    ]
    return pl.concat([named.filter(~with_caches), *changed])


_OF_CACHED = ("parallelism", "max_parallelism")


def _cached(rows: pl.DataFrame) -> pl.DataFrame:
    """Expand the caches of one topology, by position, and number positions in the order of translation."""
    names = ("id", "kind", "inputs", "details", *_OF_CACHED)
    by_id = {row["id"]: row for row in rows.select(names).iter_rows(named=True)}
    inputs: dict[int, list[int]] = {}
    for id, row in by_id.items():  # inputs come first, so those of a cache that is read are final
        through = (inputs[read] if by_id[read]["kind"] == Kind.CACHE else [read] for read in row["inputs"])
        inputs[id] = [read for reads in through for read in reads]
    operators = [id for id, row in by_id.items() if row["kind"] not in VIRTUAL_KINDS | SOURCE_KINDS]
    read = _translation_order(operators, by_id)
    order = [*read, *(id for id in by_id if id not in read)]
    values: dict[int, dict[str, Any]] = {}
    for id, row in by_id.items():
        values[id] = {"inputs": inputs[id]}
        if row["kind"] == Kind.CACHE and id in read:
            above = by_id[row["inputs"][0]]
            while above["kind"] in VIRTUAL_KINDS:
                above = by_id[above["inputs"][0]]
            configured = orjson.loads(above["details"] or "{}").get(CONFIGURED)
            details = orjson.loads(row["details"]) | ({} if configured is None else {CONFIGURED: configured})
            values[id] |= {"kind": str(Kind.CACHE_WRITE), "name": CACHE_WRITE}
            values[id] |= {
                "details": json_of_keys(details, DETAILS),
                **{key: above[key] for key in _OF_CACHED},
            }
    changed = [row | values[row["id"]] for row in rows.iter_rows(named=True)]
    places = {id: place for place, id in enumerate(order, 1)}
    columns = {
        name: pl.Series(name, [row[name] for row in changed], rows.schema[name])
        for name in ("kind", "name", "inputs", "details", *_OF_CACHED)
    }
    position = pl.Series("position", [places[id] for id in rows["id"]], rows.schema["position"])
    return rows.with_columns(*columns.values(), position)


def _translation_order(operators: Sequence[int], by_id: Mapping[int, Mapping[str, Any]]) -> dict[int, None]:
    """Return the ids that `operators` read, directly or through others, each after its inputs."""
    order: dict[int, None] = {}
    for operator in operators:
        waiting = [(operator, False)]
        while waiting:
            id, inputs_are_done = waiting.pop()
            if id in order:
                continue
            if inputs_are_done:
                order[id] = None
            else:
                waiting.append((id, True))
                waiting += [(read, False) for read in reversed(by_id[id]["inputs"])]
    return order
