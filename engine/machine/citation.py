"""How Penstock is cited."""

from importlib.metadata import version

AUTHOR = "The Penstock authors"
TITLE = "Penstock: Flink-style streaming topologies, planned as tables"
YEAR = 2026


def bibtex() -> str:
    """An entry for BibTeX with the version that is installed."""
    found = version("penstock")
    return "\n".join(
        [
            f"@software{{penstock_{found.replace('.', '_')},",
            f"  author = {{{{{AUTHOR}}}}},",
            f"  title = {{{{{TITLE}}}}},",
            f"  version = {{{found}}},",
            f"  year = {{{YEAR}}}",
            "}",
        ]
    )


def apa() -> str:
    """The same in the style of the American Psychological Association."""
    return f"{AUTHOR}. ({YEAR}). {TITLE} (Version {version('penstock')}) [Computer software]."
