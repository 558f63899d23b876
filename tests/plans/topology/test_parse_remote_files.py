"""Files that Spark reads, from another file system: lines of any length are rejected where they stand."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from penstock.plans.errors import InputError
from penstock.plans.topology.on_spark.read_topology_files import read_topology_files
from tests.plans.topology.builders import simple
from tests.plans.topology.packed_blocks import packed_blocks
from tests.plans.topology.test_read_topology_files import reading

LONGEST = 5_000


@pytest.fixture
def far(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The folder as another file system, whose files Spark reads in parts of 4 KiB."""
    settings = {
        "fs.viewfs.impl.disable.cache": "true",
        "fs.viewfs.mounttable.far.link./folder": tmp_path.as_uri(),
        "spark.sql.files.maxPartitionBytes": "4096",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield "viewfs://far/folder"
    for key, was in before.items():
        spark.conf.unset(key) if was is None else spark.conf.set(key, was)


def topology(name: str) -> bytes:
    return orjson.dumps(simple(name))


def lines(prefix: str) -> bytes:
    """Nine, of which the second, third, sixth and seventh are too long; some begin where others end."""
    long = b"[" + b"1," * 5_000, b"x" * 9_000, b"y" * 20_000, b"z" * (LONGEST + 1)
    first, second, third = (topology(f"{prefix}{number}") for number in (1, 2, 3))
    return b"\n".join([first, long[0], long[1], second, b"", long[2], long[3], b"w" * LONGEST, third])


def document(prefix: str) -> bytes:
    """One line, with an element that is too long and one that is wrong."""
    a, b = topology(f"{prefix}a"), topology(f"{prefix}b")
    return b"\xef\xbb\xbf[" + a + b', {"name": "' + b"q" * 30_000 + b'"}, ' + b + b",\n{}]\n"


def test_long_lines_are_rejected_where_they_stand(spark: SparkSession, far: str, tmp_path: Path):
    (tmp_path / "lines.jsonl").write_bytes(lines("plain"))
    (tmp_path / "lines.gz").write_bytes(gzip.compress(lines("gz")))
    (tmp_path / "lines.snappy").write_bytes(packed_blocks(lines("snappy"), ".snappy"))
    (tmp_path / "document.json").write_bytes(document("plain"))
    (tmp_path / "document.gz").write_bytes(gzip.compress(document("gz")))

    def read(path: str) -> tuple[list[tuple[str, int, str]], list[tuple[str, int, str, str]]]:
        with reading(read_topology_files(spark, [path], LONGEST)) as tables:
            assert tables.inputs == 32
            planned = [(r.source_file, r.source_line, r.name) for r in tables.topologies.collect()]
            rejected = [(r.source_file, r.source_line, r.errors) for r in tables.rejected.collect()]
        inside = sorted((file.rpartition("/")[2], line, name) for file, line, name in planned)
        errors = [(f.rpartition("/")[2], line, e[0].error, e[0].found) for f, line, e in rejected]
        return inside, sorted(errors)

    planned, rejected = read(far)
    planned_here, rejected_here = read(str(tmp_path))
    assert planned == planned_here
    assert [error[:3] for error in rejected] == [error[:3] for error in rejected_here]
    # Of lines of files that are not packed, Spark gives no more than it must.
    different = {(one[0], one[3]) for one, here in zip(rejected, rejected_here, strict=True) if one != here}
    assert different == {
        ("lines.jsonl", f"a line of at least {LONGEST + 2:,} bytes"),
        ("document.json", "a line of at least 5,014 bytes"),
    }


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a b.gz", gzip.compress(lines("a"))[:-12], "it is not a complete gzip file"),
        ("b.lz4", packed_blocks(lines("b"), ".lz4")[:-1], "it ends in the middle of a chunk"),
    ],
)
def test_packed_files_that_are_broken(
    spark: SparkSession, far: str, tmp_path: Path, name: str, data: bytes, reason: str
):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=f"cannot read viewfs://far/folder/.*: {reason}"):
        read_topology_files(spark, [f"{far}/{name}"])
