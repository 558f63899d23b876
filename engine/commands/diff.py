"""`penstock diff`: what becomes of savepoints when topologies change."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from engine.commands.key_values import ConfigDir, Define, given_configuration
from engine.diff.read_pairs import read_pairs
from engine.diff.savepoint_verdicts import Restored, Verdict, savepoint_verdicts
from engine.output.progress import Report, progress
from engine.output.say import say_beside_output
from engine.output.write_lines import write_texts
from plans.errors import WorseVerdictError
from plans.message_limits import MOST_OF_A_NAME, limited
from plans.topology.job_defaults import JobDefaults

_SHOWN = 5

_WORDS = {
    Verdict.RESTORES: "restored",
    Verdict.ALLOW_NON_RESTORED_STATE: "restored only with --allow-non-restored-state",
    Verdict.REFUSED: "refused",
    Verdict.NOT_PLANNED: "not planned by Flink",
}


class Required(StrEnum):
    """What --require takes."""

    RESTORES = Verdict.RESTORES.value
    ALLOW_NON_RESTORED_STATE = Verdict.ALLOW_NON_RESTORED_STATE.value


def command(
    pairs: Annotated[
        str,
        typer.Option(
            "--pairs",
            metavar="PAIRS",
            help='JSON lines {"name", "old": topology, "new": topology, "stateful": [ids]}; .gz, a directory '
            "or glob of them, or - for standard input. Without stateful, every operator has state.",
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="OUT", help="Default: standard output; .gz is compressed.")
    ] = None,
    require: Annotated[
        Required | None,
        typer.Option(
            "--require",
            metavar="VERDICT",
            help="Exit with 6 if any pair is worse than this: restores, or allow-non-restored-state "
            "(restores, but what no operator takes is lost).",
        ),
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
) -> None:
    """Say of each pair what Flink does with a savepoint of the old job when it starts the new one.

    A line for each pair, in order: {"name", "strict", "allow_non_restored"}, each "ok" or Flink's error and
    message, without and with --allow-non-restored-state. If Flink does not plan one of the two: {"name",
    "error", "message"}.
    """
    job_defaults = given_configuration(config_dir, define).job_defaults
    counted: Counter[Verdict] = Counter()
    worse: list[Restored] = []
    with nullcontext(Report()) if to is None else progress(1) as report:
        report("restore savepoints")
        write_texts(_lines(pairs, job_defaults, counted, worse, require, report), to)
    parts = [f"{counted[verdict]:,} {_WORDS[verdict]}" for verdict in Verdict if counted[verdict]]
    say_beside_output(f"{_pairs(counted.total())}: {', '.join(parts)}")
    if worse:
        raise _worse_than(require, counted, worse)


def _lines(
    pairs: str,
    job_defaults: JobDefaults,
    counted: Counter[Verdict],
    worse: list[Restored],
    require: Required | None,
    report: Report,
) -> Iterator[str]:
    """What --to holds; counts verdicts, and keeps the first that are worse than required."""
    for part in read_pairs(pairs):
        for restored in savepoint_verdicts(part, job_defaults):
            counted[restored.verdict] += 1
            if _is_worse(restored.verdict, require) and len(worse) < _SHOWN:
                worse.append(restored)
            yield orjson.dumps(restored.as_json()).decode()
        report.note(f"restore savepoints: {counted.total():,} pairs")


def _is_worse(verdict: Verdict, require: Required | None) -> bool:
    return require is not None and verdict.rank > Verdict(require.value).rank


def _worse_than(
    require: Required | None, counted: Counter[Verdict], worse: list[Restored]
) -> WorseVerdictError:
    number = sum(count for verdict, count in counted.items() if _is_worse(verdict, require))
    named = "".join(f"\n  {limited(one.name, MOST_OF_A_NAME)!r}: {_WORDS[one.verdict]}" for one in worse)
    more = f"\n  and {number - len(worse):,} more" if number > len(worse) else ""
    return WorseVerdictError(
        f"{number:,} of {_pairs(counted.total())} {'is' if number == 1 else 'are'} worse than --require "
        f"{require}:{named}{more}",
        "give operators with state the uid, or the uid hash, that they had; keep their max parallelism",
    )


def _pairs(number: int) -> str:
    return f"{number:,} pair{'' if number == 1 else 's'}"
