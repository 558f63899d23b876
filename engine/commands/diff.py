"""The command `penstock diff`, which compares topologies and checks whether savepoints restore."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import orjson
import typer

from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.library.sides_to_compare import Opener, previous_version
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.machine.machine_error import hint_of, refusal_in_text
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.write_lines import write_pieces, write_texts
from penstock.engine.views.diff.diff_in_text import ShownTopologies, markdown_of_diff, print_diff
from penstock.engine.views.diff.diff_sides import diff_sides
from penstock.engine.views.diff.savepoint_verdicts import (
    KEEP_ALL_IDS,
    KEEP_IDS,
    VERDICT_WORDS,
    Counts,
    RequiredVerdict,
    RestoreFrom,
    TopologyDiff,
    Verdict,
    WorseVerdict,
    read_pairs,
    savepoint_verdicts,
)
from penstock.engine.views.diff.side_of_store import Side, only_topology
from penstock.plans.errors import ConfigurationError, MachineError, PenstockError
from penstock.plans.topology.job_defaults import JobDefaults


class DiffForm(StrEnum):
    """Formats for people, the values of --format."""

    TEXT = "text"
    MARKDOWN = "markdown"


def diff_command(
    old: Annotated[
        str | None,
        typer.Argument(
            metavar="A",
            help="The old topologies: a store (its newest version), STORE@VERSION, a topology file, "
            "folder or glob, or a script (.py) with a job.",
        ),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="The new topologies. Without B, A's newest version is compared with the previous one.",
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="Only this topology.")
    ] = None,
    require: Annotated[
        RequiredVerdict | None,
        typer.Option(
            "--require",
            metavar="VERDICT",
            help="Exit with 6 if a verdict is worse than this: restores; restores-with-warnings (Flink "
            "starts, but an operator cannot use its state as before); allow-non-restored (state that no "
            "operator takes is lost); refused (worse only if a job can no longer be planned).",
        ),
    ] = None,
    source: Annotated[
        RestoreFrom,
        typer.Option(
            "--from",
            help="Source of the new job's state: a savepoint, or the last-state of Kubernetes operators "
            "and of high availability, which needs every operator of the old job in the new one.",
        ),
    ] = RestoreFrom.SAVEPOINT,
    stateful: Annotated[
        list[str] | None,
        typer.Option(
            "--stateful",
            metavar="PATTERN",
            help="Only operators whose name or uid matches have state (* and ? are wildcards); repeatable. "
            "Default: keyed operators, sources and sinks; '*' means all.",
        ),
    ] = None,
    form: Annotated[
        DiffForm,
        typer.Option("--format", help="text, or markdown for a comment on a pull request."),
    ] = DiffForm.TEXT,
    json: Annotated[
        bool, typer.Option("--json", help="Write all differences as JSON, one line per topology.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="With --json, --pairs or --format markdown: write to FILE, not to standard output; .gz is "
            "compressed.",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            "--pairs",
            metavar="PAIRS",
            help='In place of A and B: JSON lines {"name", "old": topology, "new": topology, "stateful": '
            "list of ids}; .gz, a directory or glob of them, or - for standard input. Without stateful, "
            "every operator has state.",
        ),
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Compare the plans of A and B, and tell whether savepoints of A restore in B.

    Topologies are paired by name. For each that differs: operators added, removed, renamed or with other ids,
    chains, parallelism, data sets, slots, and Flink's answer when the new job restores the old job's state,
    with the uid that would keep state that is lost.

    With --pairs, one line per pair: {"name", "strict", "allow_non_restored"}, each "ok" or Flink's error and
    message, without and with --allow-non-restored-state; with --from last-state: {"name", "last_state"}. If
    Flink does not plan one of the two: {"name", "error", "message"}.

    Examples:
        penstock diff plans
        penstock diff old.jsonl new.jsonl --require restores
        penstock diff plans@1 new.jsonl --topology word-count

    Exit codes:
        3: A file or script cannot be read.
        4: A store cannot be read.
        6: A verdict is worse than --require.
    """
    if pairs is not None:
        if old is not None or json or form != DiffForm.TEXT or topology is not None or stateful:
            raise ConfigurationError(
                "--pairs cannot be combined with A, B, --format, --json, --stateful or --topology"
            )
        diff_pairs(pairs, to, require, source, given_configuration(config_dir, define).job_defaults)
        return
    if old is None:
        raise typer.BadParameter("A is missing", param_hint="A")
    if json and form != DiffForm.TEXT:
        raise ConfigurationError(f"--json and --format {form} cannot be combined")
    if to is not None and not json and form == DiffForm.TEXT:
        raise ConfigurationError("--to needs --json, --pairs or --format markdown")
    if new is None:
        old, new = previous_version(old)
    counts, shown, worse = Counts(source), ShownTopologies(), WorseVerdict(require)
    with _folder() as folder, progress(4) as report:
        opener = Opener(folder, given_configuration(config_dir, define))
        if topology is None:
            sides, in_both = opener.open_both(old, new, report)
        else:
            sides, in_both = only_topology([opener.open(old, "old"), opener.open(new, "new")], topology), 0
        report("compare plans")
        differing = _collect(diff_sides(sides[0], sides[1], counts, stateful or (), in_both), shown, worse)
        if json:
            write_pieces(_json_pieces(sides, differing, counts), to)
        else:
            for number, _ in enumerate(differing, 1):
                report.note(f"compare plans: {number:,} topologies differ")
    if form == DiffForm.MARKDOWN:
        write_pieces((f"{line}\n" for line in markdown_of_diff(sides, counts, shown)), to)
    elif not json:
        print_diff(sides, counts, shown)
    if topology is None:
        worse.add_unnamed(sides[1].label, sides[1].left_out - sides[0].left_out)
    worse.raise_if_any(counts.verdicts.total(), "changed topologies")


