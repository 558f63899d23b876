"""Format a comparison as counts, then changed topologies, worst verdict first."""

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.views.diff.diff_sides import WARNINGS
from penstock.engine.views.diff.keyed_plans import TOTALS
from penstock.engine.views.diff.savepoint_verdicts import (
    VERDICT_WORDS,
    Change,
    Counts,
    RestoreFrom,
    RestoreResult,
    TopologyDiff,
    Verdict,
)
from penstock.engine.views.diff.side_of_store import Side
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable

MOST_TOPOLOGIES = 20
"""Topologies that are printed; --json writes all."""
_MOST_ROWS = 5
"""Changes of a kind that are printed per topology."""
_WIDTH = 79

_VERDICTS = {
    Verdict.RESTORES: "restores",
    Verdict.RESTORES_WITH_WARNINGS: "restores, with warnings",
    Verdict.ALLOW_NON_RESTORED: "restores only with --allow-non-restored-state",
    Verdict.REFUSED: "refused",
    Verdict.NOT_PLANNED: "the new topology is not planned",
}
_SETTINGS_ONLY = "other settings only: no operator, chain, data set or total differs"


class ShownTopologies:
    """Keeps the topologies to print, worst verdict first, then changed ones before added and removed ones."""

    def __init__(self) -> None:
        self.topologies: list[TopologyDiff] = []
        self.left_out = 0

    def add(self, topology: TopologyDiff) -> None:
        """Add a topology; at most MOST_TOPOLOGIES are kept."""
        self.topologies.append(topology)
        if len(self.topologies) >= 2 * MOST_TOPOLOGIES:
            self._cut()

    def in_order(self) -> list[TopologyDiff]:
        """Return the topologies to print, worst verdict first."""
        self._cut()
        return self.topologies

    def _cut(self) -> None:
        ordered = sorted(self.topologies, key=_order)
        self.left_out += max(0, len(ordered) - MOST_TOPOLOGIES)
        self.topologies = ordered[:MOST_TOPOLOGIES]


def _order(topology: TopologyDiff) -> tuple[int, int, str]:
    rank = -1 if topology.verdict is None else topology.verdict.rank
    return (-rank, list(Change).index(topology.change), topology.name)


class DiffLine(NamedTuple):
    """A line and its indentation, which is larger than its parent's; a heading names a topology or all."""

    text: str
    indent: int = 0
    is_heading: bool = False


def print_diff(sides: Sequence[Side], counts: Counts, shown: ShownTopologies) -> None:
    """Print the comparison in lines of at most 79 characters unless a name is longer."""
    for number, part in enumerate(diff_lines(sides, counts, shown)):
        if number:
            print_line()
        for line in part:
            _print_change(line)


def diff_lines(sides: Sequence[Side], counts: Counts, shown: ShownTopologies) -> Iterator[list[DiffLine]]:
    """Yield the counts, then a part for each printed topology, then the number of the others."""
    old, new = sides
    summary = [DiffLine(f"{old.label} → {new.label}", 0, True)]
    summary += map(DiffLine, _count_lines(counts))
    for side in sides:
        if side.left_out:
            refused = _number(side.left_out, "refused input")
            summary.append(
                DiffLine(f"{side.label}: {refused} without a readable name, or with another input's name")
            )
    yield summary
    for topology in shown.in_order():
        yield list(_topology_lines(topology))
    if shown.left_out:
        yield [DiffLine(f"… and {shown.left_out:,} more differ; --json writes all")]


