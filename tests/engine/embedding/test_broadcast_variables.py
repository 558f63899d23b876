"""Spark's broadcast variables in functions of streams."""

from typing import Any

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment


def test_functions_of_every_vertex_read_broadcast_variables(spark: Any) -> None:
    """Two vertices with a variable each; what was pickled before, and is not run, takes none of them away."""
    names, factor = spark.sparkContext.broadcast({0: "even", 1: "odd"}), spark.sparkContext.broadcast(10)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    tens = env.from_dataframe(spark.range(4)).map(lambda row: row.id * factor.value, Types.LONG())
    named = tens.key_by(lambda n: n % 20, Types.LONG()).map(
        lambda n: names.value[n // 10 % 2] + str(n), Types.STRING()
    )
    tens.map(lambda n: names.value[n], Types.STRING())
    other = tens.to_dataframe()
    expected = ["even0", "even20", "odd10", "odd30"]
    for _ in range(2):
        assert sorted(row.value for row in named.to_dataframe().collect()) == expected
    assert sorted(row.value for row in other.collect()) == [0, 10, 20, 30]
    with named.execute_and_collect() as executed:
        assert sorted(executed) == expected
