"""Generated topologies: the same for a seed wherever they are made, valid, of the size asked for."""

from collections import Counter
from hashlib import sha256

import orjson
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate import fleet as fleets
from penstock.plans.generate.fleet import (
    Fleet,
    Spec,
    fleet_tables,
    topologies_table,
    topology_lines,
    transformations_table,
)
from penstock.plans.generate.generate_on_spark import generate_on_spark
from penstock.plans.generate.giant import giant
from penstock.plans.generate.layered import SHAPES, Shape, diamond, layered
from penstock.plans.generate.random import random
from penstock.plans.layers import PlanOptions
from penstock.plans.tables import TABLES
from penstock.plans.topology.topologies_of_lines import topology_id
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import EXPANDED_KINDS, VIRTUAL_KINDS, Kind, Layer

SPEC = Spec(operators=40, topologies=12, seed=3, share_of_uids=0.5, with_refusals=True)
VIRTUAL = sorted(map(str, VIRTUAL_KINDS))

DIGESTS = {
    "random": "d12c6cf621afa9bd5173e428628e6972fc40ecc0e24efa24aef5623060dff50a",
    "layered": "49d6e5725d8e900758ecc66208e06e7a649dbb64baef157e9f616bca4b1cc255",
    "chain": "b9180140be5401ad6040039afab37578fd6046b12ad90c9c4ad5f9b77fe27487",
    "diamond": "53ade8f4ab2f808fca9b267df018fc292a0d3da93abf32a6f981ef45f43bdaea",
    "wide": "6a87429e829fccc064e28d0cc48ee973da4cd53420c29ff56ed63814afdcad38",
    "giant": "af197f4518221b8c316650fa28f9912045d1032913839ef1454351034a4588e5",
}
"""SHA-256 of the lines of SPEC; of all but giant as expressions of Spark wrote them before arrays did."""

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def lines(fleet: Fleet) -> str:
    return "".join(topology_lines(fleet))


def rows(fleet: Fleet) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(transformations_table(fleet, 0, fleet.units)))


@every_shape
def test_a_seed_gives_the_topologies_that_it_has_always_given(shape: Shape):
    assert sha256(lines(shape.fleet(SPEC)).encode()).hexdigest() == DIGESTS[shape.name]


@every_shape
def test_every_topology_is_valid_input(shape: Shape):
    fleet = [orjson.loads(line) for line in lines(shape.fleet(SPEC)).splitlines()]
    assert [topology["name"] for topology in fleet] == [f"{shape.name}-3-{i:06}" for i in range(12)]
    assert [error for topology in fleet for error in validate_topology(topology)] == []


@pytest.mark.slow
@every_shape
def test_parts_of_any_size_make_the_same_lines(shape: Shape, monkeypatch: pytest.MonkeyPatch):
    whole = lines(shape.fleet(SPEC))
    monkeypatch.setattr(fleets, "ROWS_OF_A_PART", 7)
    assert lines(shape.fleet(SPEC)) == whole


@every_shape
def test_spark_makes_the_same_rows(spark, shape: Shape, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fleets, "ROWS_OF_A_PART", 100)
    fleet = shape.fleet(SPEC)
    here = topologies_table(fleet, 0, 12), transformations_table(fleet, 0, fleet.units)
    for made, table, keys in zip(
        generate_on_spark(spark, fleet), here, (["topology_id"], ["topology_id", "id"]), strict=True
    ):
        order = [(key, "ascending") for key in keys]
        assert made.toArrow().sort_by(order).to_pylist() == table.sort_by(order).to_pylist()


@every_shape
def test_tables_have_their_schema_and_keys(shape: Shape):
    fleet = shape.fleet(SPEC)
    topologies, transformations = topologies_table(fleet, 0, 12), transformations_table(fleet, 0, fleet.units)
    assert (topologies.schema, transformations.schema) == (TABLES["topologies"], TABLES["transformations"])
    assert topologies["topology_id"].to_pylist() == [topology_id(n) for n in topologies["name"].to_pylist()]
    assert len(set(topologies["fingerprint"].to_pylist())) == 12
    keys = set(zip(*(transformations[name].to_pylist() for name in ("topology_id", "id")), strict=True))
    assert len(keys) == len(transformations)
    assert {key for key, _ in keys} == set(topologies["topology_id"].to_pylist())


