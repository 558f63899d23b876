"""Small files that stand for much are refused before it is made: by every reader of files of others."""

import bz2
import gzip
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.configuration.load_configuration import read_yaml_settings
from penstock.plans.errors import InputError
from penstock.plans.generate.draw_by_spec import read_fleet_spec
from penstock.plans.importing import bounds
from penstock.plans.importing.bounds import BoundError, bounded_seconds, bounded_text, require_bounded_yaml
from penstock.plans.importing.given_graph import GivenGraph
from penstock.plans.importing.importers import importer_of_name
from penstock.plans.importing.read_graphs import read_graphs

GRAPHML = '<graphml>{}<graph edgedefault="directed">{}</graph></graphml>'


def refused(path: Path, content: str | bytes, pack: Callable[[bytes], bytes] = bytes) -> str:
    """What `penstock import` says of a file, which it refuses quickly."""
    path.write_bytes(pack(content.encode() if isinstance(content, str) else content))
    began = time.process_time()
    result = CliRunner().invoke(app, ["import", str(path)])
    assert (result.exit_code, result.stdout) == (3, ""), result.stderr
    assert "Traceback" not in result.stderr
    assert time.process_time() - began < 30
    return result.stderr


def names(letter: str, count: int) -> str:
    return " ".join(f"{letter}{number}" for number in range(count))


