"""The cost model against values worked out by hand, against an oracle, and what must hold of any plan."""

import json
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.measure.bench.prepare_inputs import WORKLOADS
from penstock.engine.planning.chosen_costs import DRAWN, chosen_costs
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import InputError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.generate.fleet import Spec, topology_lines
from penstock.plans.generate.layered import SHAPES
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.operator_costs import ASSUMED, MOST
from penstock.plans.metrics.plan_arrays import Edges, Operators, SteadyState, kinds_of_slots
from penstock.plans.metrics.plan_metrics import SUSTAINED, plan_metrics
from penstock.plans.metrics.rates_and_loads import (
    CONSTANTS,
    TERMS,
    Constants,
    ModelCluster,
    rates_and_loads,
    read_constants,
)

CAPACITIES = ("network_bytes_per_second", "slot_cores", "cores")
FREE = Constants(**{name: MOST if name in CAPACITIES else 0.0 for name in Constants._fields})
"""Nothing limits but the threads of tasks, and nothing costs but operators."""


class Node(NamedTuple):
    """An operator with `tasks` subtasks, and its costs."""

    nanoseconds: float
    tasks: int = 1
    selectivity: float = 1.0
    rate: float = 0.0
    bytes: float = 100.0


class Edge(NamedTuple):
    """From a node to a later one; `kind` is FORWARD, HASH, BROADCAST, GLOBAL or CHAINED."""

    source: int
    target: int
    kind: str = "HASH"
    tag: int = 0


def model(
    nodes: list[Node],
    edges: list[Edge],
    constants: Constants = FREE,
    groups: list[int] | None = None,
    topology: int = 7,
    slots: int = 1,
) -> SteadyState:
    """Rates and loads of one plan, whose vertices share slots within `groups` (one, if none are given)."""
    heads = list(range(len(nodes)))
    for edge in edges:
        if edge.kind == "CHAINED":
            heads[edge.target] = heads[edge.source]
    groups = groups or [0] * len(nodes)
    rows = [
        (topology, head, subtask, groups[head] * 1000 + subtask)
        for head in sorted(set(heads))
        for subtask in range(nodes[head].tasks)
    ]
    tasks = pl.DataFrame(
        rows, ["topology_id", "vertex", "subtask", "execution_slot_sharing_group"], orient="row"
    )
    count = len(nodes)
    numbers = {
        name: np.array([getattr(node, field) for node in nodes], np.float64)
        for name, field in (
            ("selectivity", "selectivity"),
            ("record_bytes", "bytes"),
            ("cpu_nanoseconds_per_record", "nanoseconds"),
            ("records_per_second", "rate"),
        )
    }
    parallelism = np.array([node.tasks for node in nodes])
    operators = Operators(
        np.full(count, topology), np.arange(count), np.array(heads), parallelism, parallelism[heads],
        np.ones(count), **numbers,
    )  # fmt: skip
    in_index = [
        sum(before.target == edge.target for before in edges[:number]) for number, edge in enumerate(edges)
    ]
    kinds = np.array([edge.kind for edge in edges])
    given_edges = Edges(
        np.full(len(edges), topology),
        np.array([edge.source for edge in edges], np.int64),
        np.array([edge.target for edge in edges], np.int64),
        np.array(in_index, np.int64),
        np.array([edge.tag for edge in edges], np.int64),
        kinds == "BROADCAST",
        kinds == "CHAINED",
        np.isin(kinds, ["FORWARD", "CHAINED"]),
        kinds == "GLOBAL",
        np.zeros(len(edges), bool),
    )
    alone = given_edges.topologies[given_edges.alone]
    return rates_and_loads(
        operators, given_edges, kinds_of_slots(tasks, alone), ModelCluster(constants, slots, 32_768)
    )


def sustained(*args: Any, **more: Any) -> float:
    return float(model(*args, **more).plans.sustained_records_per_second[0])


def test_what_handing_on_costs_by_hand():
    terms = Constants(
        call_ns=1, copy_ns=2, copy_ns_per_byte=0.1, serialise_ns=10, serialise_ns_per_byte=0.2,
        deserialise_ns=20, deserialise_ns_per_byte=0.3, route_ns=5, handover_ns_per_buffer=32_768,
        remote_ns_per_byte=0, network_bytes_per_second=MOST, slot_cores=MOST, cores=MOST,
    )  # fmt: skip
    nodes = [Node(100, rate=1e6), Node(50, selectivity=0.5), Node(200)]
    found = model(nodes, [Edge(0, 1, "CHAINED"), Edge(1, 2)], terms)
    # Half of the buffer's way at each end: 0.5 ns for each byte.
    first = 100 + (1 + 2 + 10) + 50 + 0.5 * (10 + 20 + 50 + 5)
    second = 0.5 * (200 + 20 + 30 + 50)
    assert found.vertices.cpu_load == pytest.approx([first / 1000, second / 1000])
    assert found.plans.sustained_records_per_second == pytest.approx([1e9 / first])
    assert found.plans.exchange_cpu_load == pytest.approx([(13 + 42.5 + 50) / 1000])


