"""A comparison in Markdown, for the comments of a Git forge and for notebooks."""

import re
from collections.abc import Iterator, Sequence

from penstock.engine.diff.diff_in_text import DiffLine, Shown, diff_lines
from penstock.engine.diff.side import Side
from penstock.engine.diff.topology_diff import Counts
from penstock.plans.printable import printable

_PLAIN = re.compile("[^0-9A-Za-z .,:;/→…_-]|_(?![0-9A-Za-z])|(?<![0-9A-Za-z])_")
"""Characters that Markdown, HTML or a forge could act on, such as @ and #; letters of other scripts too."""


def markdown_of_diff(sides: Sequence[Side], counts: Counts, shown: Shown) -> Iterator[str]:
    """Lines of Markdown: the counts as a list, then a section for each topology that is shown."""
    for number, part in enumerate(diff_lines(sides, counts, shown)):
        if number:
            yield ""
        yield from map(_markdown, part)


def _markdown(line: DiffLine) -> str:
    text = _PLAIN.sub(_entity, printable(line.text))
    if line.is_heading:
        return f"### {text}\n"
    return f"{'  ' * max(0, line.indent // 2 - 1)}- {text}"


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"
