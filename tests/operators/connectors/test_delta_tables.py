"""Delta tables of every kind, without a JVM: written by their rules or refused by name, and read."""

import datetime
import json
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.commit_delta import DeltaSink, commit_delta
from penstock.operators.connectors.delta_files import _by_partition
from penstock.operators.connectors.delta_source import DeltaSource
from penstock.operators.connectors.file_source import parquet_source
from penstock.operators.connectors.sink import LostFilesError
from tests.operators.connectors.delta_tables import (
    ID_AND_TEXT,
    READER_FEATURES,
    add_commit,
    add_of,
    field,
    make_table,
    mapped,
    struct,
)
from tests.operators.connectors.run_connectors import read_batches, read_values, stage, write

ROWS = Types.ROW_NAMED(["id", "v"], [Types.LONG(), Types.STRING()])
TWO = [Row(1, "a"), Row(2, None)]


def content(path):
    """The rows that delta-rs reads."""
    rows = pa.RecordBatchReader.from_stream(DeltaTable(path).scan()).read_all().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def plain(value):
    """Rows within a value as tuples."""
    if isinstance(value, Row | list):
        return (tuple if isinstance(value, Row) else list)(map(plain, value))
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def own_content(path):
    """The rows that Penstock's source reads, as values and as batches."""
    source = DeltaSource(path)
    rows = [plain(row) for row in read_values(source, 2)]
    assert sum(batch.num_rows for batch in read_batches(source, 2)) == len(rows)
    return sorted(rows, key=repr)


def change_metadata(path, version, **changes):
    """A commit of somebody else that changes columns or properties."""
    first = json.loads(Path(path, "_delta_log", f"{0:020}.json").read_text().splitlines()[1])
    first["metaData"].update(changes)
    add_commit(path, version, first)


@pytest.mark.parametrize(
    "feature",
    [
        "allowColumnDefaults",
        "checkpointProtection",
        "clustering",
        "coordinatedCommits-preview",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "identityColumns",
        "inCommitTimestamp",
        "materializePartitionColumns",
        "ofNextYear",
        "rowTracking",
        "typeWidening",
        "vacuumProtocolCheck",
    ],
)
def test_a_feature_that_the_sink_does_not_know_is_refused_at_each_step(tmp_path, feature):
    path = make_table(tmp_path / "with", features=[feature])
    for mode in ("append", "overwrite"):
        with pytest.raises(ValueError, match=f"the table feature {feature}"):
            DeltaSink(path, ROWS, mode).start()
    later = make_table(tmp_path / "later")
    started = DeltaSink(later, ROWS).start()
    staged = started.prepare(stage(started, [[TWO]]))
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": [feature],
    }
    protocol["readerFeatures"] = sorted({feature} & READER_FEATURES)
    add_commit(later, 1, {"protocol": protocol})
    for step in (started.prepare, started.commit):
        with pytest.raises(ValueError, match=f"the table feature {feature}"):
            step(staged)
    assert DeltaTable(later).version() == 1
    assert len(staged) == len([name for name in os.listdir(later) if name.endswith(".parquet")])


