"""The command `penstock import`, which turns graphs and plans of other tools into topology lines."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from textwrap import wrap
from typing import Annotated, Any

import orjson
import polars as pl
import typer

from penstock.engine.library.given_topologies import known_keys
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_source import SourceKind, identify_source
from penstock.plans.errors import (
    ConfigurationError,
    ErrorKind,
    InputError,
    RefusedTopologiesError,
    TopologyError,
)
from penstock.plans.importing.given_graph import (
    ASSUMED_KEY,
    FILE_KEY,
    FORM_KEY,
    IGNORED_KEY,
    GivenGraph,
    Imported,
    ImportOptions,
    SeveralInputs,
    topology_of_graph,
)
from penstock.plans.importing.importers import READ_FORMS, NoJob, importer_of_name
from penstock.plans.importing.known_forms import as_topology, unknown_form
from penstock.plans.importing.node_errors import graph_errors
from penstock.plans.importing.read_graphs import (
    begins_as_json,
    read_graphs,
    recognised,
    unknown_kind,
)
from penstock.plans.printable import first_and_count
from penstock.plans.topology.find_topology_files import STANDARD_INPUT, find_topology_files, is_pipe
from penstock.plans.topology.input_errors import MAX_LINE_BYTES, line_too_long, nothing_to_import
from penstock.plans.topology.parse_block import LineBlock
from penstock.plans.topology.parse_lines import lines_of
from penstock.plans.topology.read_topology_files import blocks_of_files
from penstock.plans.topology.unpacked_texts import texts_of_file
from penstock.plans.topology.validate_topology import parse_topology, validate_topology
from penstock.plans.vocabulary import Partitioner

# Print the keys that were assumed or ignored for topologies imported from other forms.


_MOST = 20
_WIDTH = 80


def print_imports(store: str, version: int, inputs: Mapping[str, str]) -> None:
    """Print, for each file and form of imported topologies of a version, which keys were assumed or ignored.

    `store` is local; `inputs` maps paths to the names that the user knows files by, where they differ.
    """
    imports = (
        open_plan(store, version)
        .table("topologies")
        .select(
            file="source_file",
            **{
                key: pl.col("config").map.get(name)
                for key, name in (("form", FORM_KEY), ("assumed", ASSUMED_KEY), ("ignored", IGNORED_KEY))
            },
        )
        .filter(pl.col("form").is_not_null())
        .group_by("file", "form", "assumed", "ignored")
        .len()
        .sort("file", "form", "assumed", "ignored")
        .collect()
    )
    for file, form, assumed, ignored, count in imports.head(_MOST).iter_rows():
        _print_import(count, inputs.get(file, file) or "objects", form, assumed or "", ignored or "")
    if len(imports) > _MOST:
        print_beside_output(f"and {len(imports) - _MOST:,} more files with imported topologies")


def _print_import(count: int, file: str, form: str, assumed: str, ignored: str) -> None:
    """Print how many topologies of a file came from which form, and which keys were assumed and ignored."""
    many = "topology" if count == 1 else "topologies"
    print_beside_output(f"{file}: {count:,} {many} imported from {form}")
    for heading, listed in (("assumed", assumed), ("ignored", ignored)):
        if listed:
            for line in wrap(f"{heading}: {listed}", _WIDTH, initial_indent="  ", subsequent_indent="    "):
                print_beside_output(line)


_MOST_REFUSED = 20
_MOST_NOTES = 40
_NO_FILE = {STANDARD_INPUT: "-"}


def import_command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="DOT (.dot, .gv), GraphML (.graphml), edge lists (.csv, .tsv, .edges, .txt); by content: "
            f"{READ_FORMS}; directories and globs of them, - for standard input.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Default: standard output; .gz is compressed."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Default: the graph's, else the file's name.")
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option("--parallelism", min=1, help="For operators that have none; default: 1.")
    ] = None,
    partitioner: Annotated[
        Partitioner | None,
        typer.Option(
            "--partitioner",
            metavar="NAME",
            help=f"For edges that have none: {', '.join(Partitioner)}. Default: Flink's choice.",
        ),
    ] = None,
    several_inputs: Annotated[
        SeveralInputs,
        typer.Option(
            "--several-inputs",
            metavar="WHAT",
            help="Nodes with several inputs: operator (two_input, multi_input), or union (one_input).",
        ),
    ] = SeveralInputs.OPERATOR,
    take: Annotated[
        list[str] | None,
        typer.Option(
            "--take",
            metavar="KEY=ATTRIBUTE",
            help="Read a key of topology files from this attribute, e.g. parallelism=coreCount. Repeatable.",
        ),
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Edges point from a consumer to its input.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 7 if any graph is refused.")] = False,
) -> None:
    """Turn graphs and workflows of other tools into topology lines, for penstock plan.

    Each node becomes an operator, each edge an edge; attributes named as keys of topology files are taken.
    Assumptions are listed on standard error and in each topology's config. Graphs with cycles, undirected and
    empty graphs are refused.

    Examples:
        penstock import graph.dot --out jobs.jsonl
        penstock import workflows/*.json --reverse --out jobs.jsonl

    Exit codes:
        3: A file cannot be read, or its form is not known.
        7: All graphs were refused, or any with --strict.
    """
    options = ImportOptions(
        parallelism, None if partitioner is None else str(partitioner), several_inputs, _taken(take), reverse
    )
    refused = _Refusals()
    imports: dict[tuple[str, str], _Notes] = {}
    written = 0

    def lines() -> Iterator[str]:
        nonlocal written
        names: set[str] = set()
        for where, file, imported in _imported(files, options, report):
            if isinstance(imported, InputError):
                hint = "" if imported.hint is None else f"; {imported.hint}"
                refused.add("", file, f"{imported.message}{hint}")
                continue
            errors = imported if isinstance(imported, list) else []
            topology = {} if isinstance(imported, list) else _named(imported, name, names)
            config = topology.get("config", {})
            is_imported = type(config) is dict and FORM_KEY in config
            if not errors and not is_imported and (unknown := unknown_form(topology)):
                errors = [unknown]
            errors = errors or (graph_errors if is_imported else validate_topology)(topology)
            if errors:
                why = first_and_count([error.message for error in errors], "; ")
                is_json = errors[0].error != ErrorKind.NOT_JSON
                refused.add(f"{where}: ", file, why, why if is_json else ErrorKind.NOT_JSON)
                continue
            if is_imported:
                imports.setdefault((file, config[FORM_KEY]), _Notes()).add(config)
                topology = {**topology, "config": {**config, FILE_KEY: _NO_FILE.get(file, file)}}
            written += 1
            yield orjson.dumps(topology).decode()
        if not written:  # raised here, so that an existing file is not replaced
            raise _NothingImportedError if refused.count else nothing_to_import(inputs)

    for path in inputs:
        _require_importable(path)
    files = find_topology_files(inputs)
    with progress(len(files)) as report, suppress(_NothingImportedError):
        write_texts(lines(), out)
    for (file, form), notes in imports.items():
        _print_import(notes.count, file, form, notes.joined(notes.assumed), notes.joined(notes.ignored))
    for line in refused.lines():
        print_beside_output(f"refused: {line}")
    if refused.more > 0:
        print_beside_output(f"and {refused.more:,} more were refused")
    if refused.count and (strict or not written):
        raise RefusedTopologiesError(
            f"{refused.count:,} of {written + refused.count:,} graphs were refused",
            "the lines above give the reasons",
        )


def _require_importable(path: str) -> None:
    """Raise InputError if the path exists, but is neither a graph nor JSON."""
    if os.path.isfile(path) and not path.endswith(".py"):  # its reader reports errors
        return
    source = identify_source(path)
    if source.kind not in (SourceKind.GRAPH, SourceKind.TOPOLOGIES):
        raise InputError(
            f"{path}: must be a graph or JSON, got {source.kind}",
            f"penstock plan {path} --out store accepts it",
        )


class _NothingImportedError(Exception):
    """All graphs were refused."""


class _Refusals:
    """Count refused graphs and keep the first reasons; objects of a file that share a reason share a line."""

    def __init__(self) -> None:
        self.count = self.more = 0
        self._first: dict[tuple[str, str], tuple[str, int]] = {}  # line and count, by file and reason

    def add(self, where: str, file: str, why: str, kind: str | None = None) -> None:
        """Add a graph. Objects with equal `kind` (default: `why`) share a line."""
        self.count += 1
        line, count = self._first.get((file, kind or why), (f"{where}{why}", 0))
        if count or len(self._first) < _MOST_REFUSED:
            self._first[file, kind or why] = line, count + 1
        else:
            self.more += 1

    def lines(self) -> list[str]:
        """Format a line for each reason, with the number of other objects of the file that have it."""
        return [
            line if count == 1 else f"{line} (and {count - 1:,} more like it in the file)"
            for line, count in self._first.values()
        ]


class _Notes:
    """Notes on assumed and ignored keys of a file's topologies, without repetitions."""

    def __init__(self) -> None:
        self.count = 0
        self.assumed: dict[str, None] = {}
        self.ignored: dict[str, None] = {}

    def add(self, config: dict[str, str]) -> None:
        self.count += 1
        for notes, key in ((self.assumed, ASSUMED_KEY), (self.ignored, IGNORED_KEY)):
            if key in config:
                notes[config[key]] = None

    def joined(self, notes: dict[str, None]) -> str:
        """Join the notes of all topologies without repetitions; long lists end with a count."""
        if len(notes) == 1:
            return next(iter(notes))
        parts = list(dict.fromkeys(part for note in notes for part in note.split("; ")))
        return first_and_count(parts, "; ", most=_MOST_NOTES)


def _taken(take: list[str] | None) -> dict[str, str]:
    attributes = {}
    for pair in take or ():
        key, equals, attribute = pair.partition("=")
        if not equals or not attribute:
            raise ConfigurationError(f"--take {pair!r}", "write KEY=ATTRIBUTE, e.g. parallelism=coreCount")
        attributes[key] = attribute
    return dict(known_keys("--take", attributes))


def _imported(
    files: list[str], options: ImportOptions, report: Report
) -> Iterator[tuple[str, str, Imported | InputError]]:
    """Yield place, file, and topology or errors, for each graph or JSON object of the files.

    Raises InputError if the only file cannot be read; one unreadable file of several is refused.
    """
    for file in files:
        report(f"read {file}")
        try:
            with _content_of(file) as path:
                yield from _import_file(file, path, options)
        except InputError as error:
            if len(files) == 1:
                raise
            yield file, file, error


@contextmanager
def _content_of(file: str) -> Iterator[str]:
    """Return a path that can be read several times, which is a copy if `file` is a pipe."""
    if not is_pipe(file):
        yield file
        return
    with NamedTemporaryFile(prefix="penstock-import-") as copy:
        for text in texts_of_file(file):
            copy.write(text)
        copy.flush()
        yield copy.name


def _import_file(file: str, path: str, options: ImportOptions) -> Iterator[tuple[str, str, Imported]]:
    content = recognised(path)
    if isinstance(content, NoJob):
        raise InputError(f"{file}: this is {content.what}, not the graph of a job", content.hint)
    if content is not None:
        for content_item in read_graphs(file, content, path):
            if isinstance(content_item, GivenGraph):
                imported = topology_of_graph(content_item, content.form, options)
                yield f"{file}: {content_item.name}", file, imported
            else:
                yield file, file, as_topology(content_item, file, 0, options)
        return
    importer = None if begins_as_json(path) else importer_of_name(file)
    if importer is not None:
        for graph in read_graphs(file, importer, path):
            assert isinstance(graph, GivenGraph)  # forms that are known by extensions are graphs
            yield file, file, topology_of_graph(graph, importer.form, options)
        return
    if (unknown := unknown_kind(path)) is not None:
        raise InputError(f"{file}: this is {unknown.what}, which is in no known form", unknown.hint)
    yield from _import_json(file, path, options)


def _import_json(file: str, path: str, options: ImportOptions) -> Iterator[tuple[str, str, Imported]]:
    for value, place, line, problem in _objects(path):
        where = f"{file}, line {line + 1}"
        if problem is not None:
            yield where, file, [problem]
        elif value.strip():
            topology = parse_topology(value)
            yield (
                where,
                file,
                [topology]
                if isinstance(topology, TopologyError)
                else as_topology(topology, file, place, options),
            )


def _objects(file: str) -> Iterator[tuple[bytes, int, int, TopologyError | None]]:
    """Yield text, place, line and error of each line of JSON lines, or of each element of a document."""
    for block in blocks_of_files([file], MAX_LINE_BYTES):
        if isinstance(block, LineBlock):
            for number, value in enumerate(block.data.split(b"\n")[:-1], block.first):
                yield value, number, number, None
            continue
        for input_line in lines_of([block]):
            place, problem = input_line.ordinal or 0, None
            if input_line.too_long_bytes is not None:
                problem = line_too_long(input_line.too_long_bytes, MAX_LINE_BYTES, None)
            elif input_line.problem is not None:
                problem = TopologyError("NotJson", "line", input_line.problem, "what JSON can say", "")
            yield input_line.value, place, place if input_line.line is None else input_line.line, problem


def _named(topology: dict[str, Any], name: str | None, names: set[str]) -> dict[str, Any]:
    """Name the topology uniquely, after the option or its own name, numbered from the second on."""
    wanted = topology.get("name") if name is None else name
    if not isinstance(wanted, str):
        return topology
    unused, number = wanted, 1
    while unused in names:
        number += 1
        unused = f"{wanted}-{number}"
    names.add(unused)
    return {**topology, "name": unused}
