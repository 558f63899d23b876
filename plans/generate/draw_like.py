"""Topologies drawn after the topologies of a given fleet.

Every drawn topology follows a given one, with its repeated patterns repeated more or less often, as WfCommons
does with workflows: T. Coleman, H. Casanova, R. Ferreira da Silva, "Automated generation of scientific
workflow generators with WfChef", Future Generation Computer Systems 147 (2023). `find_segments` finds the
parts that may be repeated or left out, `draw_like` draws, `fidelity` compares the result with the given
fleet.
"""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.frames.compiled import run_loop
from penstock.plans.generate.fleet import draws, hexadecimal
from penstock.plans.tables import TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import topology_id
from penstock.plans.vocabulary import (
    CONSECUTIVE_HASH_CLASS,
    PARTITIONER_CLASSES,
    SOURCE_KINDS,
    UNSPECIFIED_FORWARD_CLASS,
    VIRTUAL_KINDS,
    ChainingStrategy,
    JobType,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
    TopologyForm,
)

# A stream graph as transformations that Flink would translate into a similar one.


Json = dict[str, Any]

_PARTITIONERS = {partitioner.upper(): partitioner for partitioner in Partitioner}
_NODE_KEYS = ("uid", "uid_hash", "co_location_group")
_RESOURCES = ("min_resources", "preferred_resources")
_FORWARD_CLASS = PARTITIONER_CLASSES[Partitioner.FORWARD]
_DEFAULT_GROUP = "default"


def as_transformations(topology: Mapping[str, Any]) -> Json | None:
    """Return the transformations closest to a topology with a valid `stream_graph`; None if there are none.

    Kinds, inputs, partitioners, exchange modes, parallelism, groups, uids, memory and options are preserved;
    descriptions, classes, buffer timeouts and caching are not. User-defined partitioners become `custom`. A
    graph of sources only gives None. Planning shows whether Flink accepts the result.
    """
    graph = topology["stream_graph"]
    writer = _TransformationWriter(topology)
    for node in _in_order(graph):
        writer.add(node)
    if not any(row["kind"] not in _SOURCES and "name" in row for row in writer.rows):
        return None
    config = {key: value for key, value in topology.get("config", {}).items() if key not in _RUN_OPTIONS}
    config = {key: value for key, value in config.items() if not key.startswith("penstock.")}
    defaults = {key: topology[key] for key in ("parallelism", "max_parallelism") if key in topology}
    return {
        "name": topology["name"],
        **defaults,
        **({} if graph["chaining_enabled"] else {"chaining": False}),
        "config": {**config, "execution.runtime-mode": str(graph["job_type"])},
        "transformations": writer.rows,
    }


_SOURCES = (Kind.SOURCE, Kind.LEGACY_SOURCE)
_RUN_OPTIONS = ("pipeline.name", "execution.state-recovery.path")
"""Options that belong to the single job."""