def test_tasks_in_a_slot_share_its_cores():
    nodes, edges = [Node(1000, rate=1.0), Node(1000)], [Edge(0, 1)]
    one_core = FREE._replace(slot_cores=1.0)
    assert sustained(nodes, edges, one_core) == pytest.approx(500_000)
    assert sustained(nodes, edges, one_core, groups=[0, 1]) == pytest.approx(1_000_000)
    assert sustained(nodes, edges, one_core._replace(cores=1.0), groups=[0, 1]) == pytest.approx(500_000)


def test_the_network_of_task_managers():
    """Two TaskManagers: half of a hash edge's bytes go to the other one; a forward edge in a slot stays."""
    nodes = [Node(1, 2, rate=1.0, bytes=1000), Node(1, 2)]
    terms = FREE._replace(network_bytes_per_second=1e6)
    assert sustained(nodes, [Edge(0, 1)], terms) == pytest.approx(2 * 1e6 / 500)
    assert sustained(nodes, [Edge(0, 1, "FORWARD")], terms) == pytest.approx(2e9)
    assert sustained(nodes, [Edge(0, 1, "FORWARD")], terms, groups=[0, 1]) == pytest.approx(4e6 / 750)
    assert sustained(nodes, [Edge(0, 1)], terms, slots=2) == pytest.approx(2e9)
    remote = FREE._replace(remote_ns_per_byte=1, slot_cores=1.0)
    assert sustained(nodes, [Edge(0, 1)], remote) == pytest.approx(2 * 1e9 / (1 + 1 + 500))


def test_a_bottleneck_throttles_only_the_sources_that_lead_to_it():
    nodes = [Node(0, rate=100.0), Node(0, rate=300.0), Node(1e6), Node(1e5), Node(1e5)]
    edges = [Edge(0, 2), Edge(0, 3), Edge(1, 3), Edge(1, 4)]
    # The first source stops at 1,000/s; the second goes on until the union has 10,000/s.
    assert sustained(nodes, edges) == pytest.approx(10_000)
    slow = [*nodes[:2], Node(1e7), *nodes[3:]]
    found = model(slow, edges)
    assert found.plans.sustained_records_per_second == pytest.approx([100 + 9_900])
    assert found.plans.delivered_records_per_second == pytest.approx([100 + 300])
    throttled = model([*nodes[:2], Node(2e7), *nodes[3:]], edges).plans
    assert throttled.delivered_records_per_second == pytest.approx([50 + 300])
    assert throttled.source_records_per_second == pytest.approx([400])


def test_a_split_copies_or_divides_as_its_edges_say():
    nodes = [Node(1, rate=90.0), Node(1, selectivity=2.0), Node(1), Node(1), Node(1)]
    copied = model(nodes, [Edge(0, 1), Edge(1, 2), Edge(1, 3), Edge(1, 4)])
    assert copied.along.tolist() == [90, 180, 180, 180]
    divided = model(nodes, [Edge(0, 1), Edge(1, 2), Edge(1, 3, tag=5), Edge(1, 4, tag=5)])
    assert divided.along.tolist() == [90, 90, 90, 90]
    three = model(nodes, [Edge(0, 1), Edge(1, 2, tag=4), Edge(1, 3, tag=5), Edge(1, 4, tag=6)])
    assert three.along.tolist() == pytest.approx([90, 60, 60, 60])


def test_what_costs_nothing_has_no_limit():
    assert sustained([Node(0, rate=1.0), Node(0)], [Edge(0, 1)]) == np.inf
    limited = model([Node(1, rate=2.0), Node(0)], [Edge(0, 1)])
    assert limited.plans.sustained_records_per_second == pytest.approx([1e9])