TEXT = "__CHAR_VARCHAR_TYPE_STRING"
INSIDE = struct(field("a", "integer", nullable=False))
REFUSED: dict[str, dict[str, Any]] = {
    "the CHECK constraint 'few'": {"version": (1, 3), "properties": {"delta.constraints.few": "id < 5"}},
    "the CHECK constraint 'Few'": {"version": (1, 3), "properties": {"DELTA.Constraints.Few": "id < 5"}},
    "delta.columnMapping.mode=NAME": {
        "features": ["columnMapping"],
        "fields": [mapped("id", "long", 1), mapped("v", "string", 2)],
        "properties": {"delta.columnMapping.mode": "NAME"},
    },
    "delta.columnMapping.mode=name, which": {
        "version": (1, 2),
        "fields": [mapped("id", "long", 1), mapped("v", "string", 2)],
        "properties": {"delta.columnMapping.mode": "name"},
    },
    "names of column mapping without": {
        "version": (1, 2),
        "fields": [mapped("id", "long", 1), mapped("v", "string", 2)],
    },
    "the generated column 'v'": {
        "version": (1, 4),
        "fields": [
            field("id", "long"),
            field("v", "string", **{"delta.generationExpression": "concat('g', id)"}),
        ],
    },
    "the identity column 'id'": {
        "version": (1, 6),
        "fields": [
            field("id", "long", **{"delta.identity.start": 1, "delta.identity.step": 1}),
            field("v", "string"),
        ],
    },
    "the invariant of column 'id'": {
        "version": (1, 2),
        "fields": [
            field("id", "long", **{"delta.invariants": '{"expression":{"expression":"id > 3"}}'}),
            field("v", "string"),
        ],
    },
    "a NOT NULL, char or varchar within the column 'more'": {
        "version": (1, 2),
        "fields": [*ID_AND_TEXT, field("more", INSIDE)],
    },
    "an invariant within the column 'more'": {
        "version": (1, 2),
        "fields": [*ID_AND_TEXT, field("more", struct(field("a", "integer", **{"delta.invariants": "{}"})))],
    },
    "an array or map without nulls in the column 'more'": {
        "version": (1, 2),
        "fields": [
            *ID_AND_TEXT,
            field("more", {"type": "array", "elementType": "integer", "containsNull": False}),
        ],
    },
    "a char or varchar within the column 'more'": {
        "version": (1, 2),
        "fields": [
            *ID_AND_TEXT,
            field(
                "more",
                {"type": "array", "elementType": "string", "containsNull": True},
                **{TEXT: "array<varchar(2)>"},
            ),
        ],
    },
    "the variant column 'more'": {
        "features": ["variantType"],
        "fields": [*ID_AND_TEXT, field("more", "variant")],
    },
    "the columns .*more integer NOT NULL": {
        "version": (1, 2),
        "fields": [*ID_AND_TEXT, field("more", "integer", nullable=False)],
    },
    "the columns .*more integer": {
        "version": (1, 2),
        "fields": [*ID_AND_TEXT, field("more", "integer", CURRENT_DEFAULT="5")],
    },
}


@pytest.mark.parametrize("reason", REFUSED)
def test_rules_that_the_sink_does_not_know_are_refused_by_name(tmp_path, reason):
    path = make_table(tmp_path, **REFUSED[reason])
    for mode in ("append", "overwrite"):
        with pytest.raises(ValueError, match=reason):
            DeltaSink(path, ROWS, mode).start()
    assert os.listdir(path) == ["_delta_log"]


def test_all_reasons_are_named_at_once(tmp_path):
    path = make_table(
        tmp_path,
        features=["rowTracking", "domainMetadata", "checkConstraints"],
        properties={"delta.constraints.few": "id < 5", "delta.appendOnly": "true"},
    )
    with pytest.raises(
        ValueError, match=r"domainMetadata.*rowTracking.*'few'.*delta.appendOnly.*to_dataframe"
    ):
        DeltaSink(path, ROWS, "overwrite").start()


@pytest.mark.parametrize("name", ["delta.appendOnly", "Delta.APPENDONLY"])
def test_a_table_that_only_grows_takes_appends(tmp_path, name):
    path = make_table(tmp_path, version=(1, 2), properties={name: "True"})
    write(DeltaSink(path, ROWS), [[TWO]])
    with pytest.raises(ValueError, match=r"delta\.appendOnly"):
        DeltaSink(path, ROWS, "overwrite").start()
    assert content(path) == own_content(path) == [(1, "a"), (2, None)]


