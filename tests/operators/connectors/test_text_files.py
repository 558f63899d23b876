import bz2
import gzip
import io
import lzma
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.connectors.file_source import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    text_source,
)
from penstock.operators.files import lines
from penstock.operators.files import lines as splits
from penstock.operators.files.filesystem import find_files
from penstock.operators.files.lines import FileSplit, read_lines
from penstock.operators.formats.csv_files import BulkFormat, StreamFormat
from tests.operators.connectors.run_connectors import read_batches, read_subtasks, read_values

PIECES = st.sampled_from(["a", "bc", "é", "\n", "\r", "\r\n", "\x0b", "\u2028", "\U0001f600"])


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(splits, "SMALLEST_PIECE", 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lines")


def java_lines(text):
    """Lines as Java's BufferedReader has them."""
    found = io.StringIO(text, newline=None).read().split("\n")
    return found if found[-1] else found[:-1]


@given(st.lists(PIECES, max_size=40), st.lists(st.integers(0, 80), max_size=4), st.integers(1, 9))
def test_ranges_of_bytes_hold_every_line_once(folder, pieces, cuts, block):
    text = "".join(pieces)
    content = text.encode()
    path = str(folder / "lines.txt")
    with open(path, "wb") as file:
        file.write(content)
    ends = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    old, lines._BLOCK = lines._BLOCK, block
    try:
        found = [
            line
            for start, end in pairwise(ends)
            for some in read_lines(FileSplit(path, start, end - start), "UTF-8")
            for line in some
        ]
        whole = [line for some in read_lines(FileSplit(path, 0, len(content)), "UTF-16-LE") for line in some]
    finally:
        lines._BLOCK = old
    assert found == java_lines(text)
    assert whole == java_lines(content.decode("utf-16-le", "replace"))


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_each_line_is_read_once(tmp_path, small_pieces, parallelism):
    texts = {f"{name}.txt": [f"{name}-{number}" for number in range(count)] for name, count in
             {"a": 100, "b": 3, "c": 0, "sub/d": 37}.items()}  # fmt: skip
    for name, content in texts.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(line + "\n" for line in content))
    subtasks = read_subtasks(text_source(str(tmp_path)), parallelism)
    found = [line for values in subtasks for line in values]
    assert sorted(found) == sorted(line for content in texts.values() for line in content)
    if parallelism == 1:
        assert found == texts["a.txt"] + texts["b.txt"] + texts["sub/d.txt"]
    assert all(subtasks)
    whole = FileSource(StreamFormat.text_line_format(), (str(tmp_path),), splittable=False)
    files = {line[0] for line in read_subtasks(whole, parallelism)[0]}
    assert len(files) == len(texts) - 1 if parallelism == 1 else len(files) < len(texts) - 1
    assert sorted(read_values(whole, parallelism)) == sorted(found)


def test_a_big_file_keeps_all_subtasks_busy(tmp_path, small_pieces):
    (tmp_path / "big.txt").write_text("".join(f"line {number}\n" for number in range(1000)))
    subtasks = read_subtasks(text_source(str(tmp_path / "big.txt")), 4)
    assert [line for values in subtasks for line in values] == [f"line {number}" for number in range(1000)]
    assert all(200 < len(values) < 300 for values in subtasks)


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("gz", gzip.compress),
        ("gzip", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("deflate", zlib.compress),
    ],
)
def test_compressed_files_are_read_whole(tmp_path, small_pieces, ending, compress):
    content = "".join(f"zeile {number}\n" for number in range(50_000))
    (tmp_path / f"x.{ending}").write_bytes(compress(content.encode()))
    assert sorted(map(len, read_subtasks(text_source(str(tmp_path)), 2))) == [0, 50_000]
    assert read_values(text_source(str(tmp_path)), 1) == content.split("\n")[:-1]


def test_a_compressed_file_that_ends_early_is_an_error(tmp_path):
    (tmp_path / "x.deflate").write_bytes(zlib.compress(b"hello\n" * 100)[:-8])
    with pytest.raises(EOFError):
        read_values(text_source(str(tmp_path)))


def test_charsets(tmp_path):
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1"))
    assert read_values(text_source(str(tmp_path / "latin.txt"), charset="ISO-8859-1")) == ["café"]
    (tmp_path / "wide.txt").write_bytes(b"\xff\xfea\x00\n\x00b\x00")
    assert read_values(text_source(str(tmp_path / "wide.txt"), charset="UTF-16")) == ["a", "b"]
    (tmp_path / "big.txt").write_bytes("a\nb".encode("utf-16-be"))
    assert read_values(text_source(str(tmp_path / "big.txt"), charset="UTF-16")) == ["a", "b"]
    (tmp_path / "bad.txt").write_bytes(b"\xef\xbb\xbfbom\n\xff\xfe bad\n")
    assert read_values(text_source(str(tmp_path / "bad.txt"))) == ["\ufeffbom", "\ufffd\ufffd bad"]
    with pytest.raises(LookupError):
        text_source(str(tmp_path), charset="NOPE")


def test_hidden_files_and_folders_are_left_out(tmp_path):
    for name in ("a.txt", "_b.txt", ".c.txt", "_d/e.txt", ".f/g.txt", "h/i.txt", "h/_j/k.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name + "\n")
    assert read_values(text_source(str(tmp_path))) == ["a.txt", "h/i.txt"]
    assert read_values(text_source(str(tmp_path / "_b.txt"))) == []
    assert read_values(text_source(str(tmp_path / "_d"))) == []


def test_paths(tmp_path):
    (tmp_path / "a b%20.txt").write_text("x\n")
    assert read_values(text_source(str(tmp_path / "a b%20.txt"))) == ["x"]
    assert read_values(
        text_source(f"file://{tmp_path}/a b%20.txt".replace(" ", "%20").replace("%20.", "%2520."))
    ) == ["x"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        text_source(str(tmp_path / "nowhere")).splits(1)
    with pytest.raises(ValueError, match="must not be empty"):
        text_source()
    assert [one.path for one in find_files([f"file:{tmp_path}"])] == [f"file:{tmp_path}/a b%20.txt"]


def test_lines_as_record_batches(tmp_path):
    (tmp_path / "a.txt").write_text("x\ny\r\n\nz")
    batches = read_batches(text_source(str(tmp_path)))
    assert [one for batch in batches for one in batch.column("value").to_pylist()] == ["x", "y", "", "z"]


def test_the_builder(tmp_path):
    (tmp_path / "a.txt").write_text("x\n" * 100)
    builder = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .process_static_file_set()
        .set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    )
    assert (
        builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
        .build()
        .splittable
    )
    enumerator = FileEnumeratorProvider.default_non_splittable_file_enumerator()
    assert not builder.set_file_enumerator(enumerator).build().splittable
    with pytest.raises(NotImplementedError, match="unbounded"):
        builder.monitor_continuously(None)
    with pytest.raises(TypeError, match="str"):
        FileSource.for_record_stream_format("text", str(tmp_path))  # type: ignore[arg-type]
    for refused in (StreamFormat, BulkFormat):
        with pytest.raises(NoJavaError, match="Java"):
            refused(object())


def test_errors_name_the_file(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"no gzip")
    with pytest.raises(OSError, match=r".*") as raised:
        read_values(text_source(str(tmp_path)))
    assert "a.gz" in raised.value.__notes__[0]


def test_a_very_long_line_is_one_line(tmp_path):
    (tmp_path / "long.txt").write_text("x" * 5_000_000 + "\ny\n")
    assert [len(line) for line in read_values(text_source(str(tmp_path)))] == [5_000_000, 1]