@st.composite
def plans(draw: Any) -> tuple[list[Node], list[Edge], list[int]]:
    """Nodes of which the first are sources, edges to later ones, and slot sharing groups."""
    sources = draw(st.integers(1, 4))
    count = sources + draw(st.integers(1, 7))
    nodes = [
        Node(
            draw(st.sampled_from([0.0, 10.0, 1000.0, 20_000.0])),
            draw(st.integers(1, 3)),
            draw(st.sampled_from([0.0, 0.25, 1.0, 3.0])),
            draw(st.sampled_from([0.0, 1.0, 50.0])) if number < sources else 0.0,
        )
        for number in range(count)
    ]
    edges = [
        Edge(
            source,
            target,
            draw(st.sampled_from(["HASH", "FORWARD", "BROADCAST", "GLOBAL"])),
            draw(st.integers(0, 1)),
        )
        for target in range(sources, count)
        for source in sorted(draw(st.sets(st.integers(0, target - 1), min_size=1, max_size=3)))
    ]
    return nodes, edges, [draw(st.integers(0, 2)) for _ in range(count)]


LIMITED = FREE._replace(slot_cores=1.0, call_ns=5.0, serialise_ns=40.0, deserialise_ns=60.0)


def raised_step_by_step(nodes: list[Node], edges: list[Edge], groups: list[int], cores: float) -> float:
    """Progressive filling from the definition: the load of each resource for each source alone, which is
    linear, then the lowest limit over all of them stops every source that works there."""
    rates = [node.rate for node in nodes]
    loads = []
    for source, rate in enumerate(rates):
        if rate:
            alone = [
                node._replace(rate=rate if number == source else 0.0) for number, node in enumerate(nodes)
            ]
            found = model(alone, edges, LIMITED)
            beyond = found.vertices.utilisation - found.vertices.cpu_load / [node.tasks for node in nodes]
            even = found.vertices.cpu_load / [node.tasks for node in nodes]
            slots: dict[tuple[int, int], float] = {}
            for number, node in enumerate(nodes):
                for subtask in range(node.tasks):
                    key = (groups[number], subtask)
                    slots[key] = (
                        slots.get(key, 0.0) + even[number] + (beyond[number] if subtask == 0 else 0.0)
                    )
            loads.append(
                [*found.vertices.utilisation, *slots.values(), found.vertices.cpu_load.sum() / cores]
            )
    if not loads:
        return 0.0
    matrix, offered = np.array(loads), np.array([rate for rate in rates if rate])
    level, free = np.zeros(len(matrix)), np.ones(len(matrix), bool)
    while free.any():
        need, used = matrix[free].sum(axis=0), (level[~free, None] * matrix[~free]).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = np.where(need > 1e-300, np.maximum(1 - used, 0) / need, np.inf)
        least = limit.min()
        if least == np.inf:
            return float("inf")
        stop = free & (matrix[:, limit <= least * (1 + 1e-9)] > 1e-300).any(axis=1)
        level[stop] = least
        free &= ~stop
    return float((level * offered).sum())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(plans(), st.sampled_from([MOST, 2.0]))
