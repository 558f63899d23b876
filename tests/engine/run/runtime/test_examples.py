"""The examples that Penstock ships: they run, and Nexmark's results are Spark SQL's over the same events."""

import contextlib
import io
import runpy
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from benchmarks.write_nexmark import write_nexmark
from penstock import engine
from penstock.engine.library.run_script import run_script
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.pyflink_names import install, uninstall
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext
from penstock.operators.connectors.nexmark import NexmarkSource

EXAMPLES = Path(engine.__file__).parent / "examples"
EVENTS = 30_000


def printed(name, *arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run_script(
            str(EXAMPLES / name), list(arguments), RunContext(settings=EnvironmentSettings(parallelism=1))
        )
    return sorted(out.getvalue().splitlines())


def test_word_count(spark, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A rose is a rose.\nIs it?\n")
    assert printed("word_count.py", str(text)) == ["(a,2)", "(is,2)", "(it?,1)", "(rose,2)"]
    assert "(be,2)" in printed("word_count.py")


def test_log_counts(spark):
    counts = {}
    for line in printed("log_counts.py", "2000"):
        service, start, count = line.strip("()").split(",")
        counts[service, int(start)] = int(count)
    expected: dict[tuple[str, int], int] = {}
    for number in range(2000):
        if number % 7 == 4:
            key = ("cart", "login", "search", "stock")[number * 7 % 4], number * 250 // 60_000 * 60_000
            expected[key] = expected.get(key, 0) + 1
    assert counts == expected


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Views person, auction and bid over the generator's events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from penstock.operators.chain.operator import OperatorContext

    folder = tmp_path_factory.mktemp("nexmark")
    for kind in ("person", "auction", "bid"):
        source = NexmarkSource(kind, EVENTS).batches()
        chunks: list[Any] = [
            chunk for split in source.splits(1)[0] for chunk in source.read(split, OperatorContext())
        ]
        pq.write_table(pa.Table.from_batches([chunk.batch for chunk in chunks]), folder / f"{kind}.parquet")
        spark.read.parquet(str(folder / f"{kind}.parquet")).createOrReplaceTempView(kind)
    return spark


SLIDE = "explode(sequence(date_time div 2000 * 2000 - 8000, date_time div 2000 * 2000, 2000)) AS start"
SQL = {
    "q0": "SELECT auction, bidder, price FROM bid",
    "q1": "SELECT auction, bidder, CAST(floor(price * 0.908D) AS BIGINT) FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": "SELECT name, city, state, a.id FROM auction a JOIN person p ON a.seller = p.id "
    "WHERE category = 10 AND state IN ('OR', 'ID', 'CA')",
    "q4": "SELECT category, avg(best) FROM (SELECT a.id, category, max(price) AS best FROM auction a "
    "JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires "
    "GROUP BY a.id, category) GROUP BY category",
    "q5": f"WITH counted AS (SELECT start + 10000 AS end, auction, count(*) AS number FROM "
    f"(SELECT auction, {SLIDE} FROM bid) GROUP BY start, auction) "
    "SELECT end, auction, number FROM (SELECT *, max(number) OVER (PARTITION BY end) AS most FROM counted) "
    "WHERE number = most",
    "q7": "SELECT end, auction, bidder, price FROM (SELECT date_time div 10000 * 10000 + 10000 AS end, "
    "auction, bidder, price, max(price) OVER (PARTITION BY date_time div 10000) AS highest FROM bid) "
    "WHERE price = highest",
    "q8": "SELECT DISTINCT p.id, name, p.date_time div 10000 * 10000 FROM person p JOIN auction a "
    "ON p.id = a.seller AND p.date_time div 10000 = a.date_time div 10000",
}


@pytest.mark.parametrize(("query", "parallelism"), list(zip(SQL, cycle([3, 1]), strict=False)))
def test_nexmark_equals_spark_sql(tables, query, parallelism):
    install()
    try:
        script = runpy.run_path(str(EXAMPLES / "nexmark.py"))
    finally:
        uninstall()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    with script["QUERIES"][query](env, EVENTS).execute_and_collect(query) as results:
        found = sorted(map(tuple, results))
    expected = sorted(map(tuple, tables.sql(SQL[query]).collect()))
    assert expected, "the query finds something"
    if query == "q4":
        assert found == [(category, pytest.approx(average)) for category, average in expected]
    else:
        assert found == expected


def test_nexmark_over_files(spark, tmp_path):
    write_nexmark(tmp_path / "events", 2000)
    out = tmp_path / "out"
    assert printed("nexmark.py", "q2", str(tmp_path / "events"), str(out)) == []
    found = [line for part in out.rglob("part-*") for line in part.read_text().splitlines()]
    assert sorted(found) == printed("nexmark.py", "q2", "2000") != []
