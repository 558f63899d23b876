"""`penstock diff --pairs`: verdicts of pairs of topologies in a file."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import orjson

from penstock.engine.diff.read_pairs import read_pairs
from penstock.engine.diff.savepoint_verdicts import VERDICT_WORDS, Verdict, savepoint_verdicts
from penstock.engine.diff.worse_verdicts import Required, Worse
from penstock.engine.output.progress import Report, progress
from penstock.engine.output.say import say_beside_output
from penstock.engine.output.write_lines import write_texts
from penstock.plans.topology.job_defaults import JobDefaults


def diff_pairs(path: str, to: Path | None, require: Required | None, job_defaults: JobDefaults) -> None:
    """Write a line for each pair; says the number of each verdict beside the output.

    Raises InputError, and WorseVerdictError once all is written.
    """
    counted: Counter[Verdict] = Counter()
    worse = Worse(require)
    with nullcontext(Report()) if to is None else progress(1) as report:
        report("restore savepoints")
        write_texts(_lines(path, job_defaults, counted, worse, report.note), to)
    parts = [f"{counted[verdict]:,} {VERDICT_WORDS[verdict]}" for verdict in Verdict if counted[verdict]]
    pairs = "pair" if counted.total() == 1 else "pairs"
    say_beside_output(f"{counted.total():,} {pairs}: {', '.join(parts)}")
    worse.raise_if_any(counted.total(), pairs)


def _lines(
    path: str,
    job_defaults: JobDefaults,
    counted: Counter[Verdict],
    worse: Worse,
    note: Callable[[str], None],
) -> Iterator[str]:
    for part in read_pairs(path):
        for restored in savepoint_verdicts(part, job_defaults):
            counted[restored.verdict] += 1
            worse.add(restored.name, restored.verdict)
            yield orjson.dumps(restored.as_json()).decode()
        note(f"restore savepoints: {counted.total():,} pairs")