def test_not_null_and_lengths_are_kept(tmp_path):
    fields = [
        field("id", "long", nullable=False),
        {**field("v", "string"), "metadata": {TEXT: "varchar(2)"}},
        {**field("c", "string"), "metadata": {TEXT: "char(3)"}},
    ]
    typed = Types.ROW_NAMED(["id", "v", "c"], [Types.LONG(), Types.STRING(), Types.STRING()])
    path = make_table(tmp_path / "t", fields, version=(1, 2))
    kept = [Row(1, "ü☃", "x"), Row(2, "a    ", None), Row(3, None, "𝄞yz ")]
    write(DeltaSink(path, typed), [[kept]])
    assert content(path) == own_content(path) == [(1, "ü☃", "x  "), (2, "a ", None), (3, None, "𝄞yz")]
    for row, match in (
        (Row(None, "a", "b"), "'id' of the Delta table .* is NOT NULL, got a null"),
        (Row(4, "abc", "b"), r"'v' .* must have at most 2 characters \(varchar\(2\)\)"),
        (Row(4, "ab", "abcd"), r"'c' .* at most 3 characters \(char\(3\)\)"),
    ):
        with pytest.raises(ValueError, match=match):
            stage(DeltaSink(path, typed).start(), [[[row]]])
    assert len(content(path)) == 3
    parts = make_table(
        tmp_path / "p",
        [field("id", "long"), field("v", "string", nullable=False)],
        version=(1, 2),
        partition_by=["v"],
    )
    write(DeltaSink(parts, ROWS, partition_by=["v"]), [[[Row(1, " ")]]])
    for nothing in (None, ""):  # the log has no empty texts
        with pytest.raises(ValueError, match="is NOT NULL"):
            stage(DeltaSink(parts, ROWS, partition_by=["v"]).start(), [[[Row(1, nothing)]]])


INNER = struct(mapped("x", "integer", 5), mapped("y", "string", 6))
MAPPED = (mapped("id", "long", 1), mapped("v", "string", 2), mapped("s", INNER, 3))
NESTED = Types.ROW_NAMED(
    ["id", "v", "s"],
    [Types.LONG(), Types.STRING(), Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])],
)


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("partition_by", [(), ("v",)])
def test_column_mapping(tmp_path, mode, partition_by):
    path = make_table(
        tmp_path,
        MAPPED,
        features=["columnMapping"],
        properties={"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "6"},
        partition_by=partition_by,
    )
    sink = DeltaSink(path, NESTED, partition_by=partition_by)
    write(sink, [[[Row(1, "a b%", Row(7, "q")), Row(2, None, None)]]])
    for name in (name for name in os.listdir(path) if name.endswith(".parquet")):
        in_file = pq.ParquetFile(f"{path}/{name}").schema_arrow
        assert in_file.names == [
            one for one in ("col-1", "col-2", "col-3") if one != "col-2" or not partition_by
        ]
        assert in_file.field("col-3").metadata[b"PARQUET:field_id"] == b"3"
        assert [(one.name, one.metadata[b"PARQUET:field_id"]) for one in in_file.field("col-3").type] == [
            ("col-5", b"5"),
            ("col-6", b"6"),
        ]
    expected = [(1, "a b%", {"x": 7, "y": "q"}), (2, None, None)]
    assert content(path) == expected
    assert own_content(path) == [(1, "a b%", (7, "q")), (2, None, None)]
    write(DeltaSink(path, NESTED, "overwrite", partition_by=partition_by), [[[Row(3, "z", None)]]])
    assert content(path) == own_content(path) == [(3, "z", None)]
    # a rename changes the log, and no file
    renamed = [
        mapped("id", "long", 1),
        mapped("w", "string", 2),
        mapped("t", struct(mapped("b", "string", 6)), 3),
    ]
    change_metadata(
        path, 3, schemaString=json.dumps(struct(*renamed)), partitionColumns=["w"] * bool(partition_by)
    )
    with pytest.raises(ValueError, match=r"partitioned by|has the columns"):
        sink.start()
    assert DeltaSource(path).type_info.get_field_names() == ["id", "w", "t"]
    assert own_content(path) == [(3, "z", None)]


def test_a_column_that_was_dropped_and_made_again_is_another_one(tmp_path):
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "6"}
    path = make_table(tmp_path, MAPPED, ["columnMapping"], properties)
    write(DeltaSink(path, NESTED), [[[Row(1, "a", Row(7, "q"))]]])
    again = struct(mapped("x", "integer", 8), mapped("y", "string", 6))
    change_metadata(
        path,
        2,
        schemaString=json.dumps(struct(MAPPED[0], mapped("v", "string", 7), mapped("s", again, 3))),
        configuration=properties,
    )
    assert content(path) == [(1, None, {"x": None, "y": "q"})]
    assert own_content(path) == [(1, None, (None, "q"))]
    started = DeltaSink(path, NESTED).start()
    staged = started.prepare(stage(started, [[[Row(2, "b", Row(8, "r"))]]]))
    change_metadata(path, 3, schemaString=json.dumps(struct(*MAPPED)), configuration=properties)
    with pytest.raises(ValueError, match=r"v string \(col-2\).*v string \(col-7\)"):
        started.commit(staged)


