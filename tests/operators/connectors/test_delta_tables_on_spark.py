"""Delta tables that Spark made, written and read by Penstock; Spark is asked for the rows."""

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pytest

from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.commit_delta import DeltaSink
from tests.operators.connectors.run_connectors import write
from tests.operators.connectors.test_delta_tables import BOUNDS, ROWS, own_content

MAPPED = "'delta.columnMapping.mode' = 'name'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"

#: By kind: columns, properties, what follows the columns, and what is done to the table; `{t}` is the table.
WRITTEN = {
    "mapped": (
        "k bigint, w string",
        f"{MAPPED}, 'delta.checkpointInterval' = '1'",
        "partitioned by (w)",
        [
            "insert into {t} values (99, 'x')",
            "alter table {t} rename column k to id",
            "alter table {t} rename column w to v",
        ],
    ),
    "vectors": (
        "id bigint not null, v varchar(2)",
        "'delta.columnMapping.mode' = 'id', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableChangeDataFeed' = 'true', 'delta.checkpointPolicy' = 'v2', "
        "'delta.checkpointInterval' = '2'",
        "",
        [
            "insert into {t} select /*+ coalesce(1) */ id, 'x' from range(90, 100)",
            "delete from {t} where id < 99",
        ],
    ),
}

REFUSED = {
    "the CHECK constraint 'few'": (
        "id bigint, v string",
        "",
        "",
        ["alter table {t} add constraint few check (id < 5)"],
    ),
    "the generated column 'v'": (
        "id bigint, v string generated always as (concat('g', cast(id as string)))",
        "",
        "",
        [],
    ),
    "the identity column 'id'": ("id bigint generated always as identity, v string", "", "", []),
    "the table feature clustering": ("id bigint, v string", "", "cluster by (id)", []),
    "the table feature rowTracking": ("id bigint, v string", "'delta.enableRowTracking' = 'true'", "", []),
    "the table feature inCommitTimestamp": (
        "id bigint, v string",
        "'delta.enableInCommitTimestamps' = 'true'",
        "",
        [],
    ),
    "the table feature allowColumnDefaults": (
        "id bigint, v string default 'd'",
        "'delta.feature.allowColumnDefaults' = 'supported'",
        "",
        [],
    ),
    "the table feature typeWidening": ("id bigint, v string", "'delta.enableTypeWidening' = 'true'", "", []),
    "the table feature icebergCompatV2": (
        "id bigint, v string",
        f"{MAPPED}, 'delta.enableIcebergCompatV2' = 'true'",
        "",
        [],
    ),
}


SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="module")
def in_new_york(spark):
    """A session far from UTC, which reads the log of a table in one task."""
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def make(spark, folder, columns, properties, tail, statements):
    """The path of a table of Spark's."""
    table = f"delta.`{folder}`"
    properties = f"tblproperties ({properties})" if properties else ""
    spark.sql(f"create table {table} ({columns}) using delta {tail} {properties}")
    for statement in statements:
        spark.sql(statement.format(t=table))
    return str(folder)


def rows_of(spark, path):
    """The rows that Spark reads."""
    return sorted((tuple(row) for row in spark.read.format("delta").load(path).collect()), key=repr)


def test_tables_of_spark_are_written(in_new_york, tmp_path):
    spark = in_new_york
    for kind, arguments in WRITTEN.items():
        path = make(spark, tmp_path / kind, *arguments)
        partition_by = ["v"] if kind == "mapped" else []
        write(DeltaSink(path, ROWS, partition_by=partition_by), [[[Row(1, "a")]], [[Row(2, None)]]])
        assert rows_of(spark, path) == own_content(path) == [(1, "a"), (2, None), (99, "x")], kind
        write(DeltaSink(path, ROWS, "overwrite", partition_by=partition_by), [[[Row(3, "b"), Row(4, "c")]]])
        assert rows_of(spark, path) == own_content(path) == [(3, "b"), (4, "c")], kind
    changes = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 4)
    changed = changes.load(str(tmp_path / "vectors")).where("_commit_version = 4")
    assert sorted((row["_change_type"], row["id"]) for row in changed.collect()) == [
        ("delete", 1),
        ("delete", 2),
        ("delete", 99),
        ("insert", 3),
        ("insert", 4),
    ]


def test_tables_of_spark_that_the_sink_does_not_know_are_refused_before_the_job(in_new_york, tmp_path):
    for number, (reason, arguments) in enumerate(REFUSED.items()):
        path = make(in_new_york, tmp_path / f"{number}", *arguments)
        for mode in ("append", "overwrite"):
            with pytest.raises(ValueError, match=reason):
                DeltaSink(path, ROWS, mode).start()


