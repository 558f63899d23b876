"""Metrics of plans against values worked out by hand, and the cost model against itself."""

import gzip
import math

import polars as pl
import pytest

from penstock.engine.measure.bench.measure_quality import bootstrap_interval, compare_quality
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import InputError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics import operator_costs as rows_of_costs
from penstock.plans.metrics.operator_costs import ASSUMED, MOST, drawn_costs, operator_costs, read_costs
from penstock.plans.metrics.plan_metrics import METRICS, Metrics, fleet_metrics, plan_metrics
from penstock.plans.metrics.rates_and_loads import CONSTANTS, MOST_NEEDED

TOPOLOGY = {
    "name": "diamond",
    "parallelism": 4,
    "transformations": [
        {"id": 1, "kind": "source", "name": "in"},
        {"id": 2, "kind": "one_input", "name": "split", "inputs": [1]},
        {"id": 3, "kind": "partition", "partitioner": "hash", "inputs": [2]},
        {"id": 4, "kind": "one_input", "name": "left", "inputs": [3]},
        {"id": 5, "kind": "partition", "partitioner": "broadcast", "inputs": [2]},
        {"id": 6, "kind": "one_input", "name": "right", "inputs": [5], "parallelism": 2},
        {"id": 7, "kind": "two_input", "name": "join", "inputs": [4, 6], "parallelism": 4},
        {"id": 8, "kind": "sink", "name": "out", "inputs": [7], "parallelism": 4},
    ],
}

FREE = CONSTANTS._replace(
    **{name: 0.0 for name in CONSTANTS._fields if name.endswith(("ns", "_byte", "_buffer"))}
)
"""Records are handed on for nothing."""

#: id, selectivity, bytes, nanoseconds, records/s: split doubles, left and right halve, join keeps a tenth.
COSTS = [
    (1, None, 10.0, 1_000.0, 1_000_000.0),
    (2, 2.0, 20.0, 500.0, None),
    (4, 0.5, 30.0, 2_000.0, None),
    (6, 0.5, 40.0, 1_000.0, None),
    (7, 0.1, 50.0, 1_000.0, None),
    (8, 1.0, None, 10_000.0, None),
]


def measured(costs: pl.DataFrame | None = None) -> tuple[Metrics, dict[str, pl.DataFrame]]:
    planned = plan_in_process([TOPOLOGY])
    tables = {name: from_arrow(rows) for name, rows in planned.tables.items()}
    choices = PlanOptions()
    given = operator_costs(tables["stream_nodes"], tables["stream_edges"], costs)
    return plan_metrics(tables, given, choices.task_manager, choices.network, FREE), tables


def given_costs(topology_id: int) -> pl.DataFrame:
    rows = pl.DataFrame(COSTS, schema=["id", *ASSUMED], orient="row")
    return rows.select(
        pl.lit(topology_id).alias("topology_id"), pl.col("id").cast(pl.Int32), *ASSUMED
    ).with_columns(pl.col(name).cast(pl.Float64) for name in ASSUMED)


def test_rates_and_loads_are_those_worked_out_by_hand():
    _, tables = measured()
    (topology_id,) = tables["topologies"]["topology_id"].to_list()
    found, _ = measured(given_costs(topology_id))
    rates = {(e["source"], e["target"]): e["records_per_second"] for e in found.edges.to_dicts()}
    # Each of the two subtasks of `right` gets all 2 M records/s.
    assert rates == {(1, 2): 1e6, (2, 4): 2e6, (2, 6): 2e6, (4, 7): 1e6, (6, 7): 2e6, (7, 8): 0.3e6}
    vertices = {row["vertex"]: row for row in found.vertices.to_dicts()}
    assert set(vertices) == {1, 4, 6, 7}
    assert vertices[1]["cpu_load"] == pytest.approx(1.0 + 0.5)
    assert vertices[4]["cpu_load"] == pytest.approx(4.0)
    assert vertices[6]["cpu_load"] == pytest.approx(4.0)
    assert vertices[7]["cpu_load"] == pytest.approx(3.0 + 3.0)
    assert {vertex: row["needed_parallelism"] for vertex, row in vertices.items()} == {1: 2, 4: 4, 6: 4, 7: 6}
    (row,) = found.plans.to_dicts()
    assert row["bottleneck"] == "right"
    assert row["utilisation"] == pytest.approx(2.0)
    # Slots 0 and 1 have a task of every vertex, of a core: 1.5 / 4 + 4 / 4 + 4 / 2 + 6 / 4.
    assert row["slot_utilisation"] == pytest.approx(4.875)
    assert row["sustained_records_per_second"] == pytest.approx(1e6 / 4.875)
    assert row["delivered_records_per_second"] == pytest.approx(1e6 / 4.875)
    assert row["needed_tasks"] == 16
    assert row["exchanged_bytes_per_second"] == pytest.approx(2e6 * 20 + 2e6 * 20 * 2 + 1e6 * 30 + 2e6 * 40)
    forward = 1e6 * 30
    assert row["shuffled_bytes_per_second"] == pytest.approx(row["exchanged_bytes_per_second"] - forward)
    assert row["critical_path"] == 2
    counts = ("operators", "vertices", "tasks", "longest_chain", "slots", "task_managers")
    assert [row[name] for name in counts] == [6, 4, 14, 2, 4, 4]
    # 4 readers of 4 partitions, 2 of 4, 4 of one each, 4 of 2.
    assert row["execution_edges"] == 16 + 8 + 4 + 8
    assert row["tasks_of_fullest_slot"] == 4
    assert row["slot_imbalance"] == pytest.approx(4 / 3.5)