@pytest.mark.slow
def test_products_of_subgraphs(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.plans.importing.read_dot.MOST_EDGES", 50_000)
    text = f"digraph {{ {{{names('a', 300)}}} -> {{{names('b', 300)}}} }}"
    assert "found more than 50,000 edges" in refused(tmp_path / "a.dot", text)


def test_a_product_that_is_small_is_made(tmp_path):
    path = tmp_path / "a.dot"
    path.write_text(f"digraph {{ {{{names('a', 30)}}} -> {{{names('b', 40)}}} }}")
    importer = importer_of_name(str(path))
    assert importer is not None
    (graph,) = read_graphs(str(path), importer)
    assert isinstance(graph, GivenGraph)
    assert (len(graph.nodes), len(graph.edges)) == (70, 1_200)


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("name", ["a.dot", "a.graphml", "a.csv", "a.edges"])
def test_packed_files_are_not_unpacked_beyond_the_bound(name, pack, tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bounds.bounded_text, "__defaults__", (1 << 20,))
    ending = ".gz" if pack is gzip.compress else ".bz2"
    said = refused(tmp_path / f"{name}{ending}", b"a,b\n" * (1 << 21), pack)
    assert "found more than 1,048,576 bytes, unpacked" in said


def test_texts_are_not_read_on_beyond_the_bound():
    taken = []

    def texts():
        for number in range(1_000):
            taken.append(number)
            yield bytes(1_000)

    with pytest.raises(BoundError, match="more than 10,000 bytes"):
        bounded_text(texts(), 10_000)
    assert len(taken) == 11


def test_nodes_of_subgraphs_in_subgraphs(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.plans.importing.read_dot.MOST_VALUES", 10_000)
    text = "digraph {" + "{" * 200 + names("a", 100) + "}" * 201
    assert "found more than 10,000 nodes of subgraphs" in refused(tmp_path / "a.dot", text)
    defaults = " ".join(f"k{number}=1" for number in range(200))
    text = f"digraph {{ node [{defaults}] {names('a', 100)} }}"
    assert "found more than 10,000 values of attributes" in refused(tmp_path / "b.dot", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.c", "/* a */\n" * 5_000 + "x"),
        ("a.xml", "<!-- a -->\n" * 5_000 + "<x/>"),
        ("a.py.txt.dat", '"""a"""\n' * 5_000 + "x"),
        ("a.edges", "a b " + "{ " * 100_000),
        ("b.edges", "a ->" + " " * 100_000 + "b c"),
        ("d.edges", "a " + "-" * 300_000 + " b"),
        ("a.blank", " " * 65_000 + "x"),
        ("b.blank", "\n" * 65_000 + "x"),
        ("b.xml", "<!DOCTYPE a" + " " * 65_000),
        ("c.xml", "<!DOCTYPE a [" + "]" * 65_000),
        ("c.dot", "digraph a" + " " * 65_000 + "\n"),
        ("a.mmd", "graph" + " " * 65_000 + "x"),
        ("a.plan", "A" * 65_000),
        ("a.net", "*Vertices 1\n1 a " + "1 " * 200_000 + "b"),
        ("c.edges", '"a ' * 50_000),
        ("a.dot", "digraph { " + "/* " * 50_000),
        ("b.dot", "digraph { a -> <" + "<!-- " * 50_000),
    ],
)
def test_texts_that_patterns_could_try_in_many_ways(tmp_path, name, text):
    refused(tmp_path / name, text)


def test_graphs_in_graphs(tmp_path):
    deep = 40_000
    text = f"<graphml>{'<graph>' * deep}{'</graph>' * deep}</graphml>"
    assert "an element 'graph' in the graph" in refused(tmp_path / "a.graphml", text)
    other = f"<graphml><x>{'<x>' * deep}{'</x>' * deep}</x></graphml>"
    assert "found more than 100 elements in one another" in refused(tmp_path / "b.graphml", other)


def test_attributes_of_all_nodes(tmp_path):
    keys = "".join(f'<key id="k{n}" for="node"><default>1</default></key>' for n in range(5_000))
    nodes = "".join(f'<node id="n{n}"/>' for n in range(5_000))
    assert "values of attributes" in refused(tmp_path / "a.graphml", GRAPHML.format(keys, nodes))


@pytest.mark.parametrize(
    ("name", "text", "bound", "said"),
    [
        ("a.graphml", GRAPHML.format("", '<node id="a"/><node id="b"/>'), "MOST_NODES", "1 nodes"),
        (
            "a.graphml",
            GRAPHML.format("", '<node id="a"/>' + '<edge source="a" target="a"/>' * 2),
            "MOST_EDGES",
            "1 edges",
        ),
        ("a.csv", "a,b\n", "MOST_NODES", "1 nodes"),
        ("a.csv", "a,b\nb,c\nc,d\n", "MOST_EDGES", "1 edges"),
    ],
)
def test_nodes_and_edges(name, text, bound, said, tmp_path, monkeypatch):
    for module in ("read_graphml", "read_edge_list"):
        monkeypatch.setattr(f"penstock.plans.importing.{module}.{bound}", 1)
    assert f"found more than {said}" in refused(tmp_path / name, text)


def test_a_parser_that_takes_too_long_is_stopped():
    def parse() -> None:
        while True:
            time.sleep(0.001)

    with pytest.raises(BoundError, match=r"longer than 0\.2 s"), bounded_seconds(0.2):
        parse()


def test_what_ends_in_time_is_not_stopped_later():
    for _ in range(50):
        with suppress(BoundError), bounded_seconds(0.002):
            pass
    time.sleep(0.01)


def bomb(depth: int) -> str:
    """10 to the power of `depth` values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bomb(9), "found more than 100,000 values"),
        ("workflow: " + "[" * 150 + "]" * 150, "found more than 100 levels"),
        ("a: " + "x" * (1 << 20), "found more than 1,048,576 bytes of YAML"),
    ],
    ids=["aliases", "depth", "bytes"],
)
def test_yaml_of_a_spec(text, said, tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_fleet_spec(str(path))
    result = CliRunner().invoke(app, ["generate", str(path), "--out", str(tmp_path / "out.jsonl")])
    assert result.exit_code in (2, 3)
    assert said in result.stderr


def test_yaml_of_a_configuration(tmp_path):
    path = tmp_path / "conf.yaml"
    path.write_text(bomb(9))
    assert "found more than 100,000 values" in read_yaml_settings(str(path)).problems[0]


def test_aliases_that_stand_for_little_are_read():
    require_bounded_yaml(yaml.compose("a: &a [1, 2]\nb: [*a, *a]\nc: &c [*c]", yaml.SafeLoader))
    require_bounded_yaml(None)
