"""Whatever is removed or renamed in a file: its edges and names are planned or listed, or it is refused."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from tests.plans.importing.imports import operators

# Tokens stand for names: unlike any other text, and short, so that no message cuts them off.
TOKEN = re.compile(r"N[0-9]{3}[a-z]Q")


class Model(NamedTuple):
    """A graph: nodes by number with a name each, edges by numbers of nodes; ends with one node."""

    names: list[str]
    edges: list[tuple[int, int]]


def model_of(seed: int) -> Model:
    """Five nodes in layers; each reads one or two of those before it."""
    draw = random.Random(seed)
    names = [f"N{draw.randrange(900) + 100}{letter}Q" for letter in "abcde"]
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), *[(draw.randrange(end), end) for end in (2, 3)]]
    return Model(names, list(dict.fromkeys(edges)))


Pieces = list[str]
"""A file in pieces: each node and each edge is one."""


def lines(head: str, nodes: Iterator[str], edges: Iterator[str], tail: str = "") -> Pieces:
    return [head, *(f"{node}\n" for node in nodes), *(f"{edge}\n" for edge in edges), tail]


def dot(model: Model) -> Pieces:
    return lines(
        "digraph {\n",
        (f'  n{number} [label="{name}", parallelism=2];' for number, name in enumerate(model.names)),
        (f"  n{source} -> n{target} [partitioner=hash];" for source, target in model.edges),
        "}\n",
    )


def graphml(model: Model) -> Pieces:
    head = (
        '<graphml><key id="d0" for="node" attr.name="name"/><key id="d1" for="edge" attr.name="partitioner"/>'
        '<graph edgedefault="directed">\n'
    )
    return lines(
        head,
        (f'<node id="n{k}"><data key="d0">{name}</data></node>' for k, name in enumerate(model.names)),
        (f'<edge source="n{s}" target="n{t}"><data key="d1">hash</data></edge>' for s, t in model.edges),
        "</graph></graphml>\n",
    )


def yed(model: Model) -> Pieces:
    key = '<key id="d6" for="node" yfiles.type="nodegraphics"/>'
    head = f'<graphml xmlns:y="y">{key}<graph edgedefault="directed">\n'
    label = "<data key='d6'><y:ShapeNode><y:NodeLabel>{}</y:NodeLabel></y:ShapeNode></data>"
    return lines(
        head,
        (f'<node id="n{k}">{label.format(name)}</node>' for k, name in enumerate(model.names)),
        (f'<edge source="n{s}" target="n{t}"/>' for s, t in model.edges),
        "</graph></graphml>\n",
    )


def edge_list(separator: str, head: str = "", tail: str = "") -> Callable[[Model], Pieces]:
    def write(model: Model) -> Pieces:
        named = [(model.names[s], model.names[t]) for s, t in model.edges]
        return lines(head, iter(()), (f"{s}{separator}{t}{tail}" for s, t in named))

    return write


def tgf(model: Model) -> Pieces:
    return [
        *(f"{number} {name}\n" for number, name in enumerate(model.names, 1)),
        "#\n",
        *(f"{source + 1} {target + 1} hash\n" for source, target in model.edges),
    ]


def pajek(model: Model) -> Pieces:
    return [
        f"*vertices {len(model.names)}\n",
        *(f'{number} "{name}" 0.0 0.0 ellipse\n' for number, name in enumerate(model.names, 1)),
        "*arcs\n",
        *(f"{source + 1} {target + 1} 1.0 label hash\n" for source, target in model.edges),
    ]


def in_json(
    node: Callable[[int, str], Any], edge: Callable[[int, int], Any], head: str, middle: str, tail: str
) -> Callable[[Model], Pieces]:
    def write(model: Model) -> Pieces:
        nodes = [json.dumps(node(number, name)) for number, name in enumerate(model.names)]
        edges = [json.dumps(edge(source, target)) for source, target in model.edges]
        commas = [", ", "\n"]
        return [
            head,
            *(f"{entry}{commas[entry is nodes[-1]]}" for entry in nodes),
            middle,
            *(f"{entry}{commas[entry is edges[-1]]}" for entry in edges),
            tail,
        ]

    return write


def stg(model: Model) -> Pieces:
    before = [[s for s, t in model.edges if t == number] for number in range(len(model.names))]
    return [
        f"{len(model.names)}\n",
        *(f"{k} 1 {len(those)} {' '.join(map(str, those))}\n" for k, those in enumerate(before)),
    ]


def daggen(model: Model) -> Pieces:
    after = [[t for s, t in model.edges if s == number] for number in range(len(model.names))]
    return [
        f"NODE_COUNT {len(model.names)}\n",
        *(
            f"NODE {k} {','.join(map(str, those)) or '-'} COMPUTATION 1 0.5\n"
            for k, those in enumerate(after)
        ),
    ]


def dax(model: Model) -> Pieces:
    return lines(
        '<adag name="wf">\n',
        (f'<job id="ID{number}" name="{name}"/>' for number, name in enumerate(model.names)),
        (f'<child ref="ID{target}"><parent ref="ID{source}"/></child>' for source, target in model.edges),
        "</adag>\n",
    )


def pegasus(model: Model) -> Pieces:
    return [
        "pegasus: '5.0'\nname: wf\njobs:\n",
        *(f"- {{type: job, id: ID{number}, name: {name}}}\n" for number, name in enumerate(model.names)),
        "jobDependencies:\n",
        *(f"- {{id: ID{source}, children: [ID{target}]}}\n" for source, target in model.edges),
    ]


def alibaba(model: Model) -> Pieces:
    before = [[s + 1 for s, t in model.edges if t == number] for number in range(len(model.names))]
    return [
        f"M{'_'.join(map(str, [k, *those]))},2,j_1,1,Terminated,1,2,100,0.5\n"
        for k, those in enumerate(before, 1)
    ]


def wfformat(model: Model) -> Pieces:
    def task(number: int, name: str) -> str:
        parents = [f"T{source}" for source, target in model.edges if target == number]
        return json.dumps({"name": name, "id": f"T{number}", "parents": parents, "children": []})

    tasks = [task(number, name) for number, name in enumerate(model.names)]
    return [
        '{"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [',
        *(f"{entry}, " for entry in tasks[:-1]),
        tasks[-1],
        "]}}}",
    ]


def execution_plan(model: Model) -> Pieces:
    def node(number: int, name: str) -> str:
        inputs = [
            {"id": s + 1, "ship_strategy": "HASH", "side": "second"} for s, t in model.edges if t == number
        ]
        pact = "Operator" if inputs else "Data Source"
        known = {"id": number + 1, "type": name, "pact": pact, "contents": name, "parallelism": 1}
        return json.dumps({**known, **({"predecessors": inputs} if inputs else {})})

    nodes = [node(number, name) for number, name in enumerate(model.names)]
    return ['{"nodes": [', *(f"{entry}, " for entry in nodes[:-1]), nodes[-1], "]}"]


def flink_plan(model: Model) -> Pieces:
    def node(number: int, name: str) -> str:
        inputs = [
            {"num": place, "id": f"{s:032x}", "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
            for place, (s, t) in enumerate(edge for edge in model.edges if edge[1] == number)
        ]
        known = {"id": f"{number:032x}", "parallelism": 1, "operator": "", "operator_strategy": ""}
        return json.dumps({**known, "description": f"{name}<br/>", "inputs": inputs})

    nodes = [node(number, name) for number, name in enumerate(model.names)]
    return [
        '{"plan": {"jid": "a", "name": "j", "nodes": [',
        *(f"{entry}, " for entry in nodes[:-1]),
        nodes[-1],
        "]}}",
    ]


def explain(model: Model) -> Pieces:
    """A chain, each operator below the one that reads it."""
    rows = [
        f"{'   ' * depth}{'+- ' if depth >= 0 else ''}{name}(a=[b])\n"
        for depth, name in enumerate(model.names[1:])
    ]
    return ["== Optimized Execution Plan ==\n", f"{model.names[0]}(a=[b])\n", *rows]


def ends(source: str, target: str, prefix: str = "") -> Callable[[int, int], Any]:
    return lambda one, other: {source: f"{prefix}{one}", target: f"{prefix}{other}", "partitioner": "hash"}


FORMS: dict[str, tuple[str, Callable[[Model], Pieces]]] = {
    "dot": ("a.dot", dot),
    "graphml": ("a.graphml", graphml),
    "yed": ("a.graphml", yed),
    "csv": ("a.csv", edge_list(",", "source,target,partitioner\n", ",hash")),
    "csv without a header": ("a.csv", edge_list(",", tail=",hash")),
    "semicolons": ("a.csv", edge_list(";", "from;to\n")),
    "tsv": ("a.tsv", edge_list("\t")),
    "spaces": ("a.edges", edge_list(" ", "% a comment\n", " hash")),
    "arrows": ("a.txt", edge_list(" -> ")),
    "dicts": ("a.edgelist", edge_list(" ", tail=" {'partitioner': 'hash'}")),
    "tgf": ("a.tgf", tgf),
    "pajek": ("a.net", pajek),
    "node-link": (
        "a.json",
        in_json(
            lambda k, name: {"id": k, "name": name}, lambda s, t: {"source": s, "target": t},
            '{"directed": true, "multigraph": false, "graph": {}, "nodes": [\n', '], "links": [\n', "]}\n",
        ),
    ),
    "vis.js": (
        "a.json",
        in_json(lambda k, name: {"id": f"n{k}", "label": name}, ends("from", "to", "n"),
                '{"nodes": [\n', '], "edges": [\n', "]}\n"),
    ),
    "d3": (
        "a.json",
        in_json(lambda k, name: {"name": name, "group": k}, lambda s, t: {"source": s, "target": t, "w": 1},
                '{"nodes": [\n', '], "links": [\n', "]}\n"),
    ),
    "cytoscape": (
        "a.json",
        in_json(lambda k, name: {"data": {"id": f"n{k}", "name": name}},
                lambda s, t: {"data": {"source": f"n{s}", "target": f"n{t}"}},
                '{"elements": {"nodes": [\n', '], "edges": [\n', "]}}\n"),
    ),
    "json graph": (
        "a.json",
        in_json(lambda k, name: {"id": f"n{k}", "label": name}, ends("source", "target", "n"),
                '{"graph": {"directed": true, "nodes": [\n', '], "edges": [\n', "]}}\n"),
    ),
    "arroyo": (
        "a.json",
        in_json(lambda k, name: {"nodeId": k, "operator": "x", "description": name, "parallelism": 2},
                lambda s, t: {"srcId": s, "destId": t, "edgeType": "Shuffle"},
                '{"nodes": [\n', '], "edges": [\n', "]}\n"),
    ),
    "stg": ("a.stg", stg),
    "daggen": ("a.txt", daggen),
    "dax": ("a.dax", dax),
    "pegasus": ("a.yml", pegasus),
    "alibaba": ("batch_task.csv", alibaba),
    "wfformat": ("a.json", wfformat),
    "execution plan": ("a.json", execution_plan),
    "flink plan": ("a.json", flink_plan),
    "explain": ("a.txt", explain),
}  # fmt: skip


def mutated(pieces: Pieces, draw: random.Random) -> tuple[Pieces, int]:
    """The pieces with one of them removed, repeated, changed inside, or the last, and its place."""
    place = draw.randrange(len(pieces))
    piece = pieces[place]
    words = [match.span() for match in re.finditer(r"[A-Za-z_]\w*|\d+|\S", piece)]
    if not words:
        return pieces, -1
    begin, end = draw.choice(words)
    match draw.randrange(7):
        case 0:
            new = ""
        case 1:
            new = piece * 2
        case 2:
            new = piece[:begin] + piece[end:]
        case 3:
            new = piece[:end] + "x" + piece[end:]
        case 4:
            return [*pieces[:place], piece[:end]], place
        case 5:
            new = piece[:begin] + draw.choice("\"'#;,>{}[]:=\\ 07Zé\u2028-%/") + piece[end:]
        case _:
            new = piece[:begin] + piece[begin:end].swapcase() + piece[end:]
    return [*pieces[:place], new, *pieces[place + 1 :]], place


def run(path: Path) -> tuple[int, list[dict[str, Any]], str]:
    result = CliRunner().invoke(app, ["import", str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "internal error" not in result.stderr
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def planned_edges(topology: dict[str, Any]) -> list[tuple[str, str]]:
    if "stream_graph" in topology:
        names = {node["id"]: node["name"] for node in topology["stream_graph"]["nodes"]}
        return [(names[edge["source"]], names[edge["target"]]) for edge in topology["stream_graph"]["edges"]]
    return [(read.split(" ")[0], name) for _, name, reads in operators(topology) for read in reads]


def lost(path: Path, form: str, seed: int) -> str | None:
    """What is lost of a file that a seed makes: neither planned nor listed, and the file not refused."""
    name, write = FORMS[form]
    model = model_of(seed)
    before = write(model)
    pieces, place = mutated(before, random.Random(f"{form} {seed}"))
    file = path / name
    file.write_bytes("".join(pieces).encode())
    code, topologies, said = run(file)
    assert code in (0, 3, 7), said
    if code:
        return None if said.startswith(("penstock: ", "refused: ")) else f"no reason: {said}"
    written = json.dumps(topologies) + said
    missing = set(TOKEN.findall("".join(pieces))) - set(TOKEN.findall(written))
    # The values of attributes that are listed are not.
    listed = {name.strip("'") for name in re.findall(r"(?:attribute\s+|nodes\.)(\S*?)[;\n]", said)}
    if missing and not any(attribute in pieces[place] for attribute in listed):
        return f"names {missing} of {''.join(pieces)!r}; said {said}"
    if form not in ("stg", "daggen", "alibaba", "wfformat", "execution plan", "flink plan", "explain"):
        same = zip(pieces, before, strict=False)
        changed = {number for number, (one, other) in enumerate(same) if one != other}
        changed.update(range(len(pieces), len(before)))
        first = len(before) - (before[-1][:1] in ("", "}", "]", "<")) - len(model.edges)
        kept = [edge for number, edge in enumerate(model.edges, first) if number not in changed]
        found = sum(len(planned_edges(topology)) for topology in topologies)
        if found < len(kept):
            return f"{len(kept)} edges, {found} planned, of {''.join(pieces)!r}; said {said}"
    return None


@pytest.mark.parametrize("form", FORMS)
def test_files_as_they_are_written(tmp_path, form):
    name, write = FORMS[form]
    model = model_of(1)
    (tmp_path / name).write_text("".join(write(model)))
    code, (topology,), said = run(tmp_path / name)
    assert code == 0
    if form == "explain":
        return
    assert len(planned_edges(topology)) == len(model.edges), said
    if form not in ("stg", "daggen", "alibaba"):
        strip = re.compile(r"_?(ID|T)\d$")
        found = {tuple(strip.sub("", end) for end in edge) for edge in planned_edges(topology)}
        assert found == {(model.names[source], model.names[target]) for source, target in model.edges}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_what_is_removed_or_renamed_is_no_silent_loss(tmp_path, form):
    for seed in range(15):
        assert lost(tmp_path, form, seed) is None