def test_the_first_subtask_alone_has_what_global_edges_bring():
    """Along a chain and a forward edge, beside its even share of all else; not after a shuffle."""
    named = {"kind": "one_input", "parallelism": 4}
    topology = {
        "name": "global",
        "transformations": [
            {"id": 1, "kind": "source", "name": "few", "parallelism": 2},
            {"id": 2, "kind": "source", "name": "many", "parallelism": 2},
            {"id": 3, "kind": "partition", "partitioner": "global", "inputs": [1]},
            {"id": 4, "kind": "partition", "partitioner": "hash", "inputs": [2]},
            {"id": 5, "kind": "two_input", "name": "both", "inputs": [3, 4], "parallelism": 4},
            {**named, "id": 6, "name": "chained", "inputs": [5]},
            {**named, "id": 7, "name": "forward", "inputs": [6], "chaining": "NEVER"},
            {"id": 8, "kind": "partition", "partitioner": "rebalance", "inputs": [7]},
            {**named, "id": 9, "name": "even", "inputs": [8]},
            {"id": 10, "kind": "sink", "name": "out", "inputs": [9], "parallelism": 4},
        ],
    }
    planned = plan_in_process([topology])
    tables = {name: from_arrow(rows) for name, rows in planned.tables.items()}
    nanoseconds = {1: 0.0, 2: 0.0, 5: 1000.0, 6: 3000.0, 7: 2000.0, 9: 1000.0, 10: 0.0}
    rows = [
        (i, 0.5 if i == 6 else 1.0, 0.0, cost, 100.0 if i == 1 else 800.0) for i, cost in nanoseconds.items()
    ]
    costs = pl.DataFrame(rows, schema=["id", *ASSUMED], orient="row").select(
        pl.lit(tables["topologies"]["topology_id"][0]).alias("topology_id"),
        pl.col("id").cast(pl.Int32),
        *ASSUMED,
    )
    choices = PlanOptions()
    vertices = plan_metrics(tables, costs, choices.task_manager, choices.network, FREE).vertices
    found = {row["name"]: (row["cpu_load"], row["utilisation"]) for row in vertices.iter_rows(named=True)}
    first = 100 + 800 / 4
    assert found["both -> chained"] == pytest.approx((900 * 4000 / 1e9, first * 4000 / 1e9))
    assert found["forward"] == pytest.approx((450 * 2000 / 1e9, first / 2 * 2000 / 1e9))
    assert found["even -> Sink: out"] == pytest.approx((450 * 1000 / 1e9, 450 / 4 * 1000 / 1e9))


def test_every_metric_is_filled_and_summarised():
    found, _ = measured()
    assert found.plans.columns == ["topology_id", "name", *METRICS]
    assert not any(found.plans.null_count().row(0))
    assert set(fleet_metrics(found.plans)["metric"]) == set(METRICS) - {"bottleneck"}


def test_costs_are_drawn_alike_for_every_plan():
    _, tables = measured()
    nodes = tables["stream_nodes"]
    assert drawn_costs(nodes).equals(drawn_costs(nodes.reverse()).reverse())


def test_a_plan_compared_with_itself_is_equal():
    found, _ = measured()
    for entry in compare_quality(found.plans, found.plans):
        assert (entry["better"], entry["equal"], entry["worse"], entry["difference"]) == (0, 1, 0, 0)
        assert entry["low"] == entry["high"] == 0


def test_topologies_are_paired_by_id_and_extremes_named():
    found, _ = measured()
    base = pl.concat(
        [
            found.plans.with_columns(topology_id=pl.lit(n).cast(pl.Int64), name=pl.lit(f"t{n}"))
            for n in range(40)
        ]
    )
    fewer = (
        pl.when(pl.col("topology_id") < 10).then(pl.col("tasks") - pl.col("topology_id")).otherwise("tasks")
    )
    other = base.reverse().with_columns(tasks=fewer)
    (tasks,) = (entry for entry in compare_quality(base, other) if entry["metric"] == "tasks")
    assert (tasks["better"], tasks["equal"], tasks["worse"]) == (9, 31, 0)
    assert tasks["difference"] == pytest.approx(-45 / 40)
    assert tasks["low"] < tasks["difference"] < tasks["high"] < 0
    assert [one["topology"] for one in tasks["gains"]] == ["t9", "t8", "t7"]
    assert tasks["losses"] == []