def test_a_column_that_others_add_before_the_commit_is_null(tmp_path):
    path = make_table(tmp_path, version=(1, 2))
    started = DeltaSink(path, ROWS).start()
    staged = started.prepare(stage(started, [[TWO]]))
    change_metadata(path, 1, schemaString=json.dumps(struct(field("more", "integer"), *ID_AND_TEXT)))
    started.commit(staged)
    assert content(path) == own_content(path) == [(None, 1, "a"), (None, 2, None)]
    write(DeltaSink(path, ROWS, "overwrite"), [[[Row(5, "x")]]])
    assert content(path) == [(None, 5, "x")]
    for changed, match in (
        ([field("id", "long", nullable=False), field("v", "string")], "NOT NULL or the length of 'id'"),
        ([field("id", "string"), field("v", "string")], "has the columns"),
        ([*ID_AND_TEXT, field("more", "integer", nullable=False)], "has the columns"),
    ):
        started = DeltaSink(path, ROWS).start()
        staged = started.prepare(stage(started, [[TWO]]))
        version = DeltaTable(path).version() + 1
        change_metadata(path, version, schemaString=json.dumps(struct(*changed)))
        with pytest.raises(ValueError, match=match):
            started.commit(staged)
        change_metadata(path, version + 1)


def test_files_that_a_vacuum_takes_are_named(tmp_path):
    path = str(tmp_path)
    write(DeltaSink(path, ROWS), [[TWO]])
    started = DeltaSink(path, ROWS).start()
    staged = started.prepare(stage(started, [[TWO]]))
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(LostFilesError, match=r"1 of the 1 data files .* are missing"):
        started.commit(staged)
    assert content(path) == [(1, "a"), (2, None)]


MOMENT = datetime.datetime
BOUNDS: dict[str, tuple[Any, list[Any]]] = {
    "byte": (Types.BYTE(), [-128, 127]),
    "short": (Types.SHORT(), [-32768, 32767]),
    "int": (Types.INT(), [-(2**31), 2**31 - 1]),
    "long": (Types.LONG(), [-(2**63), 2**63 - 1]),
    "float": (Types.FLOAT(), [math.inf, -math.inf, 0.5, -0.0]),
    "double": (Types.DOUBLE(), [1e300, math.inf, -math.inf, 5e-324, 0.1]),
    "bigint": (Types.BIG_INT(), [10**38 - 1, -(10**38) + 1]),
    "decimal": (
        Types.BIG_DEC(),
        [Decimal(f"-{10**20 - 1}.{10**18 - 1}"), Decimal("0.000000000000000001"), Decimal(0)],
    ),
    "text": (
        Types.STRING(),
        ["a/b=c d%20e", "ü☃𝄞", "__HIVE_DEFAULT_PARTITION__", "\t\n\\\"'", "null", "x" * 300, " "],
    ),
    "boolean": (Types.BOOLEAN(), [True, False]),
    "date": (
        Types.SQL_DATE(),
        [datetime.date(1, 1, 1), datetime.date(1582, 10, 10), datetime.date(9999, 12, 31)],
    ),
    "timestamp": (
        Types.SQL_TIMESTAMP(),
        [MOMENT(1, 1, 1), MOMENT(999, 12, 31, 23, 59, 59, 999000), MOMENT(9999, 12, 31, 23, 59, 59, 999000)],
    ),
    "instant": (
        Types.INSTANT(),
        [Instant(-62135596800, 0), Instant(253402300799, 999999000), Instant(-1, 500000000)],
    ),
}


