"""Rows packed in blocks for walks, giants apart from other topologies, and checkpoints."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.engine.planning.plan_on_spark import read_topologies, without_topologies
from penstock.engine.planning.write_layers import checkpoints_in
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.packed_blocks import (
    BLOCK,
    ROWS,
    blocks_of,
    pack_blocks,
    together,
    unpack_blocks,
    unpacked,
)
from penstock.plans.frames.spark_schemas import compute, cut_lineage, free, keep
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.on_spark.topologies_of_lines import (
    GivenLines,
    TopologyTables,
    parsed_given_lines,
)
from tests.plans.planners.table_contents import exchanges_of

SCHEMA = pa.schema([(TOPOLOGY, pa.int64()), ("id", pa.int32()), ("name", pa.string()), ("tag", pa.string())])
ROWS_OF_TWO = [
    {TOPOLOGY: topology, "id": number, "name": f"n{number % 3}", "tag": None, BLOCK: number // 4}
    for topology in (7, 9)
    for number in range(11)
]


@pytest.mark.parametrize("rows_of_a_batch", [1, 3, 100])
def test_blocks_come_out_as_they_went_in(rows_of_a_batch):
    table = pa.Table.from_pylist(ROWS_OF_TWO, SCHEMA.append(pa.field(BLOCK, pa.int32())))
    batches = list(pack_blocks(0, lambda rows: rows)(iter(table.to_batches(rows_of_a_batch))))
    assert [batch.num_rows for batch in batches] == [1] * 6
    found = pa.Table.from_batches(unpack_blocks(SCHEMA)(iter(batches)))
    assert found.to_pylist() == table.drop_columns(BLOCK).to_pylist()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_blocks_lie_anywhere_in_a_batch(kind):
    table = pa.Table.from_pylist(ROWS_OF_TWO, SCHEMA.append(pa.field(BLOCK, pa.int32())))
    packed = pa.Table.from_batches(pack_blocks(0, lambda rows: rows)(iter(table.to_batches())))
    place = packed.schema.get_field_index(ROWS)
    (batch,) = packed.set_column(place, ROWS, packed[ROWS].cast(kind)).combine_chunks().to_batches()
    rows = table.drop_columns(BLOCK).to_pylist()
    for some, expected in (
        (batch, rows),
        (batch.slice(2), rows[8:]),
        (batch.slice(1, 3), rows[4:15]),
        (batch.slice(6), []),
    ):
        found = pa.Table.from_batches(unpack_blocks(SCHEMA)(iter([some])), SCHEMA)
        assert found.to_pylist() == expected


def test_a_walk_sees_numbers_in_place_of_texts_and_nothing_where_there_is_nothing():
    table = pa.Table.from_pylist(ROWS_OF_TWO, SCHEMA.append(pa.field(BLOCK, pa.int32())))
    packed = pack_blocks(0, lambda rows: rows)(iter(table.to_batches()))
    whole = together(unpacked(topology, rows) for batch in packed for topology, _, rows in blocks_of(batch))
    assert whole.column(TOPOLOGY).to_pylist() == table.column(TOPOLOGY).to_pylist()
    assert pa.types.is_dictionary(whole.schema.field("name").type)
    assert whole.schema.field("tag").type == pa.null()
    assert whole.column("name").to_pylist() == table.column("name").to_pylist()


TOPOLOGIES_BY_NAME = [
    {
        "name": f"chain of {length}",
        "transformations": [
            {"id": number, "kind": "one_input" if number > 1 else "source", "name": "n"}
            | ({"inputs": [number - 1]} if number > 1 else {})
            for number in range(1, length + 1)
        ],
    }
    for length in (1, 2, 30)
]


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> Iterator[TopologyTables]:
    given = [*TOPOLOGIES_BY_NAME, {"name": "wrong", "transformations": [{}]}]
    lines = read_topologies(spark, given)
    assert isinstance(lines, GivenLines)
    found = parsed_given_lines(lines)
    yield found
    for kept in found.persisted:
        kept.unpersist()


def names_of(found: TopologyTables) -> list[str]:
    return sorted(row["name"] for row in found.topologies.collect())


def test_topologies_beside_giants_keep_their_rows_and_the_rejected_ones(read):
    (giant,) = (row[TOPOLOGY] for row in read.topologies.filter(F.col("name") == "chain of 30").collect())
    others = without_topologies(read, [giant])
    assert isinstance(others, TopologyTables)
    assert names_of(others) == ["chain of 1", "chain of 2"]
    assert (others.transformations.count(), others.rejected.count(), others.inputs) == (3, 1, 3)


def test_a_checkpoint_keeps_its_partitioning_where_aliases_are_optimized_away(spark):
    said = F.col("id").alias("id", metadata={"comment": "as declared"})
    given = cut_lineage(spark.range(20).select(said))
    rows = given.select(said).repartition(3, "id")
    kept = cut_lineage(rows)
    assert exchanges_of(rows.localCheckpoint().groupBy("id").count()) == 1
    counted = kept.groupBy("id").count()
    assert exchanges_of(counted) == 0
    assert sorted(map(tuple, counted.collect())) == [(number, 1) for number in range(20)]
    free(kept)
    free(given)


def test_what_is_kept_is_computed_by_who_reads_it_first(spark):
    rows = keep(spark.range(5).repartition(2, "id"))
    assert not rows._jdf.logicalPlan().rdd().isCheckpointed()
    assert rows.count() == 5
    assert rows._jdf.logicalPlan().rdd().isCheckpointed()
    compute(rows)
    free(rows)


def test_a_checkpoint_dir_holds_tables_as_long_as_steps_read_them(spark, tmp_path):
    before = spark.sparkContext.getCheckpointDir()
    with checkpoints_in(spark, str(tmp_path)):
        kept = cut_lineage(spark.range(5))
        assert len(list(tmp_path.glob("*/rdd-*/part-*"))) == kept.rdd.getNumPartitions()
        assert kept.count() == 5
        free(kept)
        assert not list(tmp_path.glob("*/rdd-*"))
        cut_lineage(spark.range(5))
    assert not list(tmp_path.iterdir())
    assert spark.sparkContext.getCheckpointDir() == before


def test_a_checkpoint_dir_that_cannot_be_made_is_named(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigurationError, match=r"--checkpoint-dir: .*file"),
        checkpoints_in(spark, str(tmp_path / "file")),
    ):
        pass
