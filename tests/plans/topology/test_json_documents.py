"""JSON over many lines: pretty-printed topologies and arrays of them, in files and pipes, by both readers."""

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.plans.topology.find_topology_files import STANDARD_INPUT
from penstock.plans.topology.json_documents import Element, elements, is_document
from penstock.plans.topology.on_spark.read_topology_files import read_topology_files as read_on_spark
from penstock.plans.topology.read_topology_files import read_topology_files
from tests.plans.planners.table_contents import frame_contents
from tests.plans.topology.builders import simple
from tests.plans.topology.test_read_topology_files import contents, reading

ODD = [{"a": '[{"\\,', "b": [{"c": "}\\\\"}], "d": {}, "e": "\u00e9\n"}, {}, {"f": [[]]}]


def cut(text: bytes, most: int = 1_000) -> list[Element]:
    """The elements, which are the same however the text is cut into pieces."""
    whole = list(elements([text], most))
    for size in (1, 2, 3, 7):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        assert list(elements(pieces, most)) == whole
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 0, 1, 4])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_elements_are_what_is_in_an_array_or_one_after_the_other(indent, newline):
    array = json.dumps(ODD, indent=indent)
    sequence = "\n".join(json.dumps(value, indent=indent) for value in ODD)
    for text in (array, sequence, f"\ufeff\n {array}", f"{array}\n{sequence}{sequence}"):
        written = text.replace("\n", newline).encode()
        found = [json.loads(element.value) for element in cut(written)]
        assert found == ODD * (len(found) // len(ODD))
    assert all("{" in array.split("\n")[element.line] for element in cut(array.encode()))


@pytest.mark.parametrize(
    ("text", "values", "problem"),
    [
        (b"[", [], "not closed"),
        (b"[]", [], None),
        (b"[1, {}, null]", [b"1", b"{}", b"null"], None),
        (b"[{}{}]", [b"{}", b"{}"], "no comma"),
        (b"[{},]", [b"{}"], "after the last"),
        (b"[,{}]", [b"{}"], "without an element"),
        (b"[{},,{}]", [b"{}", b"{}"], "without an element"),
        (b"{},{}", [b"{}", b"{}"], "outside of an array"),
        (b"[{}]]\n{}", [b"{}", b"]", b"{}"], None),
        (b"]]]{}", [b"]]]", b"{}"], None),
        (b'[{"a": 1', [b'{"a": 1'], None),
        (b'[{"a": "\n},{}]', [b'{"a": "\n}', b"{}"], None),
        (b'[{"a": [},\n{}]', [b'{"a": [},\n{}]'], "not closed"),
    ],
)
def test_damage_is_rejected_where_it_is(text, values, problem):
    *found, last = [*cut(text), Element(b"", 0)]
    if problem is not None:
        last = found.pop()
        assert problem in (last.problem or "")
    assert [element.value for element in found] == values
    assert all(element.problem is None for element in found)


def test_an_element_that_is_too_long_is_not_held():
    found = cut(b'[{},\n{"a": "' + b"x" * 50 + b'"},{}]', 20)
    assert [(e.value, e.line, e.too_long_bytes) for e in found] == [
        (b"{}", 0, None),
        (b"", 1, 59),
        (b"{}", 1, None),
    ]


def test_much_blank_and_many_commas_take_little_memory():
    texts = [b"[", *[b" " * 2**20] * 64, b"," * 2**16, b"{}]"]
    tracemalloc.start()
    found = list(elements(texts, 10_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [bool(element.problem) for element in found] == [False, True]
    assert peak < 40 * 2**20


def test_nesting_takes_no_stack():
    deep = b"[{" + b'"a":[' * 100_000 + b"]" * 100_000 + b"},{}]"
    assert [len(element.value) for element in elements([deep], 10**7)] == [600_002, 2]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", False),
        (b'{"name": "a", "transformations": []}\n', False),
        (b'{"name": "a"}{"name": "b"}', False),
        (b'{"name": "a",\n "transformations": []}', True),
        (b'{"name": "a", "tra\n{"name": "b"}', False),
        (b'{"name": "a", "transformations": [\n{"name": "b", "transformations": []}\n', False),
        (b"[1, 2]", False),
        (b"[[[[[", False),
        (b"[]", True),
        (b"[]\n{}", False),
        (b"[\n{}", True),
        (b'[{"a": 1}]', True),
        (b"\xef\xbb\xbf\n\n [ {", True),
        (b'"{"', False),
    ],
)
def test_the_beginning_tells_documents_from_json_lines(head, expected):
    assert is_document(head) is expected


def documents(folder: Path) -> Path:
    """Files of every form, with a wrong topology and a name that comes twice in each."""
    for kind in ("array", "sequence", "line", "lines", "broken", "cut"):
        given = [simple(f"{kind} {i}") for i in range(3)] + [simple(f"{kind} 1"), simple("", paralelism=1)]
        array = json.dumps(given, indent=2)
        text = {
            "array": array,
            "sequence": "\n".join(json.dumps(value, indent=1) for value in given),
            "line": json.dumps(given),
            "lines": "\n".join(map(json.dumps, given)),
            "broken": array[:-1],
            "cut": array[: len(array) // 2],
        }[kind]
        (folder / f"{kind}.json").write_text(text)
        (folder / f"packed {kind}.json.gz").write_bytes(
            gzip.compress(text.replace(kind, f"p{kind}").encode())
        )
    return folder


def test_both_readers_give_the_same_rows_of_documents(spark, tmp_path):
    paths = [str(documents(tmp_path))]
    found = read_topology_files(paths)
    assert (found.inputs, len(found.topologies)) == (2 * (5 * 5 + 1 + 3), 2 * (5 * 3 + 2))
    assert found.inputs == len(found.topologies) + len(found.rejected)
    with reading(read_on_spark(spark, paths)) as expected:
        assert expected.inputs == found.inputs
        assert frame_contents(found) == contents(expected)
    for limit in (200, 400):
        found = read_topology_files(paths, limit)
        with reading(read_on_spark(spark, paths, limit)) as expected:
            assert frame_contents(found) == contents(expected)


def test_lines_of_elements_are_where_they_begin(tmp_path):
    found = read_topology_files([str(documents(tmp_path))])
    for row in found.topologies.rows(named=True):
        path = Path(row["source_file"])
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        line = text.split(b"\n")[row["source_line"] - 1]
        assert line.strip() == b"{" or row["name"].encode() in line


@contextmanager
def standard_input(descriptor: int) -> Iterator[None]:
    """A file, which is closed afterwards, is the standard input of this process."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def piped(given: bytes) -> int:
    """The end of a pipe that gives these few bytes."""
    found, into = os.pipe()
    os.write(into, given)
    os.close(into)
    return found


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("indent", [None, 2])
def test_standard_input_is_read(pack, indent):
    given = pack(json.dumps([simple("a"), simple("b")], indent=indent).encode())
    with standard_input(piped(given)):
        found = read_topology_files(["-"])
    assert (found.inputs, found.topologies["name"].to_list()) == (2, ["a", "b"])


@pytest.mark.slow
def test_a_command_reads_standard_input(tmp_path):
    arguments = ["plan", "-", "--out", str(tmp_path / "store"), "--until", "stream_graph"]
    command = [sys.executable, "-m", "penstock.engine.commands.main", *arguments]
    given = json.dumps([simple("a"), simple("b")], indent=2).encode()
    done = subprocess.run(command, input=given, capture_output=True, timeout=120, check=True)
    assert b"2 planned and 0 rejected of 2" in done.stdout


def test_standard_input_may_be_a_file(tmp_path):
    (tmp_path / "given").write_text(json.dumps(simple("a"), indent=2))
    with standard_input(os.open(tmp_path / "given", os.O_RDONLY)):
        found = read_topology_files(["-"]).topologies
    assert found.select("name", "source_file").rows() == [("a", STANDARD_INPUT)]
