"""Pictures and graphs of plans: what they hold, and that names in them stay names."""

import json
import re
from html.parser import HTMLParser
from io import StringIO
from itertools import combinations
from xml.etree import ElementTree

import networkx
import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.plan_tables import plan_in_memory
from penstock.engine.views.draw.drawn_plan import plan_of_topology
from penstock.engine.views.draw.graph import fold
from penstock.engine.views.draw.graph_of_layer import DrawnLayer, graph_of_layer
from penstock.engine.views.draw.lay_out import cut, lay_out, text_width, to_svg
from penstock.engine.views.draw.to_dot import FORMATS, hash_of, rendered, to_html
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable
from tests.engine.views.draw.pictures import ATTACKS, SVG, hostile_topology, planned, rectangles
from tests.project.hostile_text import OBEYED

TABLES = plan_in_process("engine/examples/examples.jsonl").tables
EXAMPLES = plan_in_memory("examples", TABLES, {}, None)
NAMES = TABLES["topologies"]["name"].to_pylist()


def example_plan(name: str):
    return plan_of_topology(EXAMPLES, name)


@pytest.mark.parametrize("layer", list(DrawnLayer))
@pytest.mark.parametrize("name", NAMES)
def test_boxes_of_the_examples_overlap_only_what_they_are_inside_of(name, layer):
    graph = graph_of_layer(example_plan(name), layer, "0" if layer is DrawnLayer.EXECUTION_GRAPH else None)
    svg = to_svg(graph)
    assert svg == to_svg(graph)
    found = list(rectangles(ElementTree.fromstring(svg)))
    assert {one.key for one in found} == {node.key for node in graph.nodes}
    inside = {node.key: node.inside for node in graph.nodes}
    for a, b in combinations(found, 2):
        assert not a.overlaps(b) or inside[a.key] == b.key or inside[b.key] == a.key


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_the_examples_overlap_neither_boxes_nor_each_other(name):
    root = ElementTree.fromstring(to_svg(graph_of_layer(example_plan(name), DrawnLayer.JOB_GRAPH)))
    labels = [
        (float(one.get("x", "")), float(one.get("y", "")), text_width(one.text or "", 11))
        for one in root.iter(f"{SVG}text")
        if one.get("class") == "label"
    ]
    assert labels
    for (x, y, width), (a, b, other) in combinations(labels, 2):
        assert abs(y - b) >= 11 or x - width >= a or a - other >= x
    for box in rectangles(root):
        for x, y, width in labels:
            clear = x <= box.x or x - width >= box.x + box.width or y <= box.y or y - 11 >= box.y + box.height
            assert clear


def test_the_job_graph_says_why_edges_are_not_chained_and_what_vertices_need():
    graph = graph_of_layer(example_plan("fraud-detection"), DrawnLayer.JOB_GRAPH)
    names = {node.key: node.name for node in graph.nodes}
    (audit,) = [edge for edge in graph.edges if names[edge.target] == "Sink: Audit log"]
    facts = dict(audit.facts)
    assert facts["ship strategy"] == "FORWARD"
    assert facts["not chained because"]
    (score,) = [node for node in graph.nodes if node.name.startswith("Score by rules")]
    needs = dict(score.facts)
    assert score.lines == ("Score by rules", "Keep suspicious")
    assert needs["slots"] == "8, shared by its slot sharing group"
    assert "channels" in needs["buffers of its input gates"]
    assert [group.name for group in graph.groups] == ["scoring", "ingest"]


def test_sources_in_the_chain_of_their_reader_are_chained_wherever_it_is_said(tmp_path):
    job = {
        "name": "chained sources",
        "transformations": [
            {"id": 1, "kind": "source", "name": "A"},
            {"id": 2, "kind": "source", "name": "B"},
            {"id": 3, "kind": "legacy_source", "name": "L"},
            {
                "id": 4,
                "kind": "multi_input",
                "name": "M",
                "inputs": [1, 2, 3],
                "chaining": "HEAD_WITH_SOURCES",
            },
            {"id": 5, "kind": "sink", "name": "K", "inputs": [4]},
        ],
    }
    graph = graph_of_layer(planned(job), DrawnLayer.STREAM_GRAPH)
    inside = {node.key for node in graph.nodes if node.inside is not None}
    for edge in graph.edges:
        chained = {edge.source, edge.target} <= inside
        assert (edge.kind, edge.label) == (("chained", "") if chained else ("pipelined", "FORWARD"))
        assert (dict(edge.facts)["chained"], "not chained because" in dict(edge.facts)) == (
            ("yes", False) if chained else ("no", True)
        )
    assert sum(edge.kind == "chained" for edge in graph.edges) == 3
    given, store = tmp_path / "in.jsonl", str(tmp_path / "store")
    given.write_text(json.dumps(job))
    assert CliRunner().invoke(app, ["plan", str(given), "--out", store]).exit_code == 0
    shown = CliRunner().invoke(app, ["show", store]).stdout
    assert re.search(r"\(chained\)\s+3\s+75.0%\s+SEVERAL_INPUTS\s+1\s", shown)
    said = json.loads(CliRunner().invoke(app, ["show", store, "--json"]).stdout)
    assert (said["chained_edges"], [one["stream_edges"] for one in said["not_chainable_reasons"]]) == (
        3,
        [1, 1],
    )


