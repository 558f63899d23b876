"""What a user does with Penstock inside a Spark job, in whatever session it is; prints what came as JSON.

python pipeline.py plain | connect URL | cluster URL [PART…]
"""

import json
import os
import re
import sys
import tempfile
from contextlib import suppress
from typing import Any
from unittest.mock import patch

from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.engine.planning import plan_on_spark
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.pyflink.common import Row, Types
from penstock.engine.pyflink.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.operators.state.interfaces import ValueStateDescriptor
from tests.engine.embedding.spark_samples import PASSED_ONLY, SAMPLES
from tests.plans.topology.builders import simple

CALLS = tempfile.mkdtemp()


def session(kind: str, url: str) -> Any:
    builder = SparkSession.builder
    if kind == "connect":
        return builder.remote(url).getOrCreate()
    return (
        builder.master(url)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.cores.max", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.shuffle.partitions", "200" if kind == "plain" else "8")
        .getOrCreate()
    )


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        total = (self.sum.value() or 0) + value.n
        self.sum.update(total)
        yield value.user, value.n, total, ctx.timestamp()


class Split(ProcessFunction):
    """Odd numbers are late. Each call leaves a letter in a file."""

    def __init__(self, late: OutputTag) -> None:
        self.late = late

    def process_element(self, value: Any, ctx: Any) -> Any:
        with open(os.path.join(CALLS, str(os.getpid())), "a", encoding="ascii") as calls:
            calls.write("x")
        if value.n % 2:
            yield self.late, value
        else:
            yield value


class Counted(MapFunction):
    def open(self, runtime_context: Any) -> None:
        group = runtime_context.get_metrics_group()
        self.seen, self.sizes = group.counter("seen"), group.distribution("sizes")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        self.sizes.update(value.n)
        return value.n


def env(parallelism: int = 2, mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING) -> Any:
    made = StreamExecutionEnvironment.get_execution_environment()
    made.set_parallelism(parallelism)
    made.set_runtime_mode(mode)
    return made


def in_order(df: Any) -> list[str]:
    """Rows as text that Spark makes, so that no Python type is in between."""
    numbered = df.toDF(*(f"c{at}" for at in range(len(df.columns))))
    texts = []
    for name, kind in zip(numbered.columns, df.schema, strict=True):
        simple_name = kind.dataType.simpleString()
        shown = (
            F.hex(name) if simple_name == "binary" else F.to_json(name) if "variant" in simple_name else None
        )
        texts.append(F.coalesce((F.col(name).cast("string") if shown is None else shown), F.lit("null")))
    return sorted(row[0] for row in numbered.select(F.concat_ws("|", *texts)).collect())


def types(spark: Any) -> dict[str, Any]:
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    every = {name: sample.expression for name, sample in SAMPLES.items()} | PASSED_ONLY
    df = spark.range(3).selectExpr("id", *(f"{text} as `{name}`" for name, text in every.items()))
    half = spark.range(3).selectExpr(
        "id",
        *(
            f"if(id = 1, null, {text}) as `{name}`"
            for name, text in every.items()
            if name not in ("time", "void")
        ),
    )
    touched = df.select("id", *(f"`{name}`" for name in SAMPLES))
    found: dict[str, Any] = {}
    for name, given in (("given", df), ("with nulls", half)):
        out = env().from_dataframe(given).to_dataframe()
        found[name] = [out.schema == _with_nullable_intervals(given.schema), in_order(out) == in_order(given)]
    for name, out in (
        ("filter", env().from_dataframe(touched).filter(lambda row: row.id >= 0)),
        ("batches", env().from_dataframe(touched).map_batches(lambda batch: batch)),
    ):
        rows = out.to_dataframe()
        found[name] = [rows.schema == touched.schema, in_order(rows) == in_order(touched)]
    row = env().from_dataframe(touched).map(repr, Types.STRING()).to_dataframe().collect()[0][0]
    found["values"] = [name for name, sample in SAMPLES.items() if repr(sample.value) not in row]
    return found


def _with_nullable_intervals(schema: Any) -> Any:
    """What comes back of a text may be null to Spark, which is how calendar intervals travel."""
    for field in schema:
        field.nullable = field.nullable or field.dataType.simpleString() == "interval"
    return schema