def _in_order(graph: Mapping[str, Any]) -> list[Json]:
    """Return the nodes sorted topologically, otherwise by id."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    sorter: TopologicalSorter[int] = TopologicalSorter({key: [] for key in sorted(nodes)})
    for edge in graph["edges"]:
        sorter.add(edge["target"], edge["source"])
    sorter.prepare()
    ordered_nodes = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered_nodes += [nodes[key] for key in ready]
        sorter.done(*ready)
    return ordered_nodes


class _TransformationWriter:
    """The transformations so far, while the operators of one graph are added in order."""

    def __init__(self, topology: Mapping[str, Any]) -> None:
        graph = topology["stream_graph"]
        self.rows: list[Json] = []
        self._batch = graph["job_type"] == JobType.BATCH
        self._parallelism = topology.get("parallelism", 1)
        self._nodes = {node["id"]: node for node in graph["nodes"]}
        self._edges = {edge["edge_id"]: edge for edge in graph["edges"]}
        self._groups = {node["slot_sharing_group"] for node in graph["nodes"]} != {_DEFAULT_GROUP}
        self._ids: dict[int, int] = {}  #: by node
        self._partitions: dict[str, int] = {}  #: by edge

    def add(self, node: Mapping[str, Any]) -> None:
        edges = [self._edges[key] for key in node["in_edges"]]
        by_input = [
            [edge for edge in edges if edge["type_number"] == number]
            for number in sorted({edge["type_number"] for edge in edges})
        ]
        kind = self._kind(node, len(by_input), any(edge["type_number"] for edge in edges))
        keyed = kind in (Kind.ONE_INPUT, Kind.ASYNC) and bool(node.get("keyed"))
        inputs = [self._read(input_edges, keyed, kind) for input_edges in by_input]
        row = {"kind": str(kind), "name": node["name"].removeprefix(OPERATOR_KINDS[kind].name_prefix)}
        row |= {key: node[key] for key in _NODE_KEYS if node.get(key) is not None}
        if all(key in node for key in _RESOURCES):
            row |= {key: node[key] for key in _RESOURCES}
        other = node["parallelism"] != self._parallelism
        if node["parallelism"] > 0 and (other or node["parallelism_configured"]):
            row["parallelism"] = node["parallelism"]
        if node["max_parallelism"] > 0:
            row["max_parallelism"] = node["max_parallelism"]
        if self._groups:
            row["slot_sharing_group"] = node["slot_sharing_group"]
        chaining = self._chaining(node, edges)
        if chaining != OPERATOR_KINDS[kind].chaining:
            row["chaining"] = chaining
        row |= self._memory(node, keyed and self._is_hash(by_input))
        self._ids[node["id"]] = self._append(row, inputs)

    def _kind(self, node: Mapping[str, Any], inputs: int, numbered: bool) -> Kind:
        if not inputs:
            # In topology files, legacy sources are unbounded, which BATCH jobs do not allow.
            return Kind.LEGACY_SOURCE if node["legacy_source"] and not self._batch else Kind.SOURCE
        if numbered:
            with_sources = node["chaining"] == OPERATOR_KINDS[Kind.MULTI_INPUT].chaining
            return Kind.MULTI_INPUT if with_sources or inputs != 2 else Kind.TWO_INPUT
        if node["yielding"]:
            return Kind.ASYNC
        is_sink = not node["out_edges"] and node["name"].startswith(OPERATOR_KINDS[Kind.SINK].name_prefix)
        return Kind.SINK if is_sink and not node.get("keyed") else Kind.ONE_INPUT

    def _chaining(self, node: Mapping[str, Any], edges: Sequence[Mapping[str, Any]]) -> str:
        """A yielding operator begins a chain instead of joining a legacy source; see _kind."""
        if self._batch and node["yielding"] and not any(edge["chainable"] for edge in edges):
            return str(ChainingStrategy.HEAD)
        return str(node["chaining"] or ChainingStrategy.NEVER)

    def _is_hash(self, by_input: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
        """Return whether Flink treats the operator as keyed because of its inputs."""
        return all(self._partitioner(edge) == Partitioner.HASH for edge in by_input[0])

    def _memory(self, node: Mapping[str, Any], by_input: bool) -> Json:
        """Return an operator's memory without the defaults of an operator keyed `by_input`."""
        scopes = list(node["slot_scope"])
        weights = node["managed_memory"]
        if by_input:
            scopes = [scope for scope in scopes if scope != ManagedMemoryUseCase.STATE_BACKEND]
            weights = {} if self._batch else weights
        return {
            **({"slot_scope": scopes} if scopes else {}),
            **({"managed_memory": weights} if weights else {}),
        }

    def _read(self, edges: Sequence[Mapping[str, Any]], keyed: bool, kind: Kind) -> int:
        """Return the transformation that an input reads; edges of one partitioner are united before it."""
        explicit = {self._explicit_partition(edge) for edge in edges}
        if len(explicit) == 1:
            (only,) = explicit
            read = self._partition(edges, only)
        else:
            read = self._union([self._partition([edge], self._explicit_partition(edge)) for edge in edges])
        is_hash = self.rows[read - 1].get("partitioner") == Partitioner.HASH
        if is_hash and not keyed and kind in (Kind.ONE_INPUT, Kind.ASYNC):
            return self._append({"kind": str(Kind.UNION)}, [read])  # prevents treatment as keyed
        return read

    def _partition(self, edges: Sequence[Mapping[str, Any]], explicit: tuple[str, str] | None) -> int:
        shared = self._partitions.get(edges[0].get("equal_partitioner", ""))
        if shared is not None and len(edges) == 1:
            return shared
        read = self._union([self._side_output(edge) for edge in edges])
        if explicit is None:
            return read
        partitioner, mode = explicit
        row = {"kind": str(Kind.PARTITION), "partitioner": partitioner}
        if mode != StreamExchangeMode.UNDEFINED:
            row["exchange_mode"] = mode
        partition_id = self._append(row, [read])
        if len(edges) == 1:
            self._partitions[edges[0]["edge_id"]] = partition_id
        return partition_id

    def _explicit_partition(self, edge: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return partitioner and exchange mode, or None if the edge has its defaults."""
        partitioner, mode = self._partitioner(edge), str(edge["exchange_mode"])
        ends = (self._nodes[edge[end]]["parallelism"] for end in ("source", "target"))
        usual = Partitioner.FORWARD if len(set(ends)) == 1 else Partitioner.REBALANCE
        undefined, class_name = mode == StreamExchangeMode.UNDEFINED, edge["partitioner_class"]
        if class_name == CONSECUTIVE_HASH_CLASS and edge["chainable"]:
            partitioner, mode = Partitioner.FORWARD, str(StreamExchangeMode.UNDEFINED)
        elif class_name == CONSECUTIVE_HASH_CLASS:
            partitioner = Partitioner.HASH
        elif class_name == UNSPECIFIED_FORWARD_CLASS and undefined:
            return None
        elif class_name == UNSPECIFIED_FORWARD_CLASS:
            partitioner = Partitioner.RESCALE  # Flink's choice if nothing is chained
        elif undefined and partitioner == usual and not (self._batch and class_name == _FORWARD_CLASS):
            return None
        return str(partitioner), mode

    def _partitioner(self, edge: Mapping[str, Any]) -> Partitioner:
        return _PARTITIONERS.get(edge["partitioner"].partition("[")[0], Partitioner.CUSTOM)

    def _side_output(self, edge: Mapping[str, Any]) -> int:
        read = self._ids[edge["source"]]
        if edge["output_tag"] is None:
            return read
        return self._append({"kind": str(Kind.SIDE_OUTPUT), "tag": edge["output_tag"]}, [read])

    def _union(self, inputs: list[int]) -> int:
        return inputs[0] if len(inputs) == 1 else self._append({"kind": str(Kind.UNION)}, inputs)

    def _append(self, row: Json, inputs: list[int]) -> int:
        number = len(self.rows) + 1
        self.rows.append({"id": number, **row, **({"inputs": inputs} if inputs else {})})
        return number


# The parts of given topologies that may be repeated or left out.


Ints = npt.NDArray[np.int64]


class GivenFleet(NamedTuple):
    """Topologies by name, and their transformations by topology and id, which are numbered as `rows`.

    Topology t has the rows from `starts[t]` to `starts[t + 1]`. The inputs of row r are the rows
    `inputs[input_starts[r]:input_starts[r + 1]]`.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    starts: Ints
    input_starts: Ints
    inputs: Ints


def given_fleet(topologies: pl.DataFrame, transformations: pl.DataFrame) -> GivenFleet:
    """Build a GivenFleet from the tables of these names; topologies given as stream graphs are left out.

    `topologies` may contain fewer topologies than `transformations`.
    """
    given = (
        topologies.filter(pl.col("form") == TopologyForm.TRANSFORMATIONS)
        .select(TOPOLOGIES.names)
        .sort("name")
        .with_row_index("place")
    )
    rows = (
        transformations.select(TRANSFORMATIONS.names)
        .join(given.select(TOPOLOGY, "place"), on=TOPOLOGY, how="inner")
        .sort("place", "id")
    )
    starts = _starts(np.bincount(rows["place"].to_numpy(), minlength=len(given)))
    counts = rows["inputs"].list.len().to_numpy()
    ids = rows["inputs"].explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)
    first = starts[:-1][rows["place"].to_numpy()]
    return GivenFleet(
        given.drop("place"),
        rows.drop("place").with_columns(_without_node_ids(rows["details"])),
        starts,
        _starts(counts),
        np.repeat(first, counts) + ids - 1,
    )


