"""Jobs of known cost under several policies, and the rates that the cost model predicts for them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from penstock.engine.measure.bench.prepare_inputs import WORKLOADS
from penstock.engine.measure.calibration.run_jobs_on_penstock import MeasuredJob, MeasuredOperator
from penstock.engine.planning.chosen_costs import DRAWN, chosen_costs
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import call_settings, plan_by_custom_planners
from penstock.engine.planning.plan_in_process import read_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.generate.fleet import Spec, topology_lines
from penstock.plans.generate.layered import SHAPES
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.plan_metrics import SUSTAINED, plan_metrics
from penstock.plans.metrics.rates_and_loads import Constants

MOST_OPERATORS = 14
MOST_SLOTS = 64
PLANNING_SECONDS = 3600.0
SOURCE_NANOSECONDS = 100.0
"""Cost of a generated source itself; operators spin for the rest of their cost."""

_NAMES = {"FORWARD", "HASH", "BROADCAST", "GLOBAL", "RESCALE", "SHUFFLE"}


def chosen_topologies(most: int) -> list[dict[str, Any]]:
    """Return workloads of few operators and drawn topologies, alternating between one and two subtasks."""
    lines = [json.loads(line) for line in WORKLOADS.read_text(encoding="utf-8").splitlines()]
    small = [line for line in lines if len(line["transformations"]) <= MOST_OPERATORS + 4]
    drawn = []
    for name, operators, width in (
        ("chain", 8, None),
        ("diamond", 12, 3),
        ("layered", 12, 2),
        ("wide", 10, 3),
    ):
        shape = next(shape for shape in SHAPES if shape.name == name)
        text = "".join(topology_lines(shape.fleet(Spec(operators, 3, 5, width=width))))
        drawn += [json.loads(line) for line in text.splitlines()]
    chosen = [*small[: most - len(drawn)], *drawn]
    return [{**line, "parallelism": 1 + number % 2} for number, line in enumerate(chosen)]


def planned_jobs(
    topologies: Sequence[dict[str, Any]], policies: Sequence[str], constants: Constants
) -> tuple[list[MeasuredJob], dict[str, float]]:
    """Return a job for each topology and policy, and the predicted rate by name of the job.

    Topologies in their order, each with all policies.
    """
    jobs: list[MeasuredJob] = []
    predicted: dict[str, float] = {}
    for policy in policies:
        tables = _plan(topologies, policy)
        costs = chosen_costs(DRAWN, tables["topologies"])(tables["stream_nodes"], tables["stream_edges"])
        choices = PlanOptions()
        metrics = plan_metrics(tables, costs, choices.task_manager, choices.network, constants).plans
        for name, rate in metrics.select("name", SUSTAINED).iter_rows():
            job = _job(f"{name}/{policy}", tables, costs, name)
            if job is not None:
                jobs.append(job)
                predicted[job.name] = rate
    by_topology = {name: place for place, name in enumerate(line["name"] for line in topologies)}
    jobs.sort(key=lambda job: by_topology[job.name.rpartition("/")[0]])
    return jobs, predicted


def _plan(topologies: Sequence[dict[str, Any]], policy: str) -> dict[str, pl.DataFrame]:
    read = read_in_process(list(topologies))
    planners = [] if policy == "flink" else find_custom_planners(named_policy(policy))
    settings = call_settings(DRAWN, read.topologies, PLANNING_SECONDS)
    planned = plan_by_custom_planners(read, planners, question=settings)
    return {name: from_arrow(rows) for name, rows in planned.tables.items()}


def _job(
    name: str, tables: Mapping[str, pl.DataFrame], costs: pl.DataFrame, topology: str
) -> MeasuredJob | None:
    """Return the plan as a job of the MiniCluster.

    None if it has sources inside of chains or too many slots.
    """
    key = tables["topologies"].filter(pl.col("name") == topology)["topology_id"][0]
    topology_tables = {
        table: rows.filter(pl.col("topology_id") == key)
        for table, rows in tables.items()
        if "topology_id" in rows.columns
    }
    slots = int(topology_tables["required_slots"]["slots"].sum())
    if topology_tables["stream_edges"]["chained_source"].any() or slots > MOST_SLOTS:
        return None
    groups = dict(topology_tables["job_vertices"].select("vertex", "slot_sharing_group").iter_rows())
    vertex = dict(topology_tables["chained_operators"].select("node", "vertex").iter_rows())
    nodes = topology_tables["stream_nodes"].join(costs, on=["topology_id", "id"]).sort("id")
    edges = topology_tables["stream_edges"].sort("target", "in_index").to_dicts()
    operators = []
    for node in nodes.to_dicts():
        inputs = [edge for edge in edges if edge["target"] == node["id"]]
        spin = node["cpu_nanoseconds_per_record"] - (0.0 if inputs else SOURCE_NANOSECONDS)
        operators.append(
            MeasuredOperator(
                node["id"],
                node["parallelism"],
                max(spin, 0.0),
                node["selectivity"],
                int(node["record_bytes"]),
                str(groups[vertex[node["id"]]]),
                bool(inputs) and not any(edge["chainable"] for edge in inputs),
                [
                    (edge["source"], edge["partitioner"] if edge["partitioner"] in _NAMES else "REBALANCE",
                     edge["output_tag"] or "")
                    for edge in inputs
                ],
            )
        )  # fmt: skip
    return MeasuredJob(name, _in_order(operators))


def _in_order(operators: Sequence[MeasuredOperator]) -> list[MeasuredOperator]:
    """Return the operators, each after its inputs."""
    left, ordered, known = list(operators), [], set()
    while left:
        ready = [operator for operator in left if all(source in known for source, _, _ in operator.inputs)]
        ordered += ready
        known |= {operator.id for operator in ready}
        left = [operator for operator in left if operator.id not in known]
    return ordered


def named_policy(policy: str) -> str:
    """Return the planner with this name: module:function, or a function of policies_to_compare."""
    return policy if ":" in policy else f"benchmarks.policies_to_compare:{policy}"
