"""The commands `penstock examples` and `penstock cite`, for bundled files and a citation."""

from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.installation import own_version

# `penstock cite`.


class CitationFormat(StrEnum):
    """The values of --format."""

    BIBTEX = "bibtex"
    APA = "apa"


def cite_command(
    form: Annotated[
        CitationFormat, typer.Option("--format", help=f"{', '.join(CitationFormat)}.")
    ] = CitationFormat.BIBTEX,
) -> None:
    """Print how to cite the installed Penstock, as CITATION.cff of the repository does.

    Examples:
        penstock cite
        penstock cite --format apa
    """
    for line in (bibtex() if form is CitationFormat.BIBTEX else apa()).splitlines():
        print_line(line)


# The citation's formats.


AUTHOR = "The Penstock authors"
TITLE = "Penstock: Flink-style streaming topologies, planned as tables"
YEAR = 2026


def bibtex() -> str:
    """Format a BibTeX entry with the installed version."""
    installed = own_version()
    return "\n".join(
        [
            f"@software{{penstock_{installed.replace('.', '_')},",
            f"  author = {{{{{AUTHOR}}}}},",
            f"  title = {{{{{TITLE}}}}},",
            f"  version = {{{installed}}},",
            f"  year = {{{YEAR}}}",
            "}",
        ]
    )


def apa() -> str:
    """Format the citation in the style of the American Psychological Association."""
    return f"{AUTHOR}. ({YEAR}). {TITLE} (Version {own_version()}) [Computer software]."


EXAMPLES = {
    "examples.jsonl": ("topologies", "Five jobs: word count, sessions, fraud detection, enrichment, ETL."),
    "word_count.py": ("script", "Counts words."),
    "log_counts.py": ("script", "Counts the errors of a log by service and minute."),
    "nexmark.py": ("script", "Nexmark queries over generated events or CSV files."),
    "many_keys.py": ("script", "Keeps state for very many keys."),
    "chain_equal_costs.py": ("planner", "Chains operators of similar cost."),
    "anneal_chaining.py": ("planner", "Searches for the chains to cut, by simulated annealing."),
    "pack_managed_memory.py": ("planner", "Packs slots by managed memory."),
    "parallelism_by_selectivity.py": ("planner", "Scales operators by the records that reach them."),
    "NeverChain.java": ("program", "A planner in Java: chains nothing."),
}
"""Kind and description of each bundled file."""

_NEXT = {
    "topologies": "penstock plan {file} --out store",
    "script": "penstock run {file}",
    "planner": "penstock plan examples.jsonl --out store --planner {module}:NAME",
    "program": "compile it as docs/custom-planners.md explains, and use --planner program:COMMAND",
}


def examples_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The example to copy; default: list all.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="The copy; default: the example's name, in this folder."),
    ] = None,
) -> None:
    """List the bundled examples, or copy one to work with.

    Examples:
        penstock examples
        penstock examples word_count.py
    """
    if name is None:
        if to is not None:
            raise ConfigurationError("--to needs the name of one example")
        rows = [[example, kind, does] for example, (kind, does) in EXAMPLES.items()]
        print_table([Column("name"), Column("kind"), Column("does")], rows)
        return
    example = bundled_example(name)
    target = Path(example.name) if to is None else to
    if target.exists():
        raise ConfigurationError(f"{target} exists already", "name another file with --to")
    with replace_file(target) as file:
        file.write(example.read_bytes())
    print_line(f"wrote {target}")
    kind, _ = EXAMPLES[example.name]
    print_beside_output(f"next: {_NEXT[kind].format(file=target, module=target.stem)}")


def bundled_example(name: str) -> Traversable:
    """Return the bundled file `name`, with or without its suffix. Raises InputError if it does not exist."""
    for example in EXAMPLES:
        if name in (example, example.partition(".")[0]):
            return files("penstock.engine").joinpath("examples", example)
    raise InputError(f"no bundled example is called {name!r}", f"choose one of {', '.join(EXAMPLES)}")
