"""`penstock draw` and `penstock.draw`: what is drawn, where it goes, and what is said of wrong calls."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

import penstock
from penstock.engine.commands.main import app
from tests.engine.views.draw.pictures import hostile_topology

EXAMPLES = "engine/examples/examples.jsonl"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("draw") / "store")
    penstock.plan(EXAMPLES).write(path)
    return path


def draw(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["draw", *arguments], prog_name="penstock")
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.svg", "<?xml"),
        ("a.html", "<!DOCTYPE html>"),
        ("a.dot", 'digraph "word-count" {'),
        ("a.mmd", "flowchart LR"),
        ("a.GRAPHML", "<?xml"),
    ],
)
def test_the_end_of_the_name_says_the_format(store, tmp_path, name, begins):
    assert draw(store, "--topology", "word-count", "-o", str(tmp_path / name)) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_a_store_and_its_file_give_the_same_pictures(store, capsysbinary):
    pictures = []
    for source in (store, EXAMPLES):
        for option in ((), ("--layer", "stream_graph"), ("--vertex", "Normalise")):
            assert draw(source, "--topology", "events-etl", *option) == 0
            pictures.append(capsysbinary.readouterr().out)
    assert pictures[:3] == pictures[3:]
    assert len(set(pictures)) == 3


def test_a_script_is_drawn_without_running_its_job(tmp_path):
    to = tmp_path / "job.svg"
    assert draw("engine/examples/word_count.py", "--to", str(to)) == 0
    assert ElementTree.fromstring(to.read_text(encoding="utf-8")).get("class") == "penstock"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("STORE",), 2, "has 5 topologies; one must be chosen"),
        (("STORE", "--topology", "word"), 2, "close names: word-count"),
        (("STORE", "--topology", "word-count", "-o", "a.png"), 2, "must end in a known format"),
        (
            ("STORE", "--topology", "word-count", "--format", "png"),
            2,
            "--format must be one of svg, html, dot",
        ),
        (
            ("STORE", "--topology", "word-count", "--layer", "execution_graph"),
            2,
            "use --vertex, in Python vertex=, with one of",
        ),
        (
            ("STORE", "--topology", "word-count", "--layer", "job_graph", "--vertex", "0"),
            2,
            "--vertex is for",
        ),
        ((EXAMPLES, "--version", "1"), 2, "a version needs a plan store"),
        (("nothing",), 3, "nothing does not exist"),
        (("REFUSED",), 7, "was refused"),
        (("BROKEN",), 3, "1 refused; the first: line 1 of"),
        ((EXAMPLES, "more"), 2, "only a script takes arguments"),
    ],
)
def test_what_is_wrong_is_said(store, tmp_path, capsys, arguments, code, said):
    refused = tmp_path / "refused.jsonl"
    refused.write_text('{"name": "r", "transformations": [{"id": 1, "kind": "no"}]}')
    broken = tmp_path / "broken.json"
    broken.write_text('{"name": "r"')
    named = {"STORE": store, "REFUSED": str(refused), "BROKEN": str(broken)}
    assert draw(*(named.get(one, one) for one in arguments)) == code
    assert said in capsys.readouterr().err


def test_the_library_draws_what_it_plans(tmp_path):
    drawing = penstock.draw(EXAMPLES, "fraud-detection")
    assert repr(drawing) == "<penstock.Drawing of 'fraud-detection': job graph, stream graph>"
    drawing.write(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.render("svg")
    graph = drawing.networkx()
    assert len(graph.nodes) == 5
    assert {label for *_, label in graph.edges(data="ship_strategy")} == {
        "HASH",
        "BROADCAST",
        "REBALANCE",
        "FORWARD",
    }
    notebook = penstock.draw(hostile_topology())._repr_html_()
    assert notebook.count("<") == 2  # an iframe, and nothing in it that is not escaped
    assert 'sandbox="allow-scripts"' in notebook


def test_the_library_draws_stores(store):
    stored = penstock.draw(penstock.open_store(store), "word-count")
    planned = penstock.draw(penstock.plan(EXAMPLES), "word-count")
    assert stored.render("svg") == planned.render("svg")
    assert penstock.draw(penstock.read_plan(store, topology="word-count")).render("dot") == planned.render(
        "dot"
    )


def test_paths_are_taken(tmp_path):
    penstock.draw(Path(EXAMPLES), "word-count").write(str(tmp_path / "a"), format="mermaid")
    assert (tmp_path / "a").read_text(encoding="utf-8").startswith("flowchart")
    with pytest.raises(penstock.ConfigurationError, match="must end in a known format"):
        penstock.draw(EXAMPLES, "word-count").write(tmp_path / "a")