def test_a_folder_gets_both_tables_and_nothing_else(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fleets, "ROWS_OF_A_PART", 10)
    arguments = ["generate", "random", "--topologies", "30", "--out", str(tmp_path / "in")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    fleet = random(Spec(operators=12, topologies=30))
    for name, made in (
        ("topologies", topologies_table(fleet, 0, 30)),
        ("transformations", transformations_table(fleet, 0, fleet.units)),
    ):
        stored = pa.table(DeltaTable(tmp_path / "in" / name).scan(made.column_names))
        assert stored.to_pylist() == made.to_pylist()


def test_a_fleet_of_over_a_million_topologies_has_no_name_twice():
    made = topologies_table(layered(Spec(operators=3, topologies=2_000_000)), 999_999, 1_000_001)
    assert made["name"].to_pylist() == ["layered-0-999999", "layered-0-1000000"]


def test_another_seed_gives_other_topologies():
    def shape_only(seed: int) -> str:
        return lines(layered(Spec(operators=40, seed=seed))).partition("transformations")[2]

    assert shape_only(1) != shape_only(2)


def test_random_fleets_have_every_kind_and_option():
    found = rows(random(Spec(operators=12, topologies=400, seed=1, with_refusals=True)))
    assert set(found["kind"]) == {
        "source", "legacy_source", "one_input", "async", "two_input", "multi_input", "sink",
        "union", "partition", "side_output",
    }  # fmt: skip
    unset = {column.name for column in found if column.null_count() == len(column)}
    assert unset == {"names", "min_resources", "preferred_resources", "sink_topology", "details"}
    assert 10 <= len(found.filter(~pl.col("kind").is_in(VIRTUAL))) / 400 <= 14


def test_of_what_is_drawn_nothing_is_refused_unless_asked_for():
    drawn = [fleet_tables(random(Spec(12, 1_500, 1, with_refusals=refused))) for refused in (False, True)]
    assert plan_in_process(drawn[0], PlanOptions(Layer.EXECUTION_GRAPH)).rejected == 0
    assert plan_in_process(drawn[1], PlanOptions(Layer.EXECUTION_GRAPH)).rejected > 40


@pytest.mark.slow
@pytest.mark.parametrize("topologies", [1, 5])
def test_one_large_random_topology_is_made_in_chunks(topologies: int):
    found = rows(random(Spec(operators=20_000, topologies=topologies, seed=2)))
    per = found.group_by("topology_id").agg(n=pl.len(), low=pl.col("id").min(), high=pl.col("id").max())
    assert len(per) == topologies
    assert all((low, high) == (1, n) for n, low, high in per.select("n", "low", "high").iter_rows())
    assert len(found) / topologies == pytest.approx(32_000, rel=0.5)


def test_layered_reads_the_layer_before_alone():
    found = {row["id"]: row for row in rows(layered(Spec(operators=2_000, width=20, seed=4))).to_dicts()}
    kinds = Counter(row["kind"] for row in found.values())
    physical = sum(n for kind, n in kinds.items() if kind != "partition")
    assert (physical, kinds["source"], kinds["sink"], kinds["partition"]) == (2_000, 20, 20, 490)
    order = {n: i for i, n in enumerate(sorted(n for n, r in found.items() if r["kind"] != "partition"))}

    def operators_read(row):
        through = (found[i] for i in row["inputs"])
        return [r["inputs"][0] if r["kind"] == "partition" else r["id"] for r in through]

    layers = {n: i // 20 for n, i in order.items()}
    assert all(layers[i] == layers[n] - 1 for n in order for i in operators_read(found[n]))
    assert all(order[operators_read(found[n])[0]] == i - 20 for n, i in order.items() if i >= 20)


def test_diamond_joins_all_of_its_branches():
    found = rows(diamond(Spec(operators=14, width=3)))
    assert found.select("id", "kind", "inputs").head(6).rows() == [
        (1, "source", []),
        (2, "one_input", [1]),
        (3, "one_input", [1]),
        (4, "one_input", [1]),
        (5, "multi_input", [2, 3, 4]),
        (6, "one_input", [5]),
    ]
    assert len(found) == 14


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"operators": 1}, "operators must be 2 to .*, got 1"),
        ({"operators": 10, "topologies": 0}, "topologies must be 1 to .*, got 0"),
        ({"operators": 10, "share_of_uids": 1.5}, "share_of_uids must be 0 to 1, got 1.5"),
        ({"operators": 10, "parallelism": 0}, "parallelism must be 1 to 32768, got 0"),
    ],
)
def test_parameters_out_of_range_are_named(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        Spec(**parameters)


def test_giants_are_planned_in_both_modes_and_have_every_kind():
    fleet = [giant(Spec(operators=700, seed=seed, width=9, share_of_uids=0.5)) for seed in (0, 1)]
    topologies = [orjson.loads(lines(one)) for one in fleet]
    planned = plan_in_process(topologies)
    assert (planned.planned, planned.tables["rejected"].to_pylist()) == (2, [])
    kinds = {row["kind"] for topology in topologies for row in topology["transformations"]}
    caches = {"cache", "cache_read"}
    assert kinds == set(map(str, Kind)) - {"select", *EXPANDED_KINDS} - caches  # no select since Flink 1.12
    types = set(planned.tables["intermediate_data_sets"]["result_partition_type"].to_pylist())
    assert types == {"BLOCKING", "PIPELINED_BOUNDED"}
    widest = Counter(
        zip(
            *(planned.tables["job_edges"][name].to_pylist() for name in ("topology_id", "target_vertex")),
            strict=True,
        )
    )
    assert widest.most_common(1)[0][1] > 20
    assert len(planned.tables["co_location_groups"]) > 20