def test_sources_are_raised_as_by_progressive_filling(plan, cores):
    nodes, edges, groups = plan
    found = sustained(nodes, edges, LIMITED._replace(cores=cores), groups)
    assert found == pytest.approx(raised_step_by_step(nodes, edges, groups, cores), rel=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(plans(), st.data())
def test_more_cost_lowers_and_scale_keeps(plan, data):
    nodes, edges, groups = plan
    before = model(nodes, edges, LIMITED, groups).plans
    place = data.draw(st.integers(0, len(nodes) - 1))
    dearer = [
        *nodes[:place],
        nodes[place]._replace(nanoseconds=nodes[place].nanoseconds + 500),
        *nodes[place + 1 :],
    ]
    after = model(dearer, edges, LIMITED, groups).plans
    if sum(node.rate > 0 for node in nodes) == 1:  # of several, one may gain what another loses
        for name in ("delivered_records_per_second", "sustained_records_per_second"):
            assert getattr(after, name)[0] <= getattr(before, name)[0] * (1 + 1e-9)
    assert after.slot_utilisation[0] >= before.slot_utilisation[0] * (1 - 1e-12)
    thousandfold = [node._replace(rate=node.rate * 1000) for node in nodes]
    scaled = model(thousandfold, edges, LIMITED, groups).plans
    assert scaled.sustained_records_per_second == pytest.approx(before.sustained_records_per_second, rel=1e-9)
    assert before.delivered_records_per_second[0] <= before.source_records_per_second[0] * (1 + 1e-9)


def tables_of(lines: list[Any]) -> dict[str, pl.DataFrame]:
    return {name: from_arrow(rows) for name, rows in plan_in_process(lines).tables.items()}


def metrics_of(tables: dict[str, pl.DataFrame], costs: str | None) -> pl.DataFrame:
    chosen = chosen_costs(costs, tables["topologies"])(tables["stream_nodes"], tables["stream_edges"])
    return plan_metrics(tables, chosen, PlanOptions().task_manager, PlanOptions().network).plans


def layered_lines(operators: int) -> list[Any]:
    layered = next(shape for shape in SHAPES if shape.name == "layered")
    text = "".join(topology_lines(layered.fleet(Spec(operators, 1, 1))))
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("costs", [None, DRAWN])
def test_depth_neither_overflows_nor_vanishes(costs):
    """Layers with joins, each of which reads two operators of the layer before: 1.12 times as much in
    each."""
    (small,), (large,) = (
        metrics_of(tables_of(layered_lines(operators)), costs).to_dicts() for operators in (400, 10_000)
    )
    for row in (small, large):
        per_operator = row["cpu_load"] / row["operators"] / row["source_records_per_second"]
        assert 1e-7 < per_operator * 100 < 1e-2
    assert large["sustained_records_per_second"] > 1_000


def test_chaining_beats_never_chaining_on_workloads():
    lines = [json.loads(line) for line in WORKLOADS.read_text().splitlines()]
    never = [
        {**line, "config": {**line["config"], "pipeline.operator-chaining.enabled": "false"}}
        for line in lines
    ]
    chained, apart = (metrics_of(tables_of(given), None).sort("name") for given in (lines, never))
    ratio = (chained[SUSTAINED] / apart[SUSTAINED]).to_numpy()
    assert (ratio >= 1 - 1e-9).all()
    assert (ratio > 1.001).sum() >= 40


def test_one_task_per_slot_has_more_cores_than_shared_slots():
    lines = [json.loads(line) for line in WORKLOADS.read_text().splitlines()]
    tables = tables_of(lines)
    shared = metrics_of(tables, None).sort("name")
    slots = tables["execution_slot_sharing_groups"]
    own = slots.with_columns(execution_slot_sharing_group=pl.int_range(pl.len(), dtype=pl.Int32))
    apart = metrics_of({**tables, "execution_slot_sharing_groups": own}, None).sort("name")
    ratio = (apart[SUSTAINED] / shared[SUSTAINED]).to_numpy()
    several = (shared["vertices"] > 1).to_numpy()
    assert ratio[~several] == pytest.approx(1.0)
    assert (ratio[several] > 1.0).all()


def test_constants_of_a_file(tmp_path):
    path = tmp_path / "constants.json"
    path.write_text('{"terms": {"call_ns": {"value": 3, "low": 1}, "slot_cores": {"value": 0.5}}}')
    assert read_constants(path) == CONSTANTS._replace(call_ns=3.0, slot_cores=0.5)
    path.write_text('{"route_ns": 4}')
    assert read_constants(path).route_ns == 4.0
    path.write_text('\ufeff{"cores": 1' + 400 * "0" + "}", encoding="utf-8")
    assert read_constants(path).cores == float("inf")
    for wrong in (
        '{"terms": {"speed": 1}}',
        '{"call_ns": -1}',
        '{"cores": 0}',
        '{"call_ns": "1"}',
        '{"call_ns": {"value": 0.02, "unit": "us/record"}}',
        "[]",
        "{",
        100_000 * "[",
    ):
        path.write_text(wrong)
        with pytest.raises(InputError, match=r"constants\.json"):
            read_constants(path)


def test_every_term_says_its_unit_spread_and_source():
    assert set(TERMS) == set(Constants._fields)
    for term in TERMS.values():
        assert term.low <= term.value <= term.high
        assert term.unit
        assert term.source.startswith(("measured: ", "assumed: ", "Flink: "))


def test_given_selectivities_and_levels_of_others():
    """A join whose selectivity nobody gives emits what its inputs bring on average."""
    lines = [{
        "name": "join", "parallelism": 2,
        "transformations": [
            {"id": 1, "kind": "source", "name": "a"}, {"id": 2, "kind": "source", "name": "b"},
            {"id": 3, "kind": "two_input", "name": "both", "inputs": [1, 2]},
            {"id": 4, "kind": "sink", "name": "out", "inputs": [3]},
        ],
    }]  # fmt: skip
    tables = tables_of(lines)
    costs = chosen_costs(None, tables["topologies"])(tables["stream_nodes"], tables["stream_edges"])
    given = dict(costs.select("id", "selectivity").iter_rows())
    assert given == {1: 1.0, 2: 1.0, 3: 0.5, 4: ASSUMED["selectivity"]}
