"""Read files of graphs, by content or by file extension."""

from collections.abc import Iterator
from typing import Any

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import bounded_file, bounded_seconds, bounded_text
from penstock.plans.importing.given_graph import GivenGraph
from penstock.plans.importing.importers import Importer, NoJob, content_of, unknown_text
from penstock.plans.importing.known_forms import name_of_file
from penstock.plans.topology.unpacked_texts import texts_of_file

_ENCODING = "save it as UTF-8"
_SAMPLE_BYTES = 1 << 16


def begins_as_json(path: str) -> bool:
    """Return whether the content of a local file begins like JSON, regardless of its name."""
    return _beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def recognised(path: str) -> Importer | NoJob | None:
    """Return the importer of a local file by its first bytes; None if they do not tell."""
    return content_of(_beginning(path))


def unknown_kind(path: str) -> NoJob | None:
    """Describe a local file whose form neither its name nor its content reveals; None if it may be JSON."""
    return unknown_text(_beginning(path))


def _beginning(path: str) -> bytes:
    return next(iter(texts_of_file(path)), b"")[:_SAMPLE_BYTES]


def read_graphs(
    file: str, importer: Importer, path: str | None = None
) -> Iterator[GivenGraph | dict[str, Any]]:
    """Yield the graphs of a local file, or Flink's JSON of a plan in it.

    Graphs without a name are named after the file. `path`: the location of its content, if it was copied.
    Raises InputError, also if a limit is exceeded (see importing.bounds).
    """
    with bounded_file(file), bounded_seconds():
        whole = bounded_text(texts_of_file(path or file))
        text = whole if importer.in_bytes else _decoded(whole, file)
        read = importer.read(text, file, name_of_file(file, 0))
    yield from read if isinstance(read, list) else [read]


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
