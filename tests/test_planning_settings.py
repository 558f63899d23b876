"""How many partitions the passes have."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.planning.planning_settings import MOST_PARTITIONS, ROWS_PER_PARTITION, partitions_for


@pytest.mark.parametrize(
    ("cores", "rows", "partitions"),
    [
        (2, 0, 1),
        (2, 10_000, 1),
        (2, 10_001, 4),
        (2, 4 * ROWS_PER_PARTITION, 4),
        (2, 4 * ROWS_PER_PARTITION + 1, 6),
        (16, 50 * ROWS_PER_PARTITION, 64),
        (1, 10**12, MOST_PARTITIONS),
    ],
)
def test_cores_take_whole_rounds_of_partitions(cores: int, rows: int, partitions: int):
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores))
    assert partitions_for(spark, rows) == partitions