def test_spark_reads_each_type_at_its_bounds(in_new_york, tmp_path):
    with_nan = {
        kind: [*bounds, *([math.nan] if kind in ("float", "double") else [])]
        for kind, (_, bounds) in BOUNDS.items()
    }
    rows = [Row(number, *values) for number, values in enumerate(zip_longest(*with_nan.values(), [None]))]
    types = [type_info for type_info, _ in BOUNDS.values()]
    typed = Types.ROW_NAMED(["id", *BOUNDS, "nothing"], [Types.INT(), *types, Types.INT()])
    for partition_by in ((), (*BOUNDS, "nothing")):
        path = str(tmp_path / f"{len(partition_by)} columns")
        write(DeltaSink(path, typed, partition_by=partition_by), [[rows]], typed)
        texts = [
            # seconds since 1970 rather than what Python makes of them in a zone
            f"cast({'unix_micros(instant)' if kind == 'instant' else kind} as string) {kind}"
            for kind in BOUNDS
        ]
        read = in_new_york.read.format("delta").load(path).selectExpr("id", *texts).orderBy("id").collect()
        assert [row["id"] for row in read] == list(range(len(rows)))
        for kind, values in with_nan.items():
            found = [row[kind] if row[kind] is None else text_as(kind, row[kind]) for row in read]
            assert list(map(comparable, found[: len(values)])) == list(map(comparable, values)), kind
            assert found[len(values) :] == [None] * (len(rows) - len(values))


def comparable(value):
    """NaN equals itself, and -0.0 differs from 0.0."""
    return repr(value) if isinstance(value, float) else value


def text_as(kind, text):
    """A value of Spark's, from its text."""
    readers: dict[str, Callable[[str], Any]] = {
        "float": float,
        "double": float,
        "boolean": lambda text: text == "true",
        "date": datetime.date.fromisoformat,
        "timestamp": datetime.datetime.fromisoformat,
        "text": str,
        "decimal": Decimal,
        "instant": lambda text: Instant(*divmod(int(text) * 1000, 10**9)),
    }
    return readers.get(kind, int)(text)


def test_tables_that_spark_changed_are_read(in_new_york, tmp_path):
    spark = in_new_york
    old, new = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
    path = make(
        spark,
        tmp_path / "times",
        "id int, t timestamp, s struct<t: timestamp>, l array<timestamp>, n timestamp_ntz",
        "",
        "partitioned by (n)",
        [
            "insert into {t} select id, t, struct(t), array(t, null), n from values "
            f"(0, timestamp'{old} UTC', timestamp_ntz'{old}'), "
            f"(1, timestamp'{new} UTC', timestamp_ntz'{new}') "
            "times(id, t, n)"
        ],
    )
    least, most = Instant(-62135596800, 0), Instant(253402300799, 999999000)
    naive = [datetime.datetime.fromisoformat(at) for at in (old, new)]
    assert own_content(path) == [
        (0, least, (least,), [least, None], naive[0]),
        (1, most, (most,), [most, None], naive[1]),
    ]

    path = make(
        spark,
        tmp_path / "grown",
        "id int, s struct<q: int>, l array<struct<q: int>>, m map<string, struct<q: int>>",
        "'delta.enableTypeWidening' = 'true'",
        "",
        [
            "insert into {t} values (1, struct(1), array(struct(1), null), map('k', struct(1))), "
            "(2, null, null, null)",
            "alter table {t} add columns (s.r string, l.element.r int, m.value.r int)",
            "alter table {t} alter column s.q type bigint",
            "insert into {t} values "
            "(3, struct(10000000000, 'x'), array(struct(1, 5)), map('k', struct(1, 5)))",
        ],
    )
    assert own_content(path) == [
        (1, (1, None), [(1, None), None], {"k": (1, None)}),
        (2, None, None, None),
        (3, (10**10, "x"), [(1, 5)], {"k": (1, 5)}),
    ]

    path = make(
        spark,
        tmp_path / "mapped and cut",
        "id int, s struct<a: int, b: string>, p string",
        f"{MAPPED}, {VECTORS}",
        "partitioned by (p)",
        [
            "insert into {t} select /*+ coalesce(1) */ id, struct(id, 'x'), concat('a b%', id % 2) "
            "from range(20)",
            "delete from {t} where id % 3 = 0",
            "alter table {t} rename column s.a to c",
            "alter table {t} drop column s.b",
            "alter table {t} rename column p to q",
        ],
    )
    expected = sorted(((n, (n,), f"a b%{n % 2}") for n in range(20) if n % 3), key=repr)
    assert own_content(path) == expected
    spark.sql(f"create table delta.`{path} clone` shallow clone delta.`{path}`")
    spark.sql(f"delete from delta.`{path} clone` where id = 1")
    spark.sql(f"insert into delta.`{path} clone` values (100, struct(5), null)")
    kept = [row for row in expected if row[0] != 1]
    assert own_content(f"{path} clone") == sorted([*kept, (100, (5,), None)], key=repr)