@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize("kind", BOUNDS)
def test_each_type_at_its_bounds(tmp_path, kind, partition_by):
    type_info, values = BOUNDS[kind]
    typed = Types.ROW_NAMED(["id", "p"], [Types.INT(), type_info])
    rows = [Row(number, value) for number, value in enumerate([*values, None])]
    write(DeltaSink(str(tmp_path), typed, partition_by=partition_by), [[rows]], typed)
    expected = {row[0]: row[1] for row in rows}
    assert dict(own_content(str(tmp_path))) == expected
    read = dict(content(str(tmp_path)))
    if kind == "instant":
        epoch = MOMENT(1970, 1, 1, tzinfo=datetime.UTC)
        read = {
            number: at and Instant(*divmod((at - epoch) // datetime.timedelta(microseconds=1) * 1000, 10**9))
            for number, at in read.items()
        }
    assert read == expected


def test_timestamps_of_a_zone_have_it_in_the_log(tmp_path):
    typed = Types.ROW_NAMED(["id", "p", "q"], [Types.INT(), Types.INSTANT(), Types.DOUBLE()])
    rows = [Row(1, Instant(1714557600, 500000000), math.nan), Row(2, Instant(0, 0), -math.inf)]
    write(DeltaSink(str(tmp_path), typed, partition_by=["p", "q"]), [[rows]], typed)
    log = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    partitions = [json.loads(line)["add"]["partitionValues"] for line in log if '"add"' in line]
    assert sorted(map(dict.values, partitions), key=list)[::-1] != []
    assert sorted((one["p"], one["q"]) for one in partitions) == [
        ("1970-01-01T00:00:00.000000Z", "-Infinity"),
        ("2024-05-01T10:00:00.500000Z", "NaN"),
    ]
    with pytest.raises(TypeError, match="cannot be partitioned by 'b'"):
        DeltaSink(
            str(tmp_path / "b"),
            Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())]),
            partition_by=["b"],
        )


def test_statistics_leave_nothing_out_that_spark_would_skip(tmp_path):
    typed = Types.ROW_NAMED(
        ["d", "a.b", "a"], [Types.DOUBLE(), Types.INT(), Types.ROW_NAMED(["b"], [Types.INT()])]
    )
    write(DeltaSink(str(tmp_path), typed), [[[Row(1.0, 5, Row(100)), Row(math.nan, 6, None)]]], typed)
    (line,) = [
        line
        for line in (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        if '"add"' in line
    ]
    stats = json.loads(json.loads(line)["add"]["stats"])
    # Parquet's largest number is not NaN, Spark's is
    assert (stats["minValues"], stats["maxValues"]) == ({"a.b": 5}, {"a.b": 6})
    assert stats["nullCount"] == {"d": 0, "a.b": 0}


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a\nb", "a\x7fb", "a\udce9b"])
def test_a_folder_that_deltalake_would_look_for_elsewhere_is_refused(tmp_path, name):
    uri = tmp_path.as_uri() + "/" + quote(name, errors="surrogateescape")
    for path in (str(tmp_path / name), *([uri] if name.isascii() else [])):
        for make in (DeltaSource, lambda path: DeltaSink(path, ROWS).start()):
            with pytest.raises(ValueError, match="must not contain % with two hexadecimal digits"):
                make(path)


def test_a_folder_by_its_uri(tmp_path):
    for name in ("a b", "=ü&+;", "...", "x%zz"):
        uri = tmp_path.as_uri() + "/" + quote(name)
        write(DeltaSink(uri, ROWS), [[TWO]])
        assert content(tmp_path / name) == own_content(uri) == [(1, "a"), (2, None)]


def test_names_of_column_mapping_count_only_with_a_mode(tmp_path):
    fields = [mapped("id", "long", 1), mapped("v", "string", 2)]
    path = make_table(tmp_path, fields, version=(1, 2), partition_by=["v"])
    pq.write_table(pa.table({"id": [1]}), f"{path}/a.parquet")
    add_commit(path, 1, add_of("a.parquet", os.path.getsize(f"{path}/a.parquet"), {"v": "x"}))
    assert content(path) == own_content(path) == [(1, "x")]
    declared = make_table(tmp_path / "mode", fields, properties={"delta.columnMapping.mode": "id"})
    with pytest.raises(ValueError, match=r"delta\.columnMapping\.mode=id, which is unknown or not declared"):
        DeltaSource(declared)


def test_a_log_that_deltalake_cannot_read(tmp_path):
    path = make_table(tmp_path, version=(1, 2))
    started = DeltaSink(path, ROWS).start()
    staged = stage(started, [[TWO]])
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["ofNextYear"], "writerFeatures": ["ofNextYear"]}
    add_commit(path, 1, {"protocol": {**protocol, **features}})
    calls = (
        lambda: DeltaSource(path),
        lambda: DeltaSink(path, ROWS).start(),
        lambda: started.prepare(staged),
        lambda: commit_delta(started._write, staged),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"^the Delta table .* cannot be read: .*'ofNextYear'.*$"):
            call()
    started.abort()
    assert os.listdir(path) == ["_delta_log"]
    later = DeltaSink(str(tmp_path / "later"), ROWS).start()
    staged = stage(later, [[TWO]])
    later.commit(staged)
    add_commit(later.path, 1, {"protocol": {**protocol, **features}})
    later.abort()
    assert len(os.listdir(later.path)) == 2, "its transaction is in the log"
    damaged = tmp_path / "damaged"
    add_commit(damaged, 0)
    (damaged / "_delta_log" / f"{0:020}.json").write_text("{")
    with pytest.raises(ValueError, match=r"^the Delta table .* cannot be read: .{,200}$"):
        DeltaSource(str(damaged))


