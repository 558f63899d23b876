"""`penstock cite`: how to cite Penstock."""

from enum import StrEnum
from typing import Annotated

import typer

from penstock.engine.machine.citation import apa, bibtex
from penstock.engine.output.say import say


class CitationFormat(StrEnum):
    """What --format takes."""

    BIBTEX = "bibtex"
    APA = "apa"


def command(
    form: Annotated[
        CitationFormat, typer.Option("--format", help=f"{', '.join(CitationFormat)}.")
    ] = CitationFormat.BIBTEX,
) -> None:
    """Print how to cite the Penstock that is installed; CITATION.cff of the repository says the same."""
    for line in (bibtex() if form is CitationFormat.BIBTEX else apa()).splitlines():
        say(line)
