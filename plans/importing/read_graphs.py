"""Read files of graphs, by file extension or content."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import bounded_file, bounded_seconds, bounded_text
from penstock.plans.importing.given_graph import GivenGraph
from penstock.plans.importing.known_forms import name_of_file
from penstock.plans.importing.read_dot import read_dot
from penstock.plans.importing.read_edge_list import SEPARATORS, read_edge_list
from penstock.plans.importing.read_graphml import read_graphml
from penstock.plans.importing.read_pajek import read_pajek
from penstock.plans.importing.recognise_content import (
    Content,
    NoJob,
    content_of,
    json_in_text,
    read_explain,
    unknown_text,
)
from penstock.plans.importing.task_graphs import read_alibaba, read_daggen, read_dax, read_pegasus, read_stg
from penstock.plans.topology.input_errors import unreadable_file
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

_ENCODING = "save it as UTF-8"
_SAMPLE_BYTES = 1 << 16

DOT, GRAPHML, EDGE_LIST = "dot", "graphml", "edge-list"
_FORMS = {
    ".dot": DOT,
    ".gv": DOT,
    ".graphml": GRAPHML,
    ".csv": EDGE_LIST,
    ".tsv": EDGE_LIST,
    ".edges": EDGE_LIST,
    ".edgelist": EDGE_LIST,
    ".adjlist": EDGE_LIST,
    ".tgf": EDGE_LIST,
    ".txt": EDGE_LIST,
}
"""Extension of a graph's file, before the extension of a compressed one, to its form."""


def form_of_graph(file: str) -> str | None:
    """Return the form of a file by its name; None for any other."""
    return _FORMS.get(_ending(file))


def begins_as_json(path: str) -> bool:
    """Return whether the content of a local file begins like JSON, regardless of its name."""
    return _beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def recognised(path: str) -> Content | NoJob | None:
    """Return the kind of a local file by its first bytes, regardless of its name; None if undetermined."""
    return content_of(_beginning(path))


def unknown_kind(path: str) -> NoJob | None:
    """Describe a local file whose form neither its name nor its content reveals; None if it may be JSON."""
    return unknown_text(_beginning(path))


def _beginning(path: str) -> bytes:
    return next(iter(texts_of_file(path)), b"")[:_SAMPLE_BYTES]


def read_recognised(
    file: str, content: Content, path: str | None = None
) -> Iterator[GivenGraph | dict[str, Any]]:
    """Yield graphs of a local file, or Flink's JSON of a plan in it. Raises InputError, as read_graphs."""
    with bounded_file(file), bounded_seconds():
        graphs = _read_recognised(file, content, path or file)
    yield from graphs


def _read_recognised(file: str, content: Content, path: str) -> Sequence[GivenGraph | dict[str, Any]]:
    name = name_of_file(file, 0)
    whole = bounded_text(texts_of_file(path))
    if content in (Content.GRAPHML, Content.DAX):
        return [(read_graphml if content is Content.GRAPHML else read_dax)(whole, file, name)]
    text = _decoded(whole, file)
    if content in _TEXT_READERS:
        return [_TEXT_READERS[content](text, file, name)]
    match content:
        case Content.DOT:
            return read_dot(text, file, name)
        case Content.ALIBABA:
            return read_alibaba(text, file)
        case Content.PLAN_NODES:
            return [{"name": name, "nodes": _array(text, file, "a plan's nodes")}]
        case Content.JSON_ARRAY:
            entries = _array(text, file, "edges or elements")
            is_edges = any(type(entry) is dict and "data" not in entry for entry in entries)
            return [{"links" if is_edges else "elements": entries}]
    document = json_in_text(text)
    if document is not None:
        return [{"name": name, **document}]
    if content is Content.FLINK_INFO:
        raise unreadable_file(file, "output of flink info without the JSON of a plan")
    return [read_explain(text, file, name)]


_TEXT_READERS: dict[Content, Callable[[str, str, str], GivenGraph]] = {
    Content.STG: read_stg,
    Content.PEGASUS: read_pegasus,
    Content.PAJEK: read_pajek,
    Content.DAGGEN: read_daggen,
}


def _decoded(whole: bytes, file: str) -> str:
    """Return the text of a file, with line feeds as line ends."""
    try:
        text = whole.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {file}: byte {error.start:,} is not UTF-8", _ENCODING) from None
    if "\0" in text:
        raise InputError(
            f"cannot read {file}: it contains a zero byte, like UTF-16 and binary files", _ENCODING
        )
    return text


def _array(text: str, file: str, items: str) -> list[Any]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable_file(file, f"an array of {items}: {error}") from None
    return list(entries)


def read_graphs(file: str, form: str, path: str | None = None) -> Iterator[GivenGraph]:
    """Yield the graphs of a local file; graphs without a name are named after the file.

    `path`: the location of its content, if it was copied. Raises InputError, also if a limit is exceeded (see
    importing.bounds).
    """
    with bounded_file(file), bounded_seconds():
        graphs = _read(file, form, path or file)
    yield from graphs


def _read(file: str, form: str, path: str) -> list[GivenGraph]:
    name = name_of_file(file, 0)
    whole = bounded_text(texts_of_file(path))
    if form == GRAPHML:
        return [read_graphml(whole, file, name)]
    text = _decoded(whole, file)
    if form == DOT:
        return read_dot(text, file, name)
    return [read_edge_list(text, SEPARATORS.get(_ending(file)), file, name)]


def _ending(file: str) -> str:
    stem, ending = os.path.splitext(file)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ending.lower()
