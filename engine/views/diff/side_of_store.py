"""A plan as one side of a comparison, and the lines that the files of both sides have in common."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from secrets import randbits
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from penstock.engine.planning.memory_estimate import require_memory_to_read_on
from penstock.engine.store.plan_tables import BY_NAME, PlanTables
from penstock.engine.views.diff.match_operators import IDENTITY_COLUMNS
from penstock.plans.errors import ConfigurationError, PenstockError, StoreError
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.planners.plan_as_read import ROWS_AT_A_TIME
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.input_errors import MAX_LINE_BYTES, no_topologies
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.parse_block import LineBlock
from penstock.plans.topology.read_topology_files import blocks_of_files, parsed_blocks
from penstock.plans.topology.topologies_of_lines import (
    TopologyTables,
    topologies_in_parts,
    topology_id,
)
from penstock.plans.vocabulary import Layer, TopologyForm

# Topology lines in the files of both sides: their topologies are equal, so they are not read.


_DIGESTS = np.dtype("S16")
_SEED = randbits(64)
"""Drawn by each process, so that nobody can construct two lines with one digest."""
_MOST_OF_A_NAME = 1_000


class SharedLines(NamedTuple):
    """Digests of the lines, sorted, and the ids of their topologies, in 24 bytes per line."""

    digests: NDArray[np.bytes_]
    ids: NDArray[np.int64]


NO_LINES = SharedLines(np.empty(0, _DIGESTS), np.empty(0, np.int64))


def lines_in_both(old: Sequence[str], new: Sequence[str]) -> SharedLines:
    """Find lines that occur once in the files `old` and once in `new`, and are topologies with a name.

    Documents that are not JSON lines share none, nor do files that can be read only once, such as pipes.
    Raises InputError, OSError, and NotEnoughMemoryError before memory runs out.
    """
    if not all(map(os.path.isfile, (*old, *new))):
        return NO_LINES
    shared = np.intersect1d(_once(_digests(old)), _once(_digests(new)), assume_unique=True)
    if not len(shared):
        return NO_LINES
    ids, named = np.empty(len(shared), np.int64), np.zeros(len(shared), bool)
    for lines in _lines(old):
        places, in_shared = _places(_digests_of(lines), shared)
        for place, line in zip(places[in_shared].tolist(), compress(lines, in_shared.tolist()), strict=True):
            if (name := _name(line)) is not None:
                ids[place], named[place] = topology_id(name), True
    ids = ids[named]
    if len(np.unique(ids)) < len(ids):
        return NO_LINES
    return SharedLines(shared[named], ids)


def parts_without(
    source: str, files: Sequence[str], shared: SharedLines, job_defaults: JobDefaults
) -> Iterator[TopologyTables]:
    """Read topologies of a source's files in parts, without shared lines, which keep their line numbers.

    Raises the errors of parts_in_process.
    """
    blocks = (_without(block, shared) for block in _blocks(files))
    inputs = 0
    for part in topologies_in_parts(parsed_blocks(blocks, MAX_LINE_BYTES, job_defaults), ROWS_AT_A_TIME):
        inputs += part.inputs
        if not inputs and not len(shared.ids):
            raise no_topologies([source])
        yield part


def _blocks(files: Sequence[str]) -> Iterator[Any]:
    return blocks_of_files(files, MAX_LINE_BYTES, require_memory_to_read_on)


def _without(block: Any, shared: SharedLines) -> Any:
    if not isinstance(block, LineBlock) or not len(shared.ids):
        return block
    lines = block.data.split(b"\n")
    _, in_shared = _places(_digests_of(lines), shared.digests)
    return block._replace(
        data=b"\n".join(
            b"" if in_both else line for line, in_both in zip(lines, in_shared.tolist(), strict=True)
        )
    )


def _lines(files: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the lines that are not empty, block by block."""
    for block in _blocks(files):
        if isinstance(block, LineBlock):
            yield [line for line in block.data.split(b"\n") if line]


def _digests(files: Sequence[str]) -> NDArray[np.bytes_]:
    return np.concatenate([NO_LINES.digests, *map(_digests_of, _lines(files))])


def _digests_of(lines: Sequence[bytes]) -> NDArray[np.bytes_]:
    digests = b"".join([xxh3_128_digest(line, _SEED) for line in lines])
    return np.frombuffer(digests, _DIGESTS)