def _count_lines(counts: Counts) -> Iterable[str]:
    topologies = counts.topologies
    parts = [f"{topologies[change]:,} {change}" for change in Change if topologies[change]]
    known = _number(topologies.total(), "topology", "topologies")
    yield f"{known}: {', '.join(parts) or 'none on either side'}"
    if counts.verdicts:
        source = "without a savepoint" if counts.source is RestoreFrom.LAST_STATE else "savepoints"
        verdicts = [
            f"{count:,} {VERDICT_WORDS[verdict]}"
            for verdict in Verdict
            if (count := counts.verdicts[verdict])
        ]
        yield f"{source}: {', '.join(verdicts)}"
    if counts.lost:
        yield f"state that is lost: of {_number(counts.lost, 'operator')}"
    if counts.taken:
        yield f"state that goes to another operator: of {_number(counts.taken, 'operator')}"
    if counts.warned:
        yield f"state that its operator cannot use as before: of {_number(counts.warned, 'operator')}"
    if counts.mismatched:
        yield f"state that does not fit the new parallelism: of {_number(counts.mismatched, 'operator')}"
    words = {
        "added": "added",
        "removed": "removed",
        "renamed": "renamed",
        "changed_ids": "with another id",
        "parallelism": "with another parallelism",
        "max_parallelism": "with another max parallelism",
    }
    if any(counts.operators.values()):
        yield f"operators: {_counted(counts.operators, words)}"
    if any(counts.chains.values()):
        yield f"chains: {_counted(counts.chains, {'split': 'split', 'joined': 'joined'})}"
    if any(counts.data_sets.values()):
        words = {
            "added": "added",
            "removed": "removed",
            "changed": "changed",
            "other_type": "with another type",
        }
        yield f"data sets: {_counted(counts.data_sets, words)}"
    for key, called in TOTALS.items():
        if key in counts.totals:
            old, new = counts.totals[key]
            yield f"{called}, where they differ: {old:,} → {new:,}"


def _counted(counts: Any, words: dict[str, str]) -> str:
    return ", ".join(f"{counts[key]:,} {word}" for key, word in words.items() if counts[key])


def _number(count: int, singular: str, many: str | None = None) -> str:
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def _topology_lines(topology: TopologyDiff) -> Iterator[DiffLine]:
    name = _name(topology.name)
    yield DiffLine(name if topology.change == Change.CHANGED else f"{name}: {topology.change}", 0, True)
    for side, why in topology.refused.items():
        yield DiffLine(f"{side}: not planned: {why.error}: {limited(why.message, 300)}", 2)
    if topology.restored is None:
        return
    yield from _verdict_lines(topology, topology.restored)
    yield from _rows_lines(_operator_lines(topology))
    if not topology.changes_plan:
        yield DiffLine(_SETTINGS_ONLY, 2)


def _verdict_lines(topology: TopologyDiff, restored: RestoreResult) -> Iterator[DiffLine]:
    if topology.verdict is not None:
        source = "without a savepoint" if restored.source is RestoreFrom.LAST_STATE else "savepoint"
        yield DiffLine(f"{source}: {_VERDICTS[topology.verdict]}", 2)
    why = restored.why_refused
    if why is not None:
        yield DiffLine(f"{why.error}: {limited(why.message, 500)}", 4)
    for rows, line in (
        (topology.lost, _lost),
        (topology.taken, _taken),
        (topology.warnings, _warning),
        (topology.mismatched, _mismatched),
    ):
        for row in rows[:_MOST_ROWS]:
            yield DiffLine(line(row), 4)
        if len(rows) > _MOST_ROWS:
            yield DiffLine(f"… and {len(rows) - _MOST_ROWS:,} more", 4)


def _taken(row: dict[str, Any]) -> str:
    taker, owner = _name(row["by"]["operator"]), _name(row["operator"])
    if taker == owner:
        return f"warning: another {taker} gets the state of the old one: it has its id"
    return f"warning: {taker} gets the state of {owner}: it has its id"


def _warning(row: dict[str, Any]) -> str:
    mark = "warning: " if row["has_state"] else ""
    return f"{mark}{_name(row['by']['operator'])} {WARNINGS[row['warning']]}"


def _lost(row: dict[str, Any]) -> str:
    loss = "loses its state" if row["has_state"] else "is in the last checkpoint without state"
    loss_text = f"{_name(row['operator'])} {loss} (id {row['operator_id']}): "
    if row["suggestion"] is None:
        return f"{loss_text}{row['because']}"
    suggested = f"{_suggested(row['suggestion'])} on {_name(row['becomes']['operator'])}"
    return f"{loss_text}keep it with {suggested}"


def _mismatched(row: dict[str, Any]) -> str:
    entry = "state" if row["has_state"] else "empty entry"
    misfit = f"the {entry} of {_name(row['operator'])} does not fit {_name(row['by']['operator'])}"
    return f"{misfit}: set {_suggested(row['suggestion'])}" if row["suggestion"] else misfit


