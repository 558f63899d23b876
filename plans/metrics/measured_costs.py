"""Costs of operators in a run, measured from the executions of its tasks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from penstock.plans.metrics.operator_costs import COSTS
from penstock.plans.tables.column_types import TOPOLOGY

RUN_TABLES = ("executions", "runs", "stream_nodes", "stream_edges", "chained_operators")
"""Tables from which costs are measured."""


class MeasuredCost(NamedTuple):
    """`costs`: rows of operator_costs. `edges`: topology_id, source, target, in_index, and the `records` that
    the producer sent along each edge between vertices.
    """

    costs: pl.DataFrame
    edges: pl.DataFrame


class _Edge(NamedTuple):
    source: int
    target: int
    in_index: int
    writer: int  #: the source's job vertex
    reader: int
    copies: int  #: copies of each record that the reader gets


def measured_costs(tables: Mapping[str, pl.DataFrame]) -> MeasuredCost:
    """Return the costs of the operators of finished runs. In: RUN_TABLES; one run of each topology.

    A vertex is measured as a whole: records that enter and leave it are counted, records inside are not. So
    the operator that emits the vertex's records gets the selectivity, the head of the chain gets all of its
    time, and unknown values are null. If a vertex writes several data sets, records are attributed by the
    numbers that their readers have read, where determined; the remainder is split evenly.

    Records from sources chained into an operator are not counted. Each such source is assumed to emit the
    average of the operator's other inputs; if there are none, they emit together as many records as leave the
    operator.

    `records_per_second` covers the whole run; `cpu_nanoseconds_per_record` is the time that tasks ran,
    divided by the records that they read (for sources: wrote). DS2 (Kalavri et al., OSDI 2018) measures true
    rates the same way.
    """
    rows: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    finished = tables["runs"].filter(pl.col("state") == "FINISHED")
    for topology, milliseconds in finished.select(TOPOLOGY, "milliseconds").iter_rows():
        run_tables = {name: tables[name].filter(pl.col(TOPOLOGY) == topology) for name in RUN_TABLES[2:]}
        tasks = tables["executions"].filter(pl.col(TOPOLOGY) == topology, pl.col("state") == "FINISHED")
        measured, sent = _measure_run(run_tables, tasks, max(milliseconds, 1) / 1000)
        rows += [{TOPOLOGY: topology, **row} for row in measured]
        edges += [{TOPOLOGY: topology, **row} for row in sent]
    along = {
        TOPOLOGY: pl.Int64,
        "source": pl.Int32,
        "target": pl.Int32,
        "in_index": pl.Int32,
        "records": pl.Float64,
    }
    return MeasuredCost(pl.DataFrame(rows, COSTS), pl.DataFrame(edges, along))


def _measure_run(
    tables: Mapping[str, pl.DataFrame], tasks: pl.DataFrame, run_seconds: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    vertex_of = dict(tables["chained_operators"].select("node", "vertex").iter_rows())
    parallelism = dict(tables["stream_nodes"].select("id", "parallelism").iter_rows())
    every = tables["stream_edges"].select("source", "target", "in_index", "broadcast").rows()
    outputs = dict(
        tables["stream_edges"]
        .group_by("source")
        .agg(pl.col("output_tag").fill_null("").n_unique())
        .iter_rows()
    )
    taken_in: dict[int, list[int]] = defaultdict(list)
    for source, target in tables["stream_edges"].filter("chained_source").select("source", "target").rows():
        taken_in[target].append(source)
    chained_sources = {source for sources in taken_in.values() for source in sources}
    between = [
        _Edge(
            source, target, place, vertex_of[source], vertex_of[target], parallelism[target] if copied else 1
        )
        for source, target, place, copied in every
        if vertex_of[source] != vertex_of[target]
    ]
    read, written, written_bytes, seconds = (defaultdict[int, float](float) for _ in range(4))
    for task in tasks.iter_rows(named=True):
        vertex = task["vertex"]
        read[vertex] += task["records_in"] or 0
        written[vertex] += task["records_out"] or 0
        written_bytes[vertex] += task["bytes_out"] or 0
        seconds[vertex] += _running_seconds(task["state_timestamps"])
    records = _records_of_edges(between, written, read)
    emitted: dict[int, list[float]] = defaultdict(list)
    for edge, count in zip(between, records, strict=True):
        emitted[edge.source].append(count)
    below: dict[int, list[int]] = defaultdict(list)
    for source, target, _, _ in every:
        if vertex_of[source] == vertex_of[target] and source not in chained_sources:
            below[source].append(target)
    inside = {target for targets in below.values() for target in targets}
    inputs = Counter(edge.target for edge in between)
    costs: list[dict[str, Any]] = []
    for head, vertex in vertex_of.items():
        if head in inside or head in chained_sources:
            continue
        leaving = _leaving(head, emitted, below, outputs)
        arriving = read[vertex] if inputs[head] else leaving
        if sources := taken_in[head]:
            alike = inputs[head] or len(sources)
            source_records = None if arriving is None else arriving / alike
            if inputs[head] and arriving is not None:
                arriving += arriving / alike * len(sources)
            costs += [_measure_chained_source(source, source_records, run_seconds) for source in sources]
        is_source = not inputs[head] and not sources
        for row in _measure_chain(head, arriving, is_source, emitted, below, outputs):
            if row["id"] == head:
                row["cpu_nanoseconds_per_record"] = seconds[vertex] * 1e9 / arriving if arriving else None
                row["records_per_second"] = (
                    arriving / run_seconds if is_source and arriving is not None else None
                )
            if row["id"] in emitted and written[vertex]:
                row["record_bytes"] = written_bytes[vertex] / written[vertex]
            costs.append(row)
    sent = [
        {"source": edge.source, "target": edge.target, "in_index": edge.in_index, "records": count}
        for edge, count in zip(between, records, strict=True)
    ]
    return costs, sent


def _measure_chained_source(source: int, records: float | None, run_seconds: float) -> dict[str, Any]:
    return {
        "id": source,
        "selectivity": None,
        "record_bytes": None,
        "cpu_nanoseconds_per_record": 0.0,
        "records_per_second": None if records is None else records / run_seconds,
    }


def _measure_chain(
    head: int,
    arriving: float | None,
    is_source: bool,
    emitted: Mapping[int, Sequence[float]],
    below: Mapping[int, Sequence[int]],
    outputs: Mapping[int, int],
) -> Iterable[dict[str, Any]]:
    """Yield a row for each operator of a chain, with its selectivity if its input and output are known."""
    todo = [(head, arriving)]
    while todo:
        node, into = todo.pop()
        out = _leaving(node, emitted, below, outputs)
        is_own_source = is_source and node == head
        known = None if is_own_source or out is None or not into else out / into
        yield {
            "id": node,
            "selectivity": known,
            "record_bytes": None,
            "cpu_nanoseconds_per_record": None if node == head else 0.0,
            "records_per_second": None,
        }
        passed_on = into if out is None else out / outputs.get(node, 1)
        todo += [(reader, passed_on) for reader in below.get(node, ())]


def _leaving(
    node: int,
    emitted: Mapping[int, Sequence[float]],
    below: Mapping[int, Sequence[int]],
    outputs: Mapping[int, int],
) -> float | None:
    """Return the records on all outputs of an operator, or of the next one below if only chained operators
    read it.

    `outputs`: the number of outputs per operator, main and side, among which the model divides records.
    """
    todo = [node]
    for operator in todo:
        if operator in emitted:
            return sum(emitted[operator]) / len(emitted[operator]) * outputs[operator]
        todo += below.get(operator, ())
    return None


def _records_of_edges(
    edges: Sequence[_Edge], written: Mapping[int, float], read: Mapping[int, float]
) -> list[float]:
    """Return the records that producers sent along each edge, from the totals written and read by vertices.

    If all other edges of a vertex are known, the last one gets the remainder.
    """
    known: list[float | None] = [None] * len(edges)
    writers, readers = defaultdict(list), defaultdict(list)
    for place, edge in enumerate(edges):
        writers[edge.writer].append(place)
        readers[edge.reader].append(place)
    while True:
        before = sum(records is not None for records in known)
        for vertices, total, by_reader in ((readers, read, True), (writers, written, False)):
            for vertex, places in vertices.items():
                open_places = [place for place in places if known[place] is None]
                if len(open_places) == 1:
                    (place,) = open_places
                    copies = [edges[other].copies if by_reader else 1 for other in places]
                    rest = sum((known[other] or 0) * many for other, many in zip(places, copies, strict=True))
                    known[place] = max(0.0, total[vertex] - rest) / (edges[place].copies if by_reader else 1)
        if before == sum(records is not None for records in known):
            break
    for vertex, places in writers.items():
        open_places = [place for place in places if known[place] is None]
        rest = max(0.0, written[vertex] - sum(known[place] or 0 for place in places))
        for place in open_places:
            known[place] = rest / len(open_places)
    return [records or 0.0 for records in known]


def _running_seconds(timestamps: Any) -> float:
    """Return how long a task was RUNNING, from the timestamps of its ExecutionStates."""
    entries: dict[str, datetime] = dict(
        (entry["key"], entry["value"]) if isinstance(entry, dict) else entry
        for entry in (timestamps.items() if isinstance(timestamps, dict) else timestamps or ())
    )
    if not {"RUNNING", "FINISHED"} <= entries.keys():
        return 0.0
    return (entries["FINISHED"] - entries["RUNNING"]).total_seconds()