def _without_node_ids(details: pl.Series) -> pl.Series:
    """Drop node ids: copies of a transformation would have the same one."""
    texts = details.drop_nulls().unique()
    others = [{key: value for key, value in orjson.loads(text).items() if key != "node_id"} for text in texts]
    new = pl.Series([orjson.dumps(keys).decode() if keys else None for keys in others], dtype=pl.String)
    return details.replace_strict(texts, new, default=None, return_dtype=pl.String)


def _starts(counts: npt.NDArray[np.generic]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


Bools = npt.NDArray[np.bool_]


class Segments(NamedTuple):
    """Segments, numbered by topology; no row is in two.

    A *branch* is one of several readers of an operator, with everything that follows from it alone; its
    copies are parallel. A *run* is an operator with one input and one reader, at its input's parallelism,
    with the partitions before it; its copies follow each other, and if it is left out, its reader reads its
    input.
    """

    of_row: Ints  #: -1: in no segment
    starts: Ints  #: first segment per topology, as GivenFleet.starts
    first: Ints  #: the first row, which is the key in draws
    last: Ints  #: the last row; for a run, the operator that is read
    operators: Ints
    entry: Ints  #: for a run, the row that it reads; -1 for a branch


def find_segments(fleet: GivenFleet) -> Segments:
    """Return the segments of all topologies, in time linear in their rows."""
    branch = _branches(fleet)
    run, entry = _runs(fleet)
    run[branch >= 0] = -1
    # Both are named by a row: a branch by its first, a run by its last.
    named = np.where(branch >= 0, branch, run)
    rows = np.flatnonzero(named >= 0)
    names, of_row = np.unique(named[rows], return_inverse=True)
    first = np.full(len(names), len(named), np.int64)
    last = np.full(len(names), -1, np.int64)
    np.minimum.at(first, of_row, rows)
    np.maximum.at(last, of_row, rows)
    segment = np.full(len(named), -1, np.int64)
    segment[rows] = of_row
    is_run = branch[names] < 0
    return Segments(
        segment,
        np.searchsorted(names, fleet.starts),
        first,
        last,
        np.bincount(of_row[~_is(fleet, *VIRTUAL_KINDS)[rows]], minlength=len(names)),
        np.where(is_run, entry[names], -1),
    )


def _branches(fleet: GivenFleet) -> Ints:
    """Return the first row of the branch that each row is in, or -1. One reader of each
    operator is in none.
    """
    rows = len(fleet.transformations)
    branches = np.full(rows, -1, np.int64)
    pure, kept = np.ones(rows, np.bool_), np.zeros(rows, np.bool_)
    inputs = (fleet.input_starts, fleet.inputs, _readers(fleet), _is(fleet, *SOURCE_KINDS))
    run_loop(_find_branches, rows, inputs, (branches, pure, kept))
    return branches


def _find_branches(
    input_starts: Ints, inputs: Ints, readers: Ints, source: Bools, branches: Ints, pure: Bools, kept: Bools
) -> None:
    """`pure`: everything that follows from a row follows from it alone. `kept`: a reader of it is in no
    branch.
    """
    for row in range(len(branches) - 1, -1, -1):
        alone = pure[row] and input_starts[row + 1] - input_starts[row] == 1
        for place in range(input_starts[row], input_starts[row + 1]):
            if not alone:
                pure[inputs[place]] = False
                kept[inputs[place]] = True
    for row in range(len(branches)):
        if source[row] or input_starts[row + 1] - input_starts[row] != 1:
            continue
        read = inputs[input_starts[row]]
        if branches[read] >= 0:
            branches[row] = branches[read]
        elif pure[row] and readers[read] > 1:
            if kept[read]:
                branches[row] = row
            kept[read] = True


def _runs(fleet: GivenFleet) -> tuple[Ints, Ints]:
    """Return the last row of the run that each row is in, or -1; and the row that the run reads, by its last
    row.
    """
    readers = _readers(fleet)
    counts = np.diff(fleet.input_starts)
    transformations = fleet.transformations
    alone = (
        transformations["slot_sharing_group"].is_null() & transformations["co_location_group"].is_null()
    ).to_numpy()
    last = np.flatnonzero(_is(fleet, Kind.ONE_INPUT, Kind.ASYNC) & (counts == 1) & (readers == 1) & alone)
    passed = _is(fleet, Kind.PARTITION) & (readers == 1)
    at = fleet.inputs[fleet.input_starts[last]]
    steps = [(last, last)]
    going = passed[at]
    while going.any():
        steps.append((at[going], last[going]))
        at[going] = fleet.inputs[fleet.input_starts[at[going]]]
        going &= passed[at]
    parallelism = _effective(fleet, "parallelism")
    most = _effective(fleet, "max_parallelism")
    fits = ~_is(fleet, *VIRTUAL_KINDS)[at] & (parallelism[at] == parallelism[last]) & (most[at] == most[last])
    run_ends = np.full(len(transformations), -1, np.int64)
    entry = np.full(len(transformations), -1, np.int64)
    entry[last[fits]] = at[fits]
    for rows, runs in steps:
        kept = entry[runs] >= 0
        run_ends[rows[kept]] = runs[kept]
    return run_ends, entry


def _readers(fleet: GivenFleet) -> Ints:
    return np.bincount(fleet.inputs, minlength=len(fleet.transformations)).astype(np.int64)


def _is(fleet: GivenFleet, *kinds: Kind) -> Bools:
    flags: Bools = fleet.transformations["kind"].is_in([str(kind) for kind in kinds]).to_numpy()
    return flags


def _effective(fleet: GivenFleet, setting: str) -> Ints:
    """Return parallelism or max parallelism of each row, else the topology's; -1 = not set."""
    sizes = np.diff(fleet.starts)
    topology_values = np.repeat(fleet.topologies[setting].fill_null(-1).to_numpy(), sizes)
    own = fleet.transformations[setting]
    return np.where(own.is_null().to_numpy(), topology_values, own.fill_null(-1).to_numpy()).astype(np.int64)


SHARE_VARIED = 0.5
"""The share of pairs of segments in which one is repeated and the other left out."""

METHOD = 1
"""Incremented whenever a seed gives other topologies of the same fleet; part of the fingerprint."""


class DrawnLike(NamedTuple):
    """The tables `topologies` and `transformations`, and the number of topologies with another shape."""

    tables: dict[str, pl.DataFrame]
    varied: int


def draw_like(fleet: GivenFleet, segments: Segments, seed: int, numbers: Ints) -> DrawnLike:
    """Return the topologies with these numbers (from 0) of the fleet that `seed` draws, in that order.

    A topology depends only on the given fleet, the seed and its number. It copies a random given topology
    with all its settings; some segments are repeated and as many are left out (see _copies).
    """
    owners = pl.DataFrame({"number": numbers})
    drawn = owners.select(draws(seed)("topology", pl.col("number"))).to_series().to_numpy()
    base = (drawn * len(fleet.topologies)).astype(np.int64)
    owner, row = _expanded(base, fleet.starts)
    copies = _copies(segments, seed, numbers, base)
    of_row = segments.of_row[row]
    segment_starts = _starts(np.diff(segments.starts)[base])
    place = segment_starts[owner] + of_row - segments.starts[base][owner]
    counts = np.where(of_row >= 0, copies[np.where(of_row >= 0, place, 0)] if len(copies) else 1, 1)
    rows = _Rows(
        owner, row, counts, _starts(counts), _starts(np.diff(fleet.starts)[base])[:-1] - fleet.starts[base]
    )
    return DrawnLike(
        {
            "topologies": _topologies(fleet, seed, numbers, base),
            "transformations": _transformations(fleet, segments, rows, seed, numbers),
        },
        int(
            (
                np.bincount(_expanded(base, segments.starts)[0], weights=copies != 1, minlength=len(base)) > 0
            ).sum()
        ),
    )


class _Rows(NamedTuple):
    """Rows of the given topologies that are copied: owner, given row, number of copies, position of the first
    copy.
    """

    owner: Ints
    row: Ints
    counts: Ints
    starts: Ints
    shift: Ints  #: per owner: a given row's position here, minus the row


def _copies(segments: Segments, seed: int, numbers: Ints, base: Ints) -> Ints:
    """Return the number of copies of each segment in each drawn topology.

    Segments of equal size are paired at random within a topology. In half of the pairs, one segment is
    repeated and the other left out, so a topology keeps its number of operators.
    """
    owner, segment = _expanded(base, segments.starts)
    keys = pl.DataFrame({"number": numbers[owner], "row": segments.first[segment]})
    place, varied = (
        keys.select(draws(seed)(salt, pl.col("number"), pl.col("row"))).to_series().to_numpy()
        for salt in ("place", "varied")
    )
    operators = segments.operators[segment]
    order = np.lexsort((place, operators, owner))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(owner[order]) != 0) | (np.diff(operators[order]) != 0)
    starts = np.flatnonzero(begins)
    in_group = np.arange(len(order)) - starts[np.cumsum(begins) - 1]
    second = np.flatnonzero(in_group % 2 == 1)
    chosen = second[varied[order[second]] < SHARE_VARIED]
    copies = np.ones(len(order), np.int64)
    copies[order[chosen - 1]] = 2
    copies[order[chosen]] = 0
    return copies