@contextmanager
def _folder() -> Iterator[str]:
    """Make a folder for sides that are not stores. A full disk raises a MachineError that names it."""
    try:
        with short_lived_folder("diff") as folder:
            yield folder
    except PenstockError:
        raise
    except Exception as error:
        number = refusal_in_text(str(error))
        if number not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        where = f"writing temporary files to {gettempdir()}"
        raise MachineError(f"{where}: {os.strerror(number)}", hint_of(number)) from error


def _collect(
    differing: Iterator[TopologyDiff], shown: ShownTopologies, worse: WorseVerdict
) -> Iterator[TopologyDiff]:
    """Yield `differing` on, after adding each topology to `shown` and `worse`."""
    for differing_topology in differing:
        shown.add(differing_topology)
        worse.add(differing_topology.name, differing_topology.verdict, differing_topology.hint)
        yield differing_topology


def _json_pieces(sides: list[Side], differing: Iterator[TopologyDiff], counts: Counts) -> Iterator[str]:
    """Yield one JSON object with a line for each topology; the counts come last, once they are complete."""
    old, new = (orjson.dumps({"source": side.label, "left_out": side.left_out}).decode() for side in sides)
    yield f'{{"old":{old},"new":{new},"topologies":['
    between = "\n"
    for topology in differing:
        yield between + orjson.dumps(topology.as_json()).decode()
        between = ",\n"
    yield f'\n],"counts":{orjson.dumps(counts.as_json()).decode()}}}\n'


# `penstock diff --pairs`: verdicts for pairs of topologies in a file.


def diff_pairs(
    path: str,
    to: Path | None,
    require: RequiredVerdict | None,
    source: RestoreFrom,
    job_defaults: JobDefaults,
) -> None:
    """Write a line for each pair, and print the number of each verdict on standard error.

    Raises InputError, and, after all lines are written, WorseVerdictError.
    """
    counted: Counter[Verdict] = Counter()
    worse = WorseVerdict(require)
    with nullcontext(Report()) if to is None else progress(1) as report:
        report("restore savepoints")
        write_texts(_lines(path, job_defaults, source, counted, worse, report.note), to)
    parts = [f"{counted[verdict]:,} {VERDICT_WORDS[verdict]}" for verdict in Verdict if counted[verdict]]
    pairs = "pair" if counted.total() == 1 else "pairs"
    print_beside_output(f"{counted.total():,} {pairs}: {', '.join(parts)}")
    worse.raise_if_any(counted.total(), pairs)


def _lines(
    path: str,
    job_defaults: JobDefaults,
    source: RestoreFrom,
    counted: Counter[Verdict],
    worse: WorseVerdict,
    note: Callable[[str], None],
) -> Iterator[str]:
    hint = KEEP_ALL_IDS if source is RestoreFrom.LAST_STATE else KEEP_IDS
    for part in read_pairs(path):
        for restored in savepoint_verdicts(part, job_defaults, source):
            counted[restored.verdict] += 1
            worse.add(restored.name, restored.verdict, hint)
            yield orjson.dumps(restored.as_json()).decode()
        note(f"restore savepoints: {counted.total():,} pairs")