def test_different_parallelism_is_said_with_its_values():
    graph = graph_of_layer(example_plan("fraud-detection"), DrawnLayer.STREAM_GRAPH)
    said = [text for edge in graph.edges for heading, text in edge.facts if heading == "not chained because"]
    assert any("parallelism differs (8 and 2)" in one for one in said)


def test_an_exchange_of_all_tasks_with_all_goes_through_one_point():
    plan = planned(
        {
            "name": "wide",
            "parallelism": 30,
            "transformations": [
                {"id": 1, "kind": "source", "name": "s"},
                {"id": 2, "kind": "partition", "inputs": [1], "partitioner": "hash"},
                {"id": 3, "kind": "one_input", "name": "m", "inputs": [2]},
                {"id": 4, "kind": "one_input", "name": "n", "inputs": [3], "parallelism": 10},
            ],
        }
    )
    graph = graph_of_layer(plan, DrawnLayer.EXECUTION_GRAPH, "m")
    assert len(graph.edges) == 30 + 30 + 30 + 10  # hash and rebalance, both through a point
    tasks = [node for node in graph.nodes if node.name.startswith("task ")]
    assert len(tasks) == 70


@pytest.mark.parametrize("named", ["0", "Source: Kafka: transactions"])
def test_a_vertex_is_chosen_by_number_or_name(named):
    graph = graph_of_layer(example_plan("fraud-detection"), DrawnLayer.EXECUTION_GRAPH, named)
    assert graph.nodes


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (None, "drawn per vertex; this plan has 5"),
        ("Score by rule", "has no vertex 'Score by rule'"),
        ("9", "0 to 4"),
    ],
)
def test_what_is_wrong_with_a_vertex_is_said(named, said):
    with pytest.raises(ConfigurationError, match=said):
        graph_of_layer(example_plan("fraud-detection"), DrawnLayer.EXECUTION_GRAPH, named)


@pytest.mark.parametrize("layer", [DrawnLayer.STREAM_GRAPH, DrawnLayer.JOB_GRAPH])
@pytest.mark.parametrize("wanted", list(FORMATS))
def test_names_stay_names_in_every_format(wanted, layer):
    text = "".join(rendered([graph_of_layer(planned(hostile_topology()), layer)], wanted))
    assert not OBEYED.search(text.replace("\n", ""))
    if wanted != "dot":  # there, quotes are what holds them
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "</svg></title>" not in text


def test_svg_shows_names_as_text():
    root = ElementTree.fromstring(to_svg(graph_of_layer(planned(hostile_topology()), DrawnLayer.JOB_GRAPH)))
    titles = {one.text for one in root.iter(f"{SVG}title")}
    assert {printable(attack) for attack in ATTACKS} <= titles
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
        "svg",
        "title",
        "style",
        "rect",
        "g",
        "text",
        "path",
    }


def test_texts_stay_in_their_boxes():
    root = ElementTree.fromstring(to_svg(graph_of_layer(planned(hostile_topology()), DrawnLayer.JOB_GRAPH)))
    texts = 0
    for group in root.iter(f"{SVG}g"):
        if group.get("class", "").startswith("node"):
            room = max(float(one.get("width", 0)) for one in group)
            for one in group.iter(f"{SVG}text"):
                texts += 1
                bold = one.get("class") == "first"
                assert text_width(one.text or "", 14.2 if bold else 11) <= room
    assert texts == 2 * (len(ATTACKS) + 1)


def test_graphml_and_networkx_hold_names_whole():
    graph = graph_of_layer(planned(hostile_topology()), DrawnLayer.JOB_GRAPH)
    read = networkx.read_graphml(StringIO("".join(rendered([graph], "graphml"))), force_multigraph=True)
    assert {name for _, name in read.nodes(data="name")} >= {printable(attack) for attack in ATTACKS}
    assert len(read.edges) == len(graph.edges)


