"""Jobs on Spark against plain Python: operators, partitioners, chains fused and not, any parallelism."""

import itertools
from collections import Counter, defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.operators.functions.functions import (
    CoFlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.operators.state.interfaces import ValueStateDescriptor
from tests.engine.run.runtime.small_jobs import PAIR, PARALLELISMS, both, collected, numbers


@pytest.fixture
def env(spark):
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize(("parallelism", "chaining"), [(1, False), (5, True)])
def test_a_branching_chain_is_what_python_computes(env, parallelism, chaining):
    both(env, parallelism, chaining)
    odd = OutputTag("odd", Types.LONG())

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield value
            if value % 2:
                yield odd, value

    main = numbers(env, 500).map(lambda v: v * 3, Types.LONG()).process(Split(), Types.LONG())
    tagged = main.get_side_output(odd).map(lambda v: -v, Types.LONG())
    kept = main.filter(lambda v: v % 5 == 0)
    twice = main.flat_map(lambda v: [v, v] if v % 7 == 0 else [], Types.LONG())
    found = collected(tagged.union(kept, twice))
    tripled = [value * 3 for value in range(500)]
    expected = [-v for v in tripled if v % 2] + [v for v in tripled if v % 5 == 0]
    expected += [v for v in tripled if v % 7 == 0 for _ in range(2)]
    assert Counter(found) == Counter(expected)


def test_a_limit_stops_an_endless_function_before_an_exchange(env, monkeypatch):
    monkeypatch.setattr("penstock.engine.run.runtime.run_on_spark._FIRST_BUDGET_BYTES", 1 << 16)
    both(env, 2, True)
    endless = env.from_collection([1, 2]).flat_map(lambda _: itertools.count(), Types.LONG())
    found = endless.key_by(lambda v: v % 3).map(lambda v: -v, Types.LONG()).execute_and_collect(limit=5)
    assert len(found) == 5
    assert all(value <= 0 for value in found)


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("parallelism", [5])
def test_every_partitioner_brings_every_record_once(env, parallelism, mode):
    both(env, parallelism, True, mode)
    base = numbers(env, 300).map(lambda v: v, Types.LONG()).set_parallelism(3)
    named = {
        "shuffle": base.shuffle(),
        "rebalance": base.rebalance(),
        "rescale": base.rescale(),
        "broadcast": base.broadcast(),
        "custom": base.partition_custom(lambda key, n: key % n, lambda value: value // 7),
        "hash": base.key_by(lambda value: value % 11, Types.LONG()),
    }

    class Where(MapFunction):
        def __init__(self, name):
            self.name = name

        def open(self, ctx):
            self.at = ctx.get_index_of_this_subtask()

        def map(self, value):
            return (self.name, value, self.at)

    triple = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
    streams = [stream.map(Where(name), triple) for name, stream in named.items()]
    found = defaultdict(list)
    for name, value, at in collected(streams[0].union(*streams[1:])):
        found[name].append((value, at))
    for name, records in found.items():
        times = parallelism if name == "broadcast" else 1
        assert sorted(value for value, _ in records) == sorted(list(range(300)) * times), name
    assert all(at == (value // 7) % parallelism for value, at in found["custom"])
    subtasks = {at for _, at in found["rebalance"]}
    assert subtasks == set(range(parallelism))
    homes = defaultdict(set)
    for value, at in found["hash"]:
        homes[value % 11].add(at)
    assert all(len(places) == 1 for places in homes.values())


@pytest.mark.parametrize(
    ("chaining", "mode"), [(True, RuntimeExecutionMode.STREAMING), (False, RuntimeExecutionMode.BATCH)]
)
def test_keyed_sums_with_a_skewed_key_nulls_and_empty_partitions(env, chaining, mode):
    both(env, 5, chaining, mode)
    values = [("hot" if n % 10 else None, n) for n in range(3000)] + [("rare", 1)]
    keyed = env.from_collection(values, PAIR).key_by(lambda pair: pair[0], Types.STRING())
    found = collected(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])))
    last: dict[str | None, int] = {}
    for key, total in found:
        last[key] = max(total, last.get(key, 0))
    expected: defaultdict[str | None, int] = defaultdict(int)
    for key, value in values:
        expected[key] += value
    assert last == expected
    assert len(found) == (3 if mode is RuntimeExecutionMode.BATCH else len(values))


@pytest.mark.parametrize("parallelism", [5])
def test_two_inputs_with_state(env, parallelism):
    both(env, parallelism, True)

    class Tell(CoFlatMapFunction):
        def flat_map1(self, value):
            yield ("n", value)

        def flat_map2(self, value):
            yield (value, -1)
            yield (value, -2)

    words = env.from_collection(["x", "y"], Types.STRING())
    found = collected(numbers(env, 20).connect(words).flat_map(Tell(), PAIR))
    expected = [("n", n) for n in range(20)] + [(word, n) for word in "xy" for n in (-1, -2)]
    assert Counter(found) == Counter(expected)


def test_rows_of_all_shapes_survive_an_exchange(env):
    both(env, 2, False)
    inner = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    kind = Types.TUPLE([inner, Types.LIST(inner), Types.MAP(Types.STRING(), Types.DOUBLE()), Types.STRING()])
    from penstock.engine.pyflink.common import Row

    values = [
        (Row(a=1, b="x"), [Row(a=2, b=None)], {"k": 1.5}, "é"),
        (Row(a=None, b=None), [], {}, ""),
        (None, None, None, None),
    ]
    found = collected(env.from_collection(values, kind).rebalance().map(lambda v: v, kind))
    assert sorted(map(repr, found)) == sorted(
        [
            repr((Row(a=1, b="x"), [Row(a=2, b=None)], {"k": 1.5}, "é")),
            repr((Row(a=None, b=None), [], {}, "")),
            repr((None, None, None, None)),
        ]
    )


def test_records_longer_than_a_block_and_results_longer_than_memory_for_them(env):
    both(env, 2, True)
    from penstock.engine.pyflink.common import Configuration

    configuration = Configuration()
    configuration.set_string("penstock.exchange.block-bytes", "1000")
    env.configure(configuration)
    texts = env.from_collection([str(n) * 5000 for n in range(10)], Types.STRING())
    found = collected(texts.flat_map(lambda t: [t] * 20, Types.STRING()).rebalance().map(len, Types.LONG()))
    assert Counter(found) == Counter({5000: 200})


def test_a_topology_in_the_middle_of_a_spark_job(env, spark):
    both(env, 3, True)
    given = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id % 7) AS name")
    mapped = (
        env.from_dataframe(given)
        .map_batches(lambda batch: batch.set_column(0, "id", pc.multiply(batch.column(0), 2)))
        .filter(pc.field("id") >= 100)
        .key_by(lambda row: row[1], Types.STRING())
        .map(lambda row: (row.name, row.id), PAIR)
    )
    frame = mapped.to_dataframe()
    assert frame.columns == ["f0", "f1"]
    found = Counter(tuple(row) for row in frame.where("f1 % 3 = 0").collect())
    expected = Counter((f"n{n % 7}", n * 2) for n in range(1000) if n * 2 >= 100 and n * 2 % 3 == 0)
    assert found == expected


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_vectorised_aggregates_equal_spark_sqls(env, spark, parallelism):
    both(env, parallelism, True)
    given = spark.range(0, 20_000, 1, 4).selectExpr(
        "id % 37 AS k", "CASE WHEN id % 11 = 0 THEN NULL ELSE id END AS v", "id / 3 AS d"
    )
    wanted = [("v", "sum"), ("v", "count"), ("v", "min"), ("v", "max"), ("d", "mean")]
    stream = env.from_dataframe(given).key_by("k").aggregate(wanted)
    expected = given.groupBy("k").agg({"v": "sum"}).count()
    frame = stream.to_dataframe()
    assert frame.columns == ["k", "v_sum", "v_count", "v_min", "v_max", "d_mean"]
    found = {row.k: row for row in frame.collect()}
    assert len(found) == expected == 37
    given.createOrReplaceTempView("given")
    for row in spark.sql(
        "SELECT k, sum(v) s, count(v) c, min(v) lo, max(v) hi, avg(d) m FROM given GROUP BY k"
    ).collect():
        mine = found[row.k]
        assert (mine.v_sum, mine.v_count, mine.v_min, mine.v_max) == (row.s, row.c, row.lo, row.hi)
        assert mine.d_mean == pytest.approx(row.m)


