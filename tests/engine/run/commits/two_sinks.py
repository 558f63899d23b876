"""A job of a file sink and a Delta sink, staged and committed as the runtime does it, without Spark.

    python -m tests.engine.run.commits.two_sinks FOLDER STEP

runs it once and ends by SIGKILL before step STEP.
"""

import os
import signal
import sys
import uuid
from pathlib import Path

from deltalake import DeltaTable

from penstock.engine.machine import folders as run_owner
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import (
    JobSink,
    NamedSink,
    NextRun,
    begin_run,
    commit_run,
    finish_earlier_runs,
)
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_job import run_is_published
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors import commit_delta, staged_files
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.connectors.staged_files import TextSink

ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])
ALL = list(range(100))
BOTH = (ALL, ALL)
NOTHING: tuple[list[int], list[int]] = ([], [])
#: The owner of a run whose driver is dead.
DEAD = {**run_owner.this_process(), "started": "1"}

#: What changes the disk: a kill before any of these calls has to be survived.
STEPS = (
    (staged_files, "move_file"),
    (staged_files, "remove_folder"),
    (commit_delta, "_commit"),
    (commit_delta, "delete_files"),
    (journal, "remove_folder"),
    (os, "link"),
    (os, "unlink"),
    (os, "fsync"),
    (os, "rmdir"),
)


def sinks_of(folder, mode="append"):
    return [
        JobSink("files", TextSink(f"{folder}/files"), Types.LONG()),
        JobSink("table", DeltaSink(f"{folder}/table", ROWS, mode), ROWS),
    ]


def stage(sinks, subtasks=2):
    """What the subtasks have for the commit; the first sink takes numbers, the others rows."""
    staged = []
    for number, one in enumerate(sinks):
        mine = []
        one.sink.begin()
        for subtask in range(subtasks):
            writer = one.sink.writer(OperatorContext(subtask=subtask, parallelism=subtasks))
            values = [n if number == 0 else Row(n) for n in ALL[subtask::subtasks]]
            writer.write(values, None)
            mine += writer.finish()
        staged.append(mine)
    return staged


def begin(sinks, job="two sinks", fingerprint="as before"):
    """An open run, and its sinks."""
    started = [NamedSink(one.name, one.sink.start(type_info=one.type_info)) for one in sinks]
    return begin_run(uuid.uuid4().hex, job, fingerprint, started), started


def run(sinks, job="two sinks", fingerprint="as before", context=None):
    """A whole run; False where an earlier one has done its work."""
    context = context or RunContext()
    repeated = finish_earlier_runs(NextRun(job, fingerprint, sinks))
    if repeated is not None:
        run_is_published(context, repeated)
        return False
    opened, started = begin(sinks, job, fingerprint)
    with opened:
        commit_run(opened, stage(started))
    run_is_published(context, opened.run)
    return True


def visible(folder):
    """The rows that readers of either sink see, in order."""
    files = [file for file in Path(folder, "files").glob("*") if not file.name.startswith(".")]
    table = f"{folder}/table"
    there = DeltaTable.is_deltatable(table)
    rows = DeltaTable(table).to_pyarrow_table()["n"].to_pylist() if there else []
    return sorted(int(line) for file in files for line in file.read_text().split()), sorted(rows)


def hidden(folder):
    """What no reader sees: journals and staged files."""
    return sorted(str(one.relative_to(folder)) for one in Path(folder).rglob(".penstock*"))


def count_steps(at_step, set_attribute=setattr):
    """Call `at_step` with the number of each step before it is taken; gives a list of how many were taken."""
    taken = [0]

    def counted(before):
        def call(*args, **kwargs):
            taken[0] += 1
            at_step(taken[0])
            return before(*args, **kwargs)

        return call

    for module, name in STEPS:
        set_attribute(module, name, counted(getattr(module, name)))
    return taken


if __name__ == "__main__":
    last = int(sys.argv[2])
    count_steps(lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == last else None)
    run(sinks_of(sys.argv[1]))
