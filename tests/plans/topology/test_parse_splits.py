"""Files read in parts by Spark's workers: every line once, none of them longer than allowed held."""

import gzip
import random

import orjson
import pyarrow as pa
import pytest

from penstock.plans.errors import InputError
from penstock.plans.topology import unpacked_texts
from penstock.plans.topology.on_spark.read_topology_files import _END, _lines, can_be_split, parse_splits
from tests.plans.topology.builders import simple


@pytest.mark.parametrize("seed", range(20))
def test_every_line_belongs_to_the_part_in_which_it_begins(seed, tmp_path, monkeypatch):
    dice = random.Random(seed)
    monkeypatch.setattr(unpacked_texts, "BLOCK_BYTES", dice.randint(1, 40))
    texts = [bytes(dice.choices(b"ab ", k=dice.choice((0, 1, 5, 30)))) for _ in range(dice.randint(1, 30))]
    file = tmp_path / "a file"
    file.write_bytes(b"\n".join(texts) + b"\n" * dice.randint(0, 1))
    wanted = file.read_bytes().split(b"\n")
    wanted = wanted if wanted[-1] else wanted[:-1]
    uri, size = file.as_uri(), file.stat().st_size
    for most in (1, 7, dice.randint(1, size + 1), size + 1):
        starts = range(0, size, most)
        parts = [(s, _END if s + most >= size else s + most) for s in starts]
        found = [line for start, end in parts for line in _lines(uri, start, end, 20)]
        shown = [one.value if one.too_long_bytes is None else one.too_long_bytes for one in found]
        assert shown == [len(line) if len(line) > 20 else line for line in wanted]
        assert {(one.source_file, one.ordinal) for one in found} <= {(uri, None)}


def test_a_long_line_is_rejected_by_its_place(tmp_path):
    file = tmp_path / "t.jsonl.gz"
    lines = [orjson.dumps(simple("a")), b"[" + b"1," * 5_000, orjson.dumps(simple("b"))]
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"\n".join(lines)))
    split = pa.record_batch(
        {"source_file": [file.as_uri()], "start": [0], "end": [_END], "is_document": [False]}
    )
    rows = [row for batch in parse_splits([split], 5_000) for row in batch.to_pylist()]
    assert [(row["name"], row["ordinal"], row["block_lines"]) for row in rows] == [
        ("a", 0, None), (None, 1, None), ("b", 2, None), (None, None, 3)]  # fmt: skip
    assert rows[1]["errors"][0]["found"] == "a line of 10,001 bytes"


def test_files_that_cannot_be_read(tmp_path):
    broken = tmp_path / "t.jsonl.gz"
    broken.write_bytes(gzip.compress(b"{}\n" * 1_000)[:-12])
    for file, reason in ((broken, "not a complete gzip file"), (tmp_path / "none", "No such file")):
        split = pa.record_batch(
            {"source_file": [file.as_uri()], "start": [0], "end": [_END], "is_document": [False]}
        )
        with pytest.raises(InputError, match=reason):
            list(parse_splits([split], 100))
    assert can_be_split(["file:///a.jsonl", "file:///b.gz", "file:///b.lz4"])
    assert not can_be_split(["s3a://b/a.jsonl"])