def test_dot_quotes_what_ends_a_string():
    dot = "".join(rendered([graph_of_layer(planned(hostile_topology()), DrawnLayer.JOB_GRAPH)], "dot"))
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert re.fullmatch(r"[\w\s{}\[\];=,>-]*", outside)
    assert outside.count("->") == len(ATTACKS)
    assert outside.count("{") == outside.count("}") == 1


def test_mermaid_has_nothing_that_means_something_in_its_labels():
    mermaid = "".join(
        rendered([graph_of_layer(planned(hostile_topology()), DrawnLayer.JOB_GRAPH)], "mermaid")
    )
    for label in re.findall(r'\["(.*)"\]', mermaid):
        assert re.fullmatch(r"(?:[\w .,]|#\d+;|<br/>|[^\x00-\x7f])*", label)


class _Page(HTMLParser):
    """Scripts, styles, policies and attributes of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.policy = ""
        self.inside = ""

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.inside = f"{tag} {known.get('type', '')}".strip()
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"]

    def handle_data(self, data):
        self.texts.setdefault(self.inside, []).append(data)

    def handle_endtag(self, tag):
        self.inside = ""


def test_a_page_needs_nothing_else_and_runs_nothing_else():
    graphs = [
        graph_of_layer(planned(hostile_topology()), layer)
        for layer in (DrawnLayer.JOB_GRAPH, DrawnLayer.STREAM_GRAPH)
    ]
    text = to_html(graphs)
    page = _Page()
    page.feed(text)
    ((script,), (style,)) = page.texts["script"], page.texts["style"]
    assert page.policy.startswith("default-src 'none'")
    assert f"script-src '{hash_of(script)}'" in page.policy
    assert f"style-src '{hash_of(style)}'" in page.policy
    names = {name for _, name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (
        names & {"src", "href", "style", "srcset"}
    )
    assert "@import" not in style
    assert "url(" not in style
    data = json.loads("".join(page.texts["script application/json"]))
    shown = {node["name"] for node in data[0]["nodes"].values()}
    assert shown >= {printable(attack) for attack in ATTACKS}


def test_a_large_graph_is_folded_by_group_and_by_chain():
    count = 2000
    rows = [{"id": 1, "kind": "source", "name": "s"}]
    rows += [
        {
            "id": one,
            "kind": "one_input",
            "name": f"m{one}",
            "inputs": [one - 1],
            "parallelism": 1 + one // 2 % 2,
        }
        for one in range(2, count + 1)
    ]
    plan = planned({"name": "long", "transformations": rows})
    streams = fold(graph_of_layer(plan, DrawnLayer.STREAM_GRAPH), "auto")
    assert len(streams.folded) == 999  # chains of two
    assert not any(node.key in streams.folded for node in streams.nodes if node.inside)
    graph = graph_of_layer(plan, DrawnLayer.JOB_GRAPH)
    assert fold(graph, "auto") == graph.in_memory()
    folded = fold(graph, "group")
    assert len(folded.outermost()) == len(folded.folded) <= 24
    assert sum(node.inside in folded.folded for node in folded.nodes) == len(graph.nodes)
    page = to_html([folded])
    assert page.count("<template id=") == len(folded.folded)
    boxes = list(rectangles(ElementTree.fromstring(to_svg(folded))))
    assert {box.key for box in boxes} == set(folded.folded)
    ordered = sorted(boxes, key=lambda box: int(box.key[1:]))
    assert [box.x for box in ordered] == sorted(box.x for box in ordered)  # parts follow the data


def test_long_names_are_cut():
    assert cut("short", 200, 13) == "short"
    for name in ("x" * 100, "W" * 100, "日本" * 50, "é\u0301" * 90):
        short = cut(name, 120, 13)
        assert short.endswith("…")
        assert text_width(short, 13) <= 120


def test_nodes_are_made_when_they_are_read():
    graph = graph_of_layer(planned(hostile_topology()), DrawnLayer.STREAM_GRAPH)
    nodes = graph.in_memory().nodes
    assert [graph.nodes[place] for place in range(-len(nodes), len(nodes))] == [*nodes, *nodes]
    assert graph.nodes[1:3] == nodes[1:3]
    with pytest.raises(IndexError):
        graph.nodes[len(nodes)]


def test_a_box_has_room_for_all_that_it_writes_to():
    readers = [{"id": i, "kind": "sink", "name": "r", "inputs": [1], "parallelism": 2} for i in range(2, 12)]
    plan = planned({"name": "fan", "transformations": [{"id": 1, "kind": "source", "name": "s"}, *readers]})
    boxes = lay_out(graph_of_layer(plan, DrawnLayer.STREAM_GRAPH)).boxes
    heights = sorted(box.size.height for box in boxes if box.inner is None and not box.is_open)
    assert heights[-1] > 2 * heights[0] == 2 * heights[-2]