def _expanded(base: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the position in `base` and the member, for the members of each topology in `base`."""
    counts = np.diff(starts)[base]
    owner = np.repeat(np.arange(len(base)), counts)
    first = np.repeat(starts[base] - _starts(counts)[:-1], counts)
    return owner, first + np.arange(len(owner))


def _topologies(fleet: GivenFleet, seed: int, numbers: Ints, base: Ints) -> pl.DataFrame:
    names = [f"like-{seed}-{number:06}" for number in numbers.tolist()]
    originals = fleet.topologies[base]
    recipes = [
        f"like|{METHOD}|{seed}|{name}|{print_}"
        for name, print_ in zip(names, originals["fingerprint"], strict=True)
    ]
    return originals.with_columns(
        pl.Series(TOPOLOGY, [topology_id(name) for name in names], pl.Int64),
        pl.Series("name", names, pl.String),
        pl.Series("fingerprint", [sha256(recipe.encode()).hexdigest() for recipe in recipes], pl.String),
        source_file=pl.lit(None, pl.String),
        source_line=pl.lit(None, pl.Int64),
    ).select(TOPOLOGIES.names)


def _transformations(
    fleet: GivenFleet, segments: Segments, rows: _Rows, seed: int, numbers: Ints
) -> pl.DataFrame:
    at = np.repeat(np.arange(len(rows.row)), rows.counts)
    copy = np.arange(len(at)) - rows.starts[:-1][at]
    # Copies follow the whole original, so that their inputs exist before them.
    original_rows, segment = rows.row[at], segments.of_row[rows.row[at]]
    preceding = np.where(
        copy > 0, segments.last[segment] if len(segments.last) else original_rows, original_rows
    )
    order = np.lexsort((original_rows, copy, preceding, rows.owner[at]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at, copy = at[order], copy[order]
    owner = rows.owner[at]
    first = np.searchsorted(owner, np.arange(len(numbers)))
    counts = np.diff(fleet.input_starts)[rows.row[at]]
    reader, read = _expanded(rows.row[at], fleet.input_starts)
    read_at, read_copy = _read(segments, rows, at[reader], copy[reader], fleet.inputs[read])
    inputs = place[rows.starts[read_at] + read_copy] - first[owner[reader]] + 1
    lists = pa.ListArray.from_arrays(_starts(counts).astype(np.int32), inputs.astype(np.int32))
    transformations = fleet.transformations[rows.row[at]].with_columns(
        pl.Series("number", numbers[owner]),
        pl.Series("row", rows.row[at]),
        pl.Series("copy", copy),
        pl.Series("id", np.arange(len(at)) - first[owner] + 1, pl.Int32),
        pl.Series("inputs", pl.Series(lists)),
    )
    ids = np.array([topology_id(f"like-{seed}-{number:06}") for number in numbers.tolist()], np.int64)
    keys = (pl.col("number"), pl.col("row"), pl.col("copy"))
    another = pl.concat_str(hexadecimal(seed, "uid hash 1", *keys), hexadecimal(seed, "uid hash 2", *keys))
    repeated = pl.col("copy") > 0
    return transformations.with_columns(
        pl.Series(TOPOLOGY, ids[owner], pl.Int64),
        uid=pl.when(repeated).then(pl.format("{} (copy {})", "uid", pl.col("copy") + 1)).otherwise("uid"),
        uid_hash=pl.when(repeated & pl.col("uid_hash").is_not_null()).then(another).otherwise("uid_hash"),
    ).select(TRANSFORMATIONS.names)


def _read(segments: Segments, rows: _Rows, at: Ints, copy: Ints, read: Ints) -> tuple[Ints, Ints]:
    """Return the inputs of copies of rows whose originals read `read`: the position in `rows`,
    and the copy.
    """
    shift = rows.shift[rows.owner[at]]
    own, read_segments = segments.of_row[rows.row[at]], segments.of_row[read]
    within = (own >= 0) & (own == read_segments)
    entry = segments.entry if len(segments.entry) else np.full(1, -1, np.int64)
    follows = ~within & (own >= 0) & (copy > 0) & (entry[own] >= 0)
    last = segments.last if len(segments.last) else np.zeros(1, np.int64)
    read_rows = np.where(follows, last[own], read) + shift
    read_copies = np.where(within, copy, np.where(follows, copy - 1, 0))
    open_ = ~within & ~follows & (read_segments >= 0)
    while open_.any():  # a run's reader reads its last copy, or the run's own input if the run is left out
        places = np.flatnonzero(open_)
        counts = rows.counts[read_rows[places]]
        read_copies[places] = np.maximum(counts - 1, 0)
        left_out = places[counts == 0]
        open_[places] = False
        segment = segments.of_row[rows.row[read_rows[left_out]]]
        read_rows[left_out] = entry[segment] + shift[left_out]
        open_[left_out] = segments.of_row[rows.row[read_rows[left_out]]] >= 0
    return read_rows, read_copies
