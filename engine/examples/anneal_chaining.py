"""Chaining: simulated annealing over the rate that the cost model predicts, for slots with several cores.

    penstock plan topologies.jsonl --out store --planner penstock.engine.examples.anneal_chaining:anneal
"""

import math
import random
from time import monotonic

import polars as pl

import penstock

STEPS, WARM, COLD = 2_000, 0.1, 0.001
SECONDS = 5.0
"""Time for a job; each change plans the whole job."""
CONSTANTS = {"slot_cores": 2.0, "cores": 2.0}


@penstock.decides("chaining")
def anneal(
    topologies: pl.DataFrame,
    transformations: pl.DataFrame,
    stream_edges: pl.DataFrame,
    operator_costs: pl.DataFrame,
) -> pl.DataFrame:
    """Choose which of Flink's chains to cut. Topologies given as stream graphs are left unchanged."""
    jobs = topologies.filter(form="transformations")
    costs = operator_costs.join(jobs.select("topology_id", topology="name"), on="topology_id")
    metrics = penstock.plan((jobs, transformations)).metrics(costs.drop("topology_id"), CONSTANTS)
    answers = []
    for topology, name in jobs.select("topology_id", "name").iter_rows():
        edges = stream_edges.filter("chainable", topology_id=topology).select("target", "in_index")
        best = search(metrics.after({}, name), edges.rows())
        answers += [(topology, *edge, chained) for edge, chained in best.change.get("chaining", {}).items()]
    columns = {"topology_id": pl.Int64, "target": pl.Int32, "in_index": pl.Int32, "chainable": pl.Boolean}
    return pl.DataFrame(answers, columns, orient="row")


def search(start: penstock.ChangedMetrics, edges: list[tuple[int, int]]) -> penstock.ChangedMetrics:
    """Return the best plan of the search; the colder it gets, the less often a worse plan is accepted."""
    chance, chained = random.Random(1), dict.fromkeys(edges, True)
    best, current, end = start, start, monotonic() + SECONDS
    for step in range(STEPS if edges else 0):
        if monotonic() > end:
            break
        edge = chance.choice(edges)
        tried = current.after({"chaining": {edge: not chained[edge]}})
        gain = math.log(rate(tried) / rate(current))
        if gain >= 0 or chance.random() < math.exp(gain / (WARM * (COLD / WARM) ** (step / STEPS))):
            current, chained[edge] = tried, not chained[edge]
        best = max(best, current, key=rate)
    return best


def rate(metrics: penstock.ChangedMetrics) -> float:
    """Return the records/s that sources emit; 1 if nothing limits them."""
    return metrics.sustained_records_per_second or 1.0