def test_a_vertex_read_twice_runs_once(env, tmp_path):
    both(env, 2, True)
    mark = tmp_path / "opened"

    class Opened(MapFunction):
        def open(self, ctx):
            with mark.open("a") as file:
                file.write(f"{ctx.get_index_of_this_subtask()}\n")

        def map(self, value):
            return value

    shared = numbers(env, 10).map(Opened(), Types.LONG())
    left = shared.rebalance().map(lambda v: v, Types.LONG())
    right = shared.key_by(lambda v: v, Types.LONG()).map(lambda v: -v, Types.LONG())
    found = collected(left.union(right))
    assert Counter(found) == Counter([*range(10), *(-n for n in range(10))])
    assert sorted(mark.read_text().split()) == ["0", "1"]


def test_two_million_records_through_rows_and_batches(env):
    both(env, 2, True)
    schema = pa.schema([("k", pa.int64()), ("value", pa.int64())])

    def keyed(batch):
        values = batch.column(0)
        keys = pc.subtract(values, pc.multiply(pc.divide(values, 1000), 1000))
        return pa.RecordBatch.from_arrays([keys, values], schema=schema)

    count = 2_000_000
    stream = numbers(env, count).map_batches(keyed, schema).key_by("k").aggregate([("value", "sum")])
    found = {row[0]: row[1] for row in collected(stream)}
    assert found == {k: sum(range(k, count, 1000)) for k in range(1000)}


def test_keyed_state_in_order_of_the_channel(env):
    both(env, 2, True)

    class Steps(KeyedProcessFunction):
        def open(self, ctx):
            self.last = ctx.get_state(ValueStateDescriptor("last", Types.LONG()))

        def process_element(self, value, ctx):
            before = self.last.value()
            self.last.update(value)
            if before is not None and before >= value:
                yield (before, value)

    source = numbers(env, 5000).set_parallelism(1)
    disorder = source.key_by(lambda v: v % 13, Types.LONG()).process(Steps())
    assert collected(disorder) == []