def test_a_log_of_only_a_checkpoint_is_read_and_not_written(tmp_path):
    path = str(tmp_path)
    write(DeltaSink(path, ROWS), [[TWO]])
    started = DeltaSink(path, ROWS).start()
    staged = stage(started, [[TWO]])
    DeltaTable(path).create_checkpoint()
    os.unlink(tmp_path / "_delta_log" / f"{0:020}.json")
    assert own_content(path) == [(1, "a"), (2, None)]
    for call in (lambda: started.prepare(staged), lambda: DeltaSink(path, ROWS, "overwrite").start()):
        with pytest.raises(ValueError, match=f"{0:020}.json is missing in its log"):
            call()


def test_many_partition_columns_of_many_values():
    names = [f"p{number}" for number in range(5)]
    values = 2**13 - 1
    columns = {name: pa.array([*range(values), 7], pa.int32()) for name in names}
    columns["p0"] = pa.array([*range(values), 0], pa.int32())
    batch = pa.record_batch({**columns, "id": pa.array(range(values + 1), pa.int32())})
    groups = _by_partition(batch, tuple(names))
    assert len(groups) == values + 1
    assert all(
        rows.num_rows == 1 and partition == tuple(str(rows[name][0]) for name in names)
        for partition, rows in groups
    )


def test_names_of_columns(tmp_path):
    with pytest.raises(ValueError, match="differ in more than case, got a, A"):
        DeltaSink(str(tmp_path), Types.ROW_NAMED(["a", "A"], [Types.INT(), Types.INT()])).start()
    names = ["a b", "c,d", "e.f", "ü;{}()="]
    typed = Types.ROW_NAMED(names, [Types.INT()] * 4)
    write(DeltaSink(str(tmp_path), typed, partition_by=["c,d", "e.f"]), [[[Row(1, 2, 3, 4)]]], typed)
    assert content(str(tmp_path)) == own_content(str(tmp_path)) == [(1, 2, 3, 4)]


def int96(table, path):
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)


