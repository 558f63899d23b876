"""`penstock cite`: how to cite Penstock."""

from enum import StrEnum
from typing import Annotated

import typer

from penstock.engine.output.say import say
from penstock.plans.installation import own_version


class CitationFormat(StrEnum):
    """The values of --format."""

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


# How Penstock is cited.


AUTHOR = "The Penstock authors"
TITLE = "Penstock: Flink-style streaming topologies, planned as tables"
YEAR = 2026


def bibtex() -> str:
    """An entry for BibTeX with the version that is installed."""
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
    """The citation in the style of the American Psychological Association."""
    return f"{AUTHOR}. ({YEAR}). {TITLE} (Version {own_version()}) [Computer software]."
