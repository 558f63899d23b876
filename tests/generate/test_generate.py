"""Generated topologies: the same for a seed on any cluster, valid, of the size and shape asked for."""

from collections import Counter

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.errors import ConfigurationError
from plans.generate.diamond import diamond
from plans.generate.layered import layered
from plans.generate.random import random
from plans.generate.shapes import SHAPES, Shape
from plans.generate.spec import Spec
from plans.generate.to_topology_lines import to_topology_lines
from plans.joins.spark_schemas import conform
from plans.topology.validate_topology import validate_topology
from plans.vocabulary import VIRTUAL_KINDS

SPECS = {shape.name: Spec(operators=40, topologies=12, seed=3, share_of_uids=0.5) for shape in SHAPES}
VIRTUAL = sorted(map(str, VIRTUAL_KINDS))


def lines(tables: tuple[DataFrame, DataFrame]) -> dict[str, bytes]:
    return {r["name"]: r["line"].encode() for r in to_topology_lines(*tables).collect()}


@pytest.fixture(scope="module")
def fleets(spark: SparkSession) -> dict[str, dict[str, bytes]]:
    return {shape.name: lines(shape.generate(spark, SPECS[shape.name])) for shape in SHAPES}


@pytest.mark.parametrize("shape", [shape.name for shape in SHAPES])
def test_every_topology_is_valid_input(fleets, shape):
    fleet = [orjson.loads(line) for line in fleets[shape].values()]
    assert len(fleet) == 12
    assert [error for topology in fleet for error in validate_topology(topology)] == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_seed_gives_the_same_topologies_on_any_number_of_cores(spark, fleets, shape: Shape, monkeypatch):
    whole_range = spark.range
    monkeypatch.setattr(spark, "range", lambda count: whole_range(0, count, 1, 7))
    assert lines(shape.generate(spark, SPECS[shape.name])) == fleets[shape.name]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_tables_have_their_schema_and_keys(spark, shape: Shape):
    topologies, transformations = shape.generate(spark, SPECS[shape.name])
    conform(transformations, "transformations")
    named = conform(topologies, "topologies").where(F.col("topology_id") == F.xxhash64("name"))
    assert named.select("fingerprint").distinct().count() == 12
    assert transformations.select("topology_id", "id").distinct().count() == transformations.count()
    assert transformations.join(named, "topology_id", "left_anti").isEmpty()


def test_another_seed_gives_other_topologies(spark):
    def shapes_only(seed):
        found = lines(layered(spark, Spec(operators=40, seed=seed))).values()
        return [line.partition(b"transformations")[2] for line in found]

    assert shapes_only(1) != shapes_only(2)


def test_random_fleets_have_every_kind_and_option(spark):
    _, rows = random(spark, Spec(operators=12, topologies=400, seed=1))
    assert {r["kind"] for r in rows.select("kind").distinct().collect()} == {
        "source", "legacy_source", "one_input", "async", "two_input", "multi_input", "sink",
        "union", "partition", "side_output",
    }  # fmt: skip
    unset = [c for c in rows.columns if c not in ("names", "min_resources", "preferred_resources")]
    set_somewhere = rows.agg(*(F.count(c).alias(c) for c in unset)).collect()[0]
    assert [c for c in unset if not set_somewhere[c]] == []
    size = rows.where(~F.col("kind").isin(VIRTUAL)).count() / 400
    assert 10 <= size <= 14


@pytest.mark.parametrize("topologies", [1, 5])
def test_one_large_random_topology_is_made_in_chunks(spark, topologies):
    _, rows = random(spark, Spec(operators=20_000, topologies=topologies, seed=2))
    per = rows.groupBy("topology_id").agg(
        F.count("*").alias("n"), F.min("id").alias("low"), F.max("id").alias("high")
    )
    found = per.collect()
    assert len(found) == topologies
    assert all((r["low"], r["high"]) == (1, r["n"]) for r in found)
    assert sum(r["n"] for r in found) / topologies == pytest.approx(32_000, rel=0.5)


def test_layered_reads_the_layer_before_alone(spark):
    _, rows = layered(spark, Spec(operators=2_000, width=20, seed=4))
    found = {r["id"]: r for r in rows.collect()}
    kinds = Counter(r["kind"] for r in found.values())
    physical = sum(n for kind, n in kinds.items() if kind != "partition")
    assert (physical, kinds["source"], kinds["sink"], kinds["partition"]) == (2_000, 20, 20, 490)
    order = {n: i for i, n in enumerate(sorted(n for n, r in found.items() if r["kind"] != "partition"))}

    def operators_read(row):
        through = (found[i] for i in row["inputs"])
        return [r["inputs"][0] if r["kind"] == "partition" else r["id"] for r in through]

    layers = {n: i // 20 for n, i in order.items()}
    assert all(layers[i] == layers[n] - 1 for n in order for i in operators_read(found[n]))
    assert all(order[operators_read(found[n])[0]] == i - 20 for n, i in order.items() if i >= 20)


def test_diamond_joins_all_of_its_branches(spark):
    _, rows = diamond(spark, Spec(operators=14, width=3))
    assert [(r["id"], r["kind"], r["inputs"]) for r in rows.orderBy("id").limit(6).collect()] == [
        (1, "source", []),
        (2, "one_input", [1]),
        (3, "one_input", [1]),
        (4, "one_input", [1]),
        (5, "multi_input", [2, 3, 4]),
        (6, "one_input", [5]),
    ]
    assert rows.count() == 14


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"operators": 1}, "operators: found 1, allowed 2"),
        ({"operators": 10, "topologies": 0}, "topologies: found 0"),
        ({"operators": 10, "share_of_uids": 1.5}, "share_of_uids: found 1.5, allowed 0 to 1"),
        ({"operators": 10, "parallelism": 0}, "parallelism: found 0"),
    ],
)
def test_parameters_out_of_range_are_named(parameters, message):
    with pytest.raises(ConfigurationError, match=message):
        Spec(**parameters)
