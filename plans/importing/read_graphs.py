"""Files of graphs, by what their names end in."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.plans.bounds import bounded_file, bounded_seconds, bounded_text
from penstock.plans.importing.given_graph import GivenGraph
from penstock.plans.importing.known_forms import name_of_file
from penstock.plans.importing.read_dot import read_dot
from penstock.plans.importing.read_edge_list import SEPARATORS, read_edge_list
from penstock.plans.importing.read_graphml import read_graphml
from penstock.plans.importing.recognise_content import Content, NoJob, content_of, json_in_text, read_explain
from penstock.plans.importing.task_graphs import read_alibaba, read_dax, read_pegasus, read_stg
from penstock.plans.topology.input_errors import unreadable_file
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

_LOOKED_AT_BYTES = 1 << 16

DOT, GRAPHML, EDGE_LIST = "dot", "graphml", "edge-list"
_FORMS = {
    ".dot": DOT,
    ".gv": DOT,
    ".graphml": GRAPHML,
    ".csv": EDGE_LIST,
    ".tsv": EDGE_LIST,
    ".edges": EDGE_LIST,
    ".edgelist": EDGE_LIST,
    ".txt": EDGE_LIST,
}
"""What a graph's file ends in, before the ending of a packed one, and its form."""


def form_of_graph(file: str) -> str | None:
    """The form of a file by its name, one of those above; None for any other."""
    return _FORMS.get(_ending(file))


def begins_as_json(file: str) -> bool:
    """Whether the content of a local file begins like JSON, regardless of its name."""
    beginning = next(iter(texts_of_file(file)), b"")[:_LOOKED_AT_BYTES]
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def recognised(file: str) -> Content | NoJob | None:
    """The kind of a local file by its first bytes, regardless of its name; None if they do not tell."""
    return content_of(next(iter(texts_of_file(file)), b"")[:_LOOKED_AT_BYTES])


def read_recognised(file: str, content: Content) -> Iterator[GivenGraph | dict[str, Any]]:
    """Graphs of a local file, or Flink's JSON of a plan in it. Raises InputError, as read_graphs."""
    with bounded_file(file), bounded_seconds():
        graphs = _read_recognised(file, content, name_of_file(file, 0))
    yield from graphs


def _read_recognised(file: str, content: Content, name: str) -> Sequence[GivenGraph | dict[str, Any]]:
    if content is Content.GRAPHML:
        return _read(file, GRAPHML, name)
    whole = bounded_text(texts_of_file(file))
    if content is Content.DAX:
        return [read_dax(whole, file, name)]
    try:
        text = whole.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise unreadable_file(file, f"byte {error.start:,} is not UTF-8") from None
    match content:
        case Content.STG:
            return [read_stg(text, file, name)]
        case Content.PEGASUS:
            return [read_pegasus(text, file, name)]
        case Content.ALIBABA:
            return read_alibaba(text, file)
        case Content.PLAN_NODES:
            return [{"name": name, "nodes": _array(text, file)}]
    document = json_in_text(text)
    if document is not None:
        return [{"name": name, **document}]
    if content is Content.FLINK_INFO:
        raise unreadable_file(file, "what flink info prints, without the JSON of a plan")
    return [read_explain(text, file, name)]


def _array(text: str, file: str) -> list[Any]:
    try:
        nodes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable_file(file, f"an array of a plan's nodes: {error}") from None
    return list(nodes)


def read_graphs(file: str, form: str) -> Iterator[GivenGraph]:
    """The graphs of a local file, which are named by the file where they have no name.

    Raises InputError, also for a file that stands for too much (see plans.bounds).
    """
    with bounded_file(file), bounded_seconds():
        graphs = _read(file, form, name_of_file(file, 0))
    yield from graphs


def _read(file: str, form: str, name: str) -> list[GivenGraph]:
    whole = bounded_text(texts_of_file(file))
    if form == GRAPHML:
        return [read_graphml(whole, file, name)]
    try:
        text = whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable_file(file, f"byte {error.start:,} is not UTF-8") from None
    if form == DOT:
        return read_dot(text, file, name)
    return [read_edge_list(text, SEPARATORS.get(_ending(file)), file, name)]


def _ending(file: str) -> str:
    stem, ending = os.path.splitext(file)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ending.lower()