def names(spark: Any) -> dict[str, Any]:
    frames = {
        "value of a struct": spark.sql("select from_json('{\"a\":1}', 'a int') as value"),
        "value": spark.sql("select 'x' as value"),
        "value not null": spark.range(3).withColumnRenamed("id", "value"),
        "others": spark.range(2).selectExpr(
            "id as `a.b`", "1 as ```x```", "2 as A", "3 as a", "4 as ` `", "5 as edge"
        ),
        "twice": spark.range(2).selectExpr("id", "id + 1 as id"),
        "none": spark.range(3).select(),
        "no rows": spark.range(3).limit(0),
    }
    found = {}
    for name, df in frames.items():
        out = env().from_dataframe(df).filter(lambda row: row != "y").to_dataframe()
        found[name] = [
            out.schema == df.schema,
            in_order(out) == in_order(df) if df.columns else out.count() == 3,
        ]
    keyed = env().from_dataframe(frames["no rows"]).key_by("id").reduce(lambda a, b: a).to_dataframe()
    found["no rows keyed"] = [keyed.columns == ["id"], keyed.count() == 0]
    return found


def streams(spark: Any) -> dict[str, Any]:
    df = spark.range(40).selectExpr(
        "if(id % 3 = 0, 'a', 'b') as user", "cast(id as int) as n", "timestamp_seconds((id * 7) % 40) as ts"
    )
    kind = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG(), Types.LONG()])
    sums = []
    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        stream = env(mode=mode).from_dataframe(
            df.repartition(4), event_time="Ts", watermark="10 seconds", key="USER"
        )
        out = stream.process(RunningSum(), kind).to_dataframe()
        sums.append(sorted(map(list, out.collect())))
    expected, totals = [], {"a": 0, "b": 0}
    for row in sorted(df.collect(), key=lambda row: row.ts):
        totals[row.user] += row.n
        expected.append([row.user, row.n, totals[row.user], int(row.ts.timestamp() * 1000)])
    found: dict[str, Any] = {"order": [one == sorted(expected) for one in sums]}

    made = env()
    given = made.from_dataframe(df)
    late = OutputTag("late", given.get_type())
    split = given.process(Split(late), given.get_type())
    with made.to_dataframes(late=split.get_side_output(late), main=split) as results:
        found["late and main"] = [results.late.count(), results["main"].count(), results.main.count()]
        found["schemas"] = [one.schema == df.schema for one in results.values()]
    calls = sum(os.path.getsize(os.path.join(CALLS, name)) for name in os.listdir(CALLS))
    found["calls"] = calls
    transformed = df.transform(
        penstock.transform,
        lambda stream: stream.reduce(lambda a, b: Row(user=a.user, n=a.n + b.n, ts=b.ts)),
        key="user",
        mode="batch",
    )
    found["transform"] = sorted([row.user, row.n] for row in transformed.collect())
    nested = penstock.transform(
        df.selectExpr("n", "struct(user, ts) as meta").repartition(3),
        lambda stream: stream.reduce(lambda a, b: Row(n=(a.n * 2 + b.n) % 1009, meta=b.meta)),
        event_time="meta.TS",
        key=["meta.user"],
        mode="batch",
    )
    digits = {"a": 0, "b": 0}
    for row in sorted(df.collect(), key=lambda row: row.ts):
        digits[row.user] = (digits[row.user] * 2 + row.n) % 1009
    found["nested"] = sorted([row.meta.user, row.n] for row in nested.collect()) == sorted(
        [user, number] for user, number in digits.items()
    )
    df.sparkSession.conf.set("spark.sql.caseSensitive", "true")
    for wrong in ({"key": "USER"}, {"event_time": "Ts"}):
        with suppress(ValueError):
            found[f"in this case {wrong}"] = env().from_dataframe(df, **wrong)
    df.sparkSession.conf.unset("spark.sql.caseSensitive")
    with env().from_dataframe(df).map(lambda row: row.n, Types.INT()).execute_and_collect() as records:
        found["executed"] = sum(records)
    counted = env()
    counted.from_dataframe(df).map(Counted(), Types.INT()).filter(lambda n: n < 0).print()
    found["metrics"] = counted.execute().get_all_accumulator_results()
    found["observed"] = observed(df)
    try:
        env().from_dataframe(df).map(lambda row: 1 // row.n, Types.INT()).to_dataframe().collect()
    except PySparkException as error:
        said = str(error)
        found["error"] = [
            one in said
            for one in (
                "pipeline.py",
                "ZeroDivisionError",
                "operator: 'Map'",
                "record: Row(user='a', n=0",
                "run_task.py",
            )
        ]
        found["first frame"] = re.findall('File "[^"]*?([^/"]*)", line', said)[:1]
    found["cannot be sent"] = errors_that_spark_cannot_send(df)
    return found


def errors_that_spark_cannot_send(df: Any) -> list[Any]:
    """What is said of messages that UTF-8 does not have, by both ways of running, and of the session then."""

    def fails(row: Any) -> Any:
        raise ValueError("a\ud800b\x00")

    said = []
    stream = env().from_dataframe(df).map(fails, Types.INT()).name("Digest")
    try:
        stream.to_dataframe().collect()
    except PySparkException as error:
        said.append(str(error))
    executed = env()
    executed.from_dataframe(df).map(fails, Types.INT()).name("Digest").print()
    try:
        executed.execute()
    except penstock.PenstockError as error:
        said.append(str(error))
    parts = ("ValueError: a\\ud800b\\x00", "Digest", "fails")
    return [[part in text for part in parts] for text in said] + [df.count()]


def observed(df: Any) -> list[Any]:
    """Metrics as observations: of a query with a shuffle, of several results, of one that stops early."""
    once, together, early = Observation("once"), Observation(), Observation()
    numbers = env().from_dataframe(df).map(Counted(), Types.INT())
    summed = numbers.key_by(lambda n: n % 2).map(lambda n: n, Types.INT()).to_dataframe(observe=once)
    found: list[Any] = [summed.count(), once.get, summed.count(), once.get["seen"]]
    made = env()
    numbers = made.from_dataframe(df).map(Counted(), Types.INT())
    odd = numbers.filter(lambda n: n % 2 == 1)
    with made.to_dataframes(observe=together, odd=odd, every=numbers) as results:
        found += [results.odd.count(), together.get["sizes"]["max"], results.every.count()]
    unread = env(1).from_dataframe(df).map(Counted(), Types.INT()).to_dataframe(observe=early)
    return [*found, len(unread.limit(1).collect()), early.get["seen"] > 0, unread.columns]


def in_blocks(spark: Any) -> list[Any]:
    """A topology that counts as a giant here: whether its plan is the plan of this process."""
    rows = [(1, "source", "s", [], "u1"), (2, "union", None, [1, 1], None)]
    rows += [(n, "one_input", f"m{n}", [n - 1 if n % 9 else 2], f"u{n}") for n in range(3, 300)]
    of_row = "struct<id int, kind string, name string, inputs array<int>, uid string>"
    df = spark.createDataFrame(
        [("giant", 2, rows)], f"name string, parallelism int, transformations array<{of_row}>"
    )
    with patch.object(plan_on_spark, "OF_GIANTS", Size(60, 2**40)):
        planned = penstock.plan(df, planner="blocks")
    here = penstock.plan(df, planner="process")
    tables = [
        name for name in planned.tables if in_order(planned.tables[name]) != in_order(here.tables[name])
    ]
    planned.release()
    return [planned.planned, planned.source.partition(":")[0], tables]


def plans(spark: Any) -> dict[str, Any]:
    given = [simple(f"t{n}", parallelism=2) for n in range(5)]
    rows = [
        (
            one["name"],
            f"team{n % 2}",
            [(t["id"], t["kind"], t["name"], t.get("inputs", [])) for t in one["transformations"]],
        )
        for n, one in enumerate(given)
    ]
    columns = "name string, team string, "
    columns += "transformations array<struct<id int, kind string, name string, inputs array<int>>>"
    df = spark.createDataFrame(rows, columns)
    found: dict[str, Any] = {}
    try:
        penstock.plan(df)
    except penstock.SchemaError as error:
        found["one column more"] = str(error).splitlines()[0]
    wide = df.selectExpr("*", "1 as `prio.x`", "2 as id")
    planned = penstock.plan(wide, ignore=["team", "prio.x", "id"])
    found["beside"] = planned.nodes("stream_graph").columns[:5]
    found["planned"] = [planned.planned, planned.rejected, planned.source]
    teams = planned.nodes("job_graph").groupBy("team").count().collect()
    found["teams"] = sorted([row.team, row["count"]] for row in teams)
    found["graph"] = sorted(planned.graph("stream_graph").to_networkx().degree(), key=str)[-1][1]
    with tempfile.TemporaryDirectory() as folder:
        found["version"] = planned.write(f"{folder}/store")
        read = penstock.read_plan(f"{folder}/store", spark=spark)
        found["same"] = in_order(read.tables["job_edges"]) == in_order(planned.tables["job_edges"])
    found["edges"] = [planned.edges(layer).count() for layer in ("topology", "job_graph", "execution_graph")]
    found["in blocks"] = in_blocks(spark)
    return found


if __name__ == "__main__":
    spark = session(sys.argv[1], sys.argv[2])
    parts = [
        part for part in (plans, streams, names, types) if part.__name__ in sys.argv[3:] or not sys.argv[3:]
    ]
    for part in parts:
        print(json.dumps({part.__name__: part(spark)}), flush=True)
    spark.stop()
