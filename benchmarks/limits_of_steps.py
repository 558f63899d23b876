"""Time each step of the columnar planner, and copying the data that it reads and makes."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from penstock.plans.layers import PlanOptions
from penstock.plans.passes import Derive
from penstock.plans.planners.plan_as_read import Topologies, read_topologies
from penstock.plans.planners.plan_in_parts import Tables, plan_columnar, side_by_side, split_by_topology
from penstock.plans.planners.run_passes import inputs_of, steps
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

_SAMPLE = 300
"""Number of topologies in the sample that shows which columns a step reads."""

Columns = Mapping[str, Mapping[str, list[str]]]
"""The columns that a step reads, by its product and by table."""


class Limit(NamedTuple):
    """Seconds of a step, seconds of copying the data that it reads and makes, and its bytes."""

    takes: float
    copying: float
    volume: int


def together(limits: Iterable[Limit]) -> Limit:
    """Return their sum."""
    takes, copying, volume = zip(*limits, strict=True)
    return Limit(sum(takes), sum(copying), sum(volume))


def limits_of_steps(topologies: Topologies) -> dict[str, Limit]:
    """Return the limit of each step, by its product, for parts of `topologies` side by side as in planning.

    A step reads the columns without which it fails (over a sample of the topologies), and makes the columns
    that share no memory with an input. Refused topologies are left out. Seconds are the sum over all parts,
    divided by the number of parts that are processed at a time.
    """
    given = _without_refused(read_topologies(topologies)._asdict())
    ids = given["topologies"][TOPOLOGY][:_SAMPLE]
    columns = _columns_read(_only_topologies(given, ids))
    parts = split_by_topology(given)
    limits_of_parts = side_by_side(partial(_limits, columns=columns), parts)
    sums = {
        step: together(part_limits[step] for part_limits in limits_of_parts) for step in limits_of_parts[0]
    }
    at_a_time = min(pl.thread_pool_size(), len(parts))
    return {
        step: limit._replace(takes=limit.takes / at_a_time, copying=limit.copying / at_a_time)
        for step, limit in sums.items()
    }


def _without_refused(read: Tables) -> Tables:
    given = {name: read[name] for name in read if name != "inputs"}
    planned = plan_columnar(dict(given), PlanOptions(Layer.SLOTS))["topologies"]
    return _only_topologies(given, pl.Series(planned[TOPOLOGY].to_numpy()))


def _only_topologies(given: Tables, ids: pl.Series) -> Tables:
    return {
        name: rows if name == "rejected" else rows.filter(pl.col(TOPOLOGY).is_in(ids.implode()))
        for name, rows in given.items()
    }


def _all_steps() -> list[tuple[str, Derive]]:
    return steps(PlanOptions())


def _tables_of(given: Tables) -> Tables:
    given_tables = {f"given_{name}": given[name] for name in ("stream_nodes", "stream_edges")}
    return {**given, **given_tables}


def _columns_read(given: Tables) -> Columns:
    tables, read = _tables_of(given), {}
    for produced, derive in _all_steps():
        inputs = {name: tables[name] for name in inputs_of(derive)}
        read[produced] = {
            name: [column for column in rows.columns if _fails_without(derive, inputs, name, column)]
            for name, rows in inputs.items()
        }
        tables[produced] = derive(**inputs)
    return read


def _fails_without(derive: Callable[..., pl.DataFrame], inputs: Tables, name: str, column: str) -> bool:
    try:
        derive(**{**inputs, name: inputs[name].drop(column)})
    except Exception:
        return True
    return False


def _limits(given: Tables, columns: Columns) -> dict[str, Limit]:
    tables, limits = _tables_of(given), {}
    for produced, derive in _all_steps():
        inputs = {name: tables[name] for name in inputs_of(derive)}
        started = time.monotonic()
        made = tables[produced] = derive(**inputs)
        takes = time.monotonic() - started
        input_addresses = {
            address for rows in inputs.values() for column in rows for address in _addresses(column)
        }
        copied = [column for column in made if input_addresses.isdisjoint(_addresses(column))]
        copied += [rows[c] for name, rows in inputs.items() for c in columns[produced][name]]
        started = time.monotonic()
        volume = sum(map(_bytes_of_copy, copied))
        limits[produced] = Limit(takes, time.monotonic() - started, volume)
    return limits


def _addresses(column: pl.Series) -> Iterator[int]:
    """Yield the addresses of a column's values."""
    yield from (buffer.address for buffer in column.to_arrow().buffers()[1:2] if buffer is not None)


def _bytes_of_copy(column: pl.Series) -> int:
    """Return the bytes of a copy of the column with every value in new memory."""
    rows = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if column.dtype == pl.String:
        # polars stores strings in another layout, so these are copies
        return int(rows.nbytes)
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([rows], ["column"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return int(sink.getvalue().size)