@pytest.mark.parametrize("value", [1e15, 1e100, -3e-7])
def test_differences_that_are_almost_equal_have_bars(value):
    found, _ = measured()
    base = pl.concat([found.plans.with_columns(topology_id=pl.lit(number)) for number in range(3)])
    raised = pl.Series([value, math.nextafter(value, math.inf), value])
    other = base.with_columns(cpu_load=base["cpu_load"] + raised, utilisation=raised)
    for entry in compare_quality(base.with_columns(utilisation=0.0), other):
        assert sum(entry["bars"]["counts"]) == entry["better"] + entry["worse"]


def test_the_interval_holds_the_mean_in_about_95_of_100_samples():
    import numpy as np

    random = np.random.default_rng(7)
    inside = 0
    for _ in range(200):
        low, high = bootstrap_interval(random.exponential(3.0, 80), random)
        inside += low <= 3.0 <= high
    assert 175 <= inside <= 199


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"topology": "diamond", "id": 1, "speed": 2}',
            "columns must be topology, id, .*, got topology, id, speed",
        ),
        (
            '{"topology": "diamond", "id": 1, "selectivity": -2}',
            "diamond, operator 1: selectivity must be .*, got -2.0",
        ),
        (
            '{"topology": "diamond", "id": 1, "selectivity": 1e101}',
            "diamond, operator 1: selectivity must be 0 to 1e.100, got 1e.101",
        ),
        (
            '{"topology": "diamond", "id": 1}\n{"topology": "diamond", "id": 1}',
            "operator 1 must have one row",
        ),
        ('{"topology": "diamond", "id": "1"}', "column id must be numbers, got String"),
        ("no table", "costs.jsonl: (.|\n)*JSON lines, or .csv or .parquet"),
    ],
)
def test_wrong_costs_are_said(text, said, tmp_path):
    path = tmp_path / "costs.jsonl"
    path.write_text(text + "\n")
    _, tables = measured()
    with pytest.raises(InputError, match=said):
        read_costs(path, tables["topologies"])


def test_costs_of_a_file_are_used_where_they_are_given(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("topology,id,selectivity\ndiamond,2,7\nanother,1,5\n")
    _, tables = measured()
    costs = operator_costs(
        tables["stream_nodes"], tables["stream_edges"], read_costs(path, tables["topologies"])
    )
    assert costs.filter(pl.col("id") == 2)["selectivity"].to_list() == [7.0]
    assert costs.filter(pl.col("id") == 4)["selectivity"].to_list() == [ASSUMED["selectivity"]]


def test_a_file_of_costs_without_rows_says_nothing(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("topology,id,selectivity\n")
    assert read_costs(path, measured()[1]["topologies"]).is_empty()


@pytest.mark.parametrize("name", ["costs.jsonl.gz", "costs.csv.gz", "costs.csv", "costs.jsonl"])
def test_costs_that_unpack_to_too_much_are_not_read(name, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_of_costs, "MOST_BYTES", 1 << 20)
    text = b"topology,id\n" if "csv" in name else b'{"topology": "diamond", "id": 1}\n'
    (tmp_path / name).write_bytes(gzip.compress(text + b" " * (2 << 20)))
    with pytest.raises(InputError, match=r"most that is read|costs are JSON lines"):
        read_costs(tmp_path / name, measured()[1]["topologies"])


def test_costs_of_too_many_rows_are_counted_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_of_costs, "MOST_ROWS", 10)
    pl.DataFrame({"topology": ["diamond"] * 11, "id": range(11)}).write_parquet(tmp_path / "costs.parquet")
    with pytest.raises(InputError, match="more than 10 rows"):
        read_costs(tmp_path / "costs.parquet", measured()[1]["topologies"])


def test_the_largest_costs_give_numbers():
    _, tables = measured()
    ids = tables["stream_nodes"].select("topology_id", "id")
    found, _ = measured(ids.with_columns(pl.lit(MOST).alias(name) for name in ASSUMED))
    (plan,) = found.plans.iter_rows(named=True)
    numbers = [value for value in plan.values() if isinstance(value, int | float)]
    assert all(math.isfinite(value) for value in numbers)
    assert plan["needed_tasks"] == len(found.vertices) * MOST_NEEDED
    assert found.edges["records_per_second"].max() == MOST