def test_int96_timestamps_are_read_over_their_whole_range(tmp_path):
    moments = [
        MOMENT(1, 1, 1),
        MOMENT(1600, 1, 1, 0, 0, 0, 123456),
        MOMENT(9999, 12, 31, 23, 59, 59, 999999),
        None,
    ]
    column = pa.array(moments, pa.timestamp("us"))
    table = pa.table({"id": range(4), "t": column, "s": pa.StructArray.from_arrays([column], ["t"])})
    path = make_table(
        tmp_path / "delta",
        [field("id", "long"), field("t", "timestamp"), field("s", struct(field("t", "timestamp")))],
        version=(1, 2),
    )
    int96(table, f"{path}/a.parquet")
    assert "int96" in str(pq.ParquetFile(f"{path}/a.parquet").schema)
    add_commit(path, 1, add_of("a.parquet", os.path.getsize(f"{path}/a.parquet")))
    epoch = MOMENT(1970, 1, 1)
    instants = [
        at and Instant(*divmod((at - epoch) // datetime.timedelta(microseconds=1) * 1000, 10**9))
        for at in moments
    ]
    assert [row[1] for row in read_values(DeltaSource(path))] == instants
    assert [row[2][0] for row in read_values(DeltaSource(path))] == instants
    rows = read_values(parquet_source(f"{path}/a.parquet"))
    assert [(row["t"], row["s"]["t"]) for row in rows] == [(at, at) for at in moments]


def test_times_of_sparks_old_calendar_are_refused(tmp_path):
    days = pa.table({"d": [datetime.date(1500, 1, 1)]}).replace_schema_metadata(
        {"org.apache.spark.legacyDateTime": ""}
    )
    pq.write_table(days, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="'d' has dates before 1582-10-15"):
        read_values(parquet_source(str(tmp_path / "a.parquet")))


SMALL = struct(field("q", "integer"))
GROWN = struct(field("q", "long"), field("r", "string"), field("d", struct(field("e", "integer"))))


def test_structs_that_have_grown(tmp_path):
    def list_of(element):
        return {"type": "array", "elementType": element, "containsNull": True}

    def map_to(value):
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}

    path = make_table(
        tmp_path / "delta",
        [field("id", "long"), field("s", GROWN), field("l", list_of(GROWN)), field("m", map_to(GROWN))],
        version=(1, 2),
    )
    old, new = (
        pa.struct({"q": pa.int32()}),
        pa.struct({"d": pa.struct({"e": pa.int32()}), "r": pa.string(), "q": pa.int64()}),
    )
    for number, kind, value in ((1, old, {"q": 1}), (2, new, {"d": {"e": 5}, "r": "x", "q": 10**10})):
        columns = {
            "id": pa.array([number, 10 + number]),
            "s": pa.array([value, None], kind),
            "l": pa.array([[value, None], None], pa.list_(kind)),
            "m": pa.array([[("k", value)], None], pa.map_(pa.string(), kind)),
        }
        name = f"{number}.parquet"
        pq.write_table(pa.table(columns), f"{path}/{name}")
        add_commit(path, number, add_of(name, os.path.getsize(f"{path}/{name}")))
    first, second = (1, None, None), (10**10, "x", (5,))
    assert own_content(path) == sorted(
        [
            (1, first, [first, None], {"k": first}),
            (2, second, [second, None], {"k": second}),
            (11, None, None, None),
            (12, None, None, None),
        ],
        key=repr,
    )
    pq.write_table(pa.table({"s": [{"q": 1, "r": "x"}]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"s": [{"r": "y", "more": 5, "q": 2}]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"s": [{"q": 3}]}), tmp_path / "3.parquet")
    large = pa.array([[{"q": 4}], None], pa.large_list(pa.struct({"q": pa.int64()})))
    pq.write_table(pa.table({"l": large.slice(0, 1)}), tmp_path / "5.parquet")
    typed = Types.ROW_NAMED(["l"], [Types.LIST(Types.ROW_NAMED(["r", "q"], [Types.STRING(), Types.LONG()]))])
    assert plain(read_values(parquet_source(str(tmp_path / "5.parquet"), type_info=typed))) == [
        ([(None, 4)],)
    ]
    paths = [str(tmp_path / f"{number}.parquet") for number in (1, 2, 3)]
    assert [tuple(row["s"]) for row in read_values(parquet_source(*paths))] == [(1, "x"), (2, "y"), (3, None)]


def test_clones_list_files_of_other_tables(tmp_path):
    other = tmp_path / "an other ü#100%"
    write(DeltaSink(str(other), ROWS, partition_by=["v"]), [[[Row(1, "a"), Row(2, "x y")]]])
    assert own_content(str(other)) == [(1, "a"), (2, "x y")]
    log = (other / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    added = [json.loads(line)["add"] for line in log if '"add"' in line]
    for number, prefix in enumerate(("file:", "file://")):
        path = make_table(tmp_path / f"clone {number}", version=(1, 2), partition_by=["v"])
        base = prefix + str(other).replace("%", "%25").replace(" ", "%20").replace("#", "%23")
        adds = [add_of(f"{base}/{one['path']}", one["size"], one["partitionValues"]) for one in added]
        add_commit(path, 1, *adds)
        write(DeltaSink(path, ROWS, partition_by=["v"]), [[[Row(3, "b")]]])
        assert own_content(path) == [(1, "a"), (2, "x y"), (3, "b")]