def _once(digests: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
    distinct, times = np.unique(digests, return_counts=True)
    once: NDArray[np.bytes_] = distinct[times == 1]
    return once


def _places(
    digests: NDArray[np.bytes_], known: NDArray[np.bytes_]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the place of each digest among the sorted `known`, and whether it is there."""
    places = np.searchsorted(known, digests).clip(max=len(known) - 1)
    return places, known[places] == digests


def _name(line: bytes) -> str | None:
    """Return the name of the topology in a line; None if it has none, or needs a full parse."""
    try:
        topology = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(topology) is not dict or topology.keys().isdisjoint(TopologyForm):
        return None
    name = topology.get("name")
    return name if type(name) is str and 0 < len(name) <= _MOST_OF_A_NAME else None


# One side of a comparison: its topologies, and their plans on demand.


PLAN_COLUMNS: dict[str, tuple[str, ...]] = {
    "topologies": (
        *(TOPOLOGY, "name", "fingerprint", "config", "stream_graph_settings"),
        *("parallelism", "max_parallelism", "chaining"),
    ),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "stream_nodes": (
        *(TOPOLOGY, "id", "name", "parallelism", "uid", "uid_hash"),
        *("among_sources", "keyed", "slot_scope", "operator_factory", "buffer_timeout", "chaining"),
        "slot_sharing_group",
        *IDENTITY_COLUMNS,
    ),
    "stream_edges": (TOPOLOGY, "source", "target", "partitioner"),
    "job_vertices": (
        *(TOPOLOGY, "vertex", "vertex_id", "max_parallelism", "topological_order", "slot_sharing_group"),
    ),
    "chained_operators": (
        *(TOPOLOGY, "vertex", "node", "operator_id", "user_defined_operator_id", "operator_order"),
        "chain_index",
    ),
    "job_edges": (
        *(TOPOLOGY, "source_vertex", "source_node", "target_node", "in_index", "data_set_id"),
        "ship_strategy",
    ),
    "intermediate_data_sets": (TOPOLOGY, "vertex", "data_set_id", "result_partition_type"),
    "execution_job_vertices": (TOPOLOGY, "vertex", "parallelism", "max_parallelism"),
    "execution_edges": (
        *(TOPOLOGY, "first_partition", "last_partition", "first_subpartition", "last_subpartition"),
    ),
    "required_slots": (TOPOLOGY, "slots"),
    "network_buffers": (TOPOLOGY, "vertex", "announced", "required"),
    "managed_memory": (TOPOLOGY, "vertex", "use_case", "bytes"),
}
"""Columns read of a plan. A store whose plans end before the slots lacks tables of that layer."""

Plans = Mapping[str, pl.DataFrame]
"""Tables with PLAN_COLUMNS."""


class Side(NamedTuple):
    """The old or the new topologies.

    `topologies`: topology_id, name and fingerprint (null if refused), one row per name. `operators`:
    topology_id, about one row per operator. `plans`: called with topologies (topology_id and slice) and the
    number of slices, yields their existing tables of PLAN_COLUMNS slice by slice. `planned_as`: if equal on
    both sides, equal fingerprints mean equal plans. `left_out`: number of refused inputs without a readable
    name, or with another input's name.
    """

    label: str
    topologies: pl.LazyFrame
    operators: pl.LazyFrame
    plans: Callable[[pl.DataFrame, int], Iterator[Plans]]
    planned_as: tuple[object, ...]
    left_out: int


def _known_topologies(planned: pl.LazyFrame, rejected: pl.LazyFrame) -> pl.LazyFrame:
    """Make `topologies` of a Side from the tables `topologies` and `rejected`, each name once."""
    refused = rejected.select(TOPOLOGY, "name", fingerprint=pl.lit(None, pl.String)).drop_nulls("name")
    chosen = planned.select(TOPOLOGY, "name", "fingerprint")
    only_refused = refused.unique(TOPOLOGY, keep="first").join(chosen, on=TOPOLOGY, how="anti")
    return pl.concat([chosen, only_refused])


def _count_left_out(known: pl.LazyFrame, rejected: pl.LazyFrame) -> int:
    """Count refused inputs that are not among the known topologies (see _known_topologies)."""
    refused, inputs = pl.collect_all(
        [known.select(pl.col("fingerprint").null_count()), rejected.select(pl.len())]
    )
    return int(inputs.item()) - int(refused.item())


def only_topology(sides: Sequence[Side], name: str) -> list[Side]:
    """Reduce the sides to that topology. Raises ConfigurationError if neither has it."""
    chosen = [side._replace(topologies=side.topologies.filter(pl.col("name") == name)) for side in sides]
    if all(side.topologies.select(pl.len()).collect().item() == 0 for side in chosen):
        raise ConfigurationError(f"neither {sides[0].label} nor {sides[1].label} has a topology {name!r}")
    return chosen


# Rows of chosen topologies, slice by slice, from tables that are read once.


SLICE = "slice"


def _rows_of_slices(
    frames: Mapping[str, pl.LazyFrame], chosen: pl.DataFrame, slices: int, folder: Path
) -> Iterator[dict[str, pl.DataFrame]]:
    """Yield the rows of slices 0 to `slices` - 1, by table, in the order of the frames.

    `chosen`: topology_id and slice. Several slices are saved in files in `folder` until their turn, so that
    time does not grow with slices times rows, and one slice is in memory at a time.
    """
    ids = chosen.lazy()
    if slices == 1:
        alone = {table: frame.join(ids, on=TOPOLOGY, how="semi") for table, frame in frames.items()}
        # One after the other: each scan holds buffers; all at once would hold a few hundred MB.
        yield {table: frame.collect(engine="streaming") for table, frame in alone.items()}
        return
    slices_folder = Path(mkdtemp(prefix="slices-", dir=folder))
    for table, frame in frames.items():
        rows = frame.join(ids, on=TOPOLOGY, how="inner", maintain_order="left")
        target = pl.PartitionBy(
            slices_folder / table, key=SLICE, include_key=False, approximate_bytes_per_file=None
        )
        rows.sink_ipc(target, mkdir=True, engine="streaming")
    for number in range(slices):
        yield {
            table: _read(slices_folder / table / f"{SLICE}={number}", frame)
            for table, frame in frames.items()
        }
    rmtree(slices_folder)


def _read(folder: Path, frame: pl.LazyFrame) -> pl.DataFrame:
    """Read files of a slice and remove them. Slices without rows have no files."""
    files = sorted(folder.glob("*.ipc"))
    if not files:
        return frame.collect_schema().to_frame()
    rows = pl.concat([pl.read_ipc(file) for file in files])
    rmtree(folder)
    return rows


_OPTIONAL = LAYER_TABLES[Layer.SLOTS]


def side_of(plan: PlanTables, folder: Path) -> Side:
    """Make a side of all topologies of a plan; `folder` holds rows until they are compared.

    Of topologies that were only read, those that differ are planned. Raises StoreError, or ConfigurationError
    for a plan in memory, if the plan ends before the execution graph.
    """
    topologies, rejected = (plan.table(name) for name in BY_NAME)
    known = _known_topologies(topologies, rejected)
    planned_as = (plan.planner_version, *sorted(plan.options.items()))
    left_out = _count_left_out(known, rejected)
    if (plan_rows := plan.plan_rows) is not None:
        frames = {name: plan.table(name) for name in plan.tables}
        operators = pl.concat([frames[name].select(TOPOLOGY) for name in ("transformations", "stream_nodes")])

        def plans(chosen: pl.DataFrame, slices: int) -> Iterator[Plans]:
            for rows in _rows_of_slices(frames, chosen, slices, folder):
                planned = plan_rows(rows)
                yield {name: planned.frame(name, *columns) for name, columns in PLAN_COLUMNS.items()}

        return Side(plan.title, known, operators, plans, planned_as, left_out)
    tables = [name for name in PLAN_COLUMNS if name not in _OPTIONAL or plan.has(name)]
    if missing := [name for name in tables if not plan.has(name)]:
        raise _ends_too_early(plan, missing)

    def stored_plans(chosen: pl.DataFrame, slices: int) -> Iterator[Plans]:
        frames = {name: plan.table(name).select(PLAN_COLUMNS[name]) for name in tables}
        return _rows_of_slices(frames, chosen, slices, folder)

    operators = plan.table("stream_nodes").select(TOPOLOGY)
    return Side(plan.title, known, operators, stored_plans, planned_as, left_out)


def _ends_too_early(plan: PlanTables, missing: Sequence[str]) -> PenstockError:
    layer = "through the execution graph"
    if plan.stored is not None:
        return StoreError(
            f"version {plan.version} of {plan.label} has no {', '.join(missing)}",
            f"diff compares plans {layer}: plan again without --until",
        )
    return ConfigurationError(
        f"diff: a plan has no {', '.join(missing)}", f"plans are compared {layer}: leave until out"
    )