def _suggested(suggestion: dict[str, Any]) -> str:
    return " and ".join(
        f"{key.replace('_', ' ')} {_name(value) if isinstance(value, str) else value}"
        for key, value in suggestion.items()
    )


def _operator_lines(topology: TopologyDiff) -> Iterable[tuple[str, list[str]]]:
    """Yield headings, and the changes below each."""
    operators = topology.operators
    yield "added", [_name(row["name"]) for row in operators["added"]]
    yield "removed", [_name(row["name"]) for row in operators["removed"]]
    yield "renamed", [f"{_name(row['old'])} → {_name(row['new'])}" for row in operators["renamed"]]
    yield "other ids", [_name(row["operator"]) + _uids(row) for row in operators["changed_ids"]]
    for key in ("parallelism", "max_parallelism"):
        words = key.replace("_", " ")
        yield words, [f"{_name(row['operator'])} {row['old']} → {row['new']}" for row in operators[key]]
    yield "chains split", [f"{_chain(row['chain'])} into {_chains(row['into'])}" for row in topology.split]
    yield "chains joined", [f"{_chains(row['chains'])} into {_chain(row['into'])}" for row in topology.joined]
    yield "data sets", [_data_set(row) for row in topology.data_sets]
    for key, words in TOTALS.items():
        yield (
            words,
            [f"{old:,} → {new:,}" for old, new in [topology.totals[key]]] if key in topology.totals else [],
        )


def _rows_lines(groups: Iterable[tuple[str, list[str]]]) -> Iterator[DiffLine]:
    for heading, rows in groups:
        if rows:
            more = f"; and {len(rows) - _MOST_ROWS:,} more" if len(rows) > _MOST_ROWS else ""
            yield DiffLine(f"{heading}: {'; '.join(rows[:_MOST_ROWS])}{more}", 2)


def _uids(row: dict[str, Any]) -> str:
    if row["old_uid"] == row["new_uid"]:
        return ""
    old, new = ("none" if uid is None else _name(uid) for uid in (row["old_uid"], row["new_uid"]))
    return f" (uid {old} → {new})"


def _chain(names: list[str]) -> str:
    more = f" + {len(names) - _MOST_ROWS:,} more" if len(names) > _MOST_ROWS else ""
    return "[" + " + ".join(map(_name, names[:_MOST_ROWS])) + more + "]"


def _chains(chains: list[list[str]]) -> str:
    more = f" and {len(chains) - _MOST_ROWS:,} more" if len(chains) > _MOST_ROWS else ""
    return " ".join(map(_chain, chains[:_MOST_ROWS])) + more


def _data_set(row: dict[str, Any]) -> str:
    ends = f"{_name(row['source'])} to {_name(row['target'])}"
    if row["change"] != "changed":
        return f"{ends} {row['change']}"
    changes = [f"{row[key]['old']} → {row[key]['new']}" for key in ("type", "ship_strategy") if key in row]
    return f"{ends} {', '.join(changes) or 'has another id'}"


def _name(name: str) -> str:
    return f"'{printable(limited(name, MOST_OF_A_NAME))}'"


def _print_change(line: DiffLine) -> None:
    """Print a text in lines of at most _WIDTH; a longer word has a line of its own."""
    lines = wrap(
        line.text,
        _WIDTH,
        initial_indent=" " * line.indent,
        subsequent_indent=" " * (line.indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for each in lines:
        print_line(StyledText(each, "bold") if line.is_heading else each)


# A comparison in Markdown, for comments of a Git forge and for notebooks.


_PLAIN = re.compile("[^0-9A-Za-z .,:;/→…_-]|_(?![0-9A-Za-z])|(?<![0-9A-Za-z])_")
"""Characters that Markdown, HTML or a forge could interpret, such as @ and #; and non-Latin letters."""


def markdown_of_diff(sides: Sequence[Side], counts: Counts, shown: ShownTopologies) -> Iterator[str]:
    """Yield lines of Markdown with the counts as a list, then a section for each printed topology."""
    for number, part in enumerate(diff_lines(sides, counts, shown)):
        if number:
            yield ""
        yield from map(_markdown, part)


def _markdown(line: DiffLine) -> str:
    text = _PLAIN.sub(_entity, printable(line.text))
    if line.is_heading:
        return f"### {text}\n"
    return f"{'  ' * max(0, line.indent // 2 - 1)}- {text}"


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"
