"""Flink's description of each job vertex: the operators of its chain, as a tree or on one line.

Source: StreamingJobGraphGenerator.setVertexDescription; JsonPlanGenerator, which writes it as HTML.
"""

from collections.abc import Callable, Iterator, Sequence
from html.entities import codepoint2name

import polars as pl

from penstock.plans.columnar.frames import join_topology
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.plan_json.columnar.json_text import Tables
from penstock.plans.tables.column_types import TOPOLOGY

LONGEST_DESCRIPTION = 1 << 28
"""Characters. The tree of a chain of n operators has 3 n² / 2: some 13,000 operators."""

_AS_HTML = {chr(code): f"&{name};" for code, name in codepoint2name.items()} | {
    "\n": "<br/>",
    "\\": "&#92;",
}
"""As org.apache.commons.text.StringEscapeUtils.escapeHtml4, and what JsonPlanGenerator replaces after it."""

SHOWN = pl.coalesce("description", "name")
"""What Flink shows of a stream node: Transformation.getDescription, which is its name at first."""

Children = Sequence[Sequence[int]]
Describe = Callable[[int, Children, Sequence[str]], Iterator[str]]


def describe_vertices(tables: Tables) -> pl.DataFrame:
    """`job_vertices` with `description`, HTML, in the vertex_description_mode of the job.

    Raises NotEnoughMemoryError if a description would be longer than LONGEST_DESCRIPTION.
    """
    nodes = tables["stream_nodes"].with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    rows = nodes.select(TOPOLOGY, "id", "row")
    edges = join_topology(tables["stream_edges"], rows.rename({"row": "source_row"}), {"source": "id"})
    edges = join_topology(edges, rows.rename({"row": "target_row"}), {"target": "id"})
    texts = _with_chained_sources(nodes.select(SHOWN).to_series().to_list(), edges)
    children: list[list[int]] = [[] for _ in texts]
    chained = edges.filter(pl.col("chainable") & ~pl.col("chained_source")).sort("source_row", "out_index")
    for source, target in chained.select("source_row", "target_row").iter_rows():
        children[source].append(target)
    modes = tables["job_settings"].select(TOPOLOGY, "vertex_description_mode")
    vertices = join_topology(join_topology(tables["job_vertices"], rows, {"vertex": "id"}), modes, {})
    described = [
        "".join(_DESCRIBE[mode](head, children, texts))
        for head, mode in vertices.select("row", "vertex_description_mode").iter_rows()
    ]
    description = pl.Series("description", described, pl.String).str.replace_many(_AS_HTML)
    return vertices.with_columns(description)


def _with_chained_sources(names: list[str], edges: pl.DataFrame) -> list[str]:
    """The descriptions of all nodes, those of multiple-input heads with the sources that run inside them."""
    sources: dict[int, list[str]] = {}
    inside = edges.filter(pl.col("chained_source")).sort("target_row", "in_index")
    for source, target in inside.select("source_row", "target_row").iter_rows():
        sources.setdefault(target, []).append(names[source])
    texts = names.copy()
    for target, listed in sources.items():
        texts[target] = f"{names[target]} [{', '.join(listed)}]"
    return texts


def _tree(head: int, children: Children, texts: Sequence[str]) -> Iterator[str]:
    """One line per operator, indented by its depth."""
    characters = 0
    waiting = [(head, "", "")]
    while waiting:
        node, prefix, below = waiting.pop()
        characters += len(prefix) + len(texts[node])
        if characters > LONGEST_DESCRIPTION:
            raise NotEnoughMemoryError(
                f"the chain of {texts[head]!r} is too long for Flink's description of it as a tree",
                "set pipeline.vertex-description-mode to CASCADING, and plan again",
            )
        yield f"{prefix}{texts[node]}\n"
        mine = children[node]
        if mine:
            waiting.append((mine[-1], f"{below}+- ", f"{below}   "))
            waiting += [(child, f"{below}:- ", f"{below}:  ") for child in mine[-2::-1]]


def _cascade(head: int, children: Children, texts: Sequence[str]) -> Iterator[str]:
    """All operators on one line: a -> (b -> c , d)."""
    waiting: list[int | str] = [head]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
            continue
        yield texts[one]
        if mine := children[one]:
            yield " -> " if len(mine) == 1 else " -> ("
            if len(mine) > 1:
                waiting.append(")")
            for place, child in enumerate(reversed(mine)):
                if place:
                    waiting.append(" , ")
                waiting.append(child)


_DESCRIBE: dict[str, Describe] = {"TREE": _tree, "CASCADING": _cascade}
