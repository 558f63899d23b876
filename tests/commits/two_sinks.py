"""A job of a file sink and a Delta sink without Spark: staged, committed and killed as the runtime would.

    python -m tests.commits.two_sinks FOLDER KILL_AT

writes rows 0 to 99 into FOLDER/files and FOLDER/table, after settling what earlier runs left, as run_job does.
With KILL_AT above 0 the process ends by SIGKILL before its KILL_AT-th step that changes what is on the disk.
"""

import os
import signal
import sys
import uuid

from deltalake import DeltaTable

from engine.commits.acknowledge_runs import run_is_published
from engine.commits.commit_run import NamedSink, begin_run, commit_run
from engine.commits.earlier_runs import JobSink, NextRun, settle_earlier_runs
from operators.chain.operator import OperatorContext
from operators.common.row import Row
from operators.common.typeinfo import Types
from operators.connectors.delta import commit_delta
from operators.connectors.delta.delta_sink import DeltaSink
from operators.connectors.file_sinks import staged_files
from operators.connectors.file_sinks.plain_sinks import TextSink
from operators.connectors.files import durable_files

ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])
SUBTASKS = 3


def sinks_of(folder):
    return [
        JobSink("files", TextSink(f"{folder}/files"), Types.LONG()),
        JobSink("table", DeltaSink(f"{folder}/table", ROWS), ROWS),
    ]


def started(sinks):
    return [NamedSink(one.name, one.sink.start(type_info=one.type_info)) for one in sinks]


def stage_rows(named, rows=100):
    """What the subtasks of both sinks have for the commit."""
    staged = []
    for one, make in zip(named, (lambda n: n, lambda n: Row(n)), strict=True):
        some = []
        for subtask in range(SUBTASKS):
            writer = one.sink.writer(OperatorContext(subtask=subtask, parallelism=SUBTASKS))
            writer.write([make(n) for n in range(subtask, rows, SUBTASKS)], None)
            some += writer.finish()
        staged.append(some)
    return staged


def following(folder, job="two sinks", fingerprint="as before"):
    return NextRun(job, fingerprint, sinks_of(folder))


def run(folder, job="two sinks", fingerprint="as before"):
    """A whole run; False where an earlier one has done its work."""
    repeated = settle_earlier_runs(following(folder, job, fingerprint))
    if repeated is not None:
        run_is_published(repeated)
        return False
    named = started(sinks_of(folder))
    with begin_run(uuid.uuid4().hex, job, fingerprint, named) as opened:
        commit_run(opened, stage_rows(named))
    run_is_published(opened.run)
    return True


def visible(folder):
    """The rows that a reader of each sink sees, in order."""
    files = os.listdir(f"{folder}/files") if os.path.isdir(f"{folder}/files") else []
    texts = [open(f"{folder}/files/{name}").read() for name in files if not name.startswith(".")]
    table = f"{folder}/table"
    rows = DeltaTable(table).to_pyarrow_table()["n"].to_pylist() if DeltaTable.is_deltatable(table) else []
    return sorted(int(line) for text in texts for line in text.split()), sorted(rows)


def kill_at(step):
    """End this process by SIGKILL before call number `step` of what changes the disk; gives the counter."""
    calls = [0]

    def counted(module, name):
        before = getattr(module, name)

        def call(*args, **kwargs):
            calls[0] += 1
            if calls[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return before(*args, **kwargs)

        setattr(module, name, call)

    counted(staged_files, "move_file")
    counted(staged_files, "remove_folder")
    counted(staged_files, "make_folder")
    counted(commit_delta, "_commit")
    counted(commit_delta, "delete_files")
    for name in ("link", "unlink", "fsync", "rmdir"):
        counted(durable_files.os, name)
    return calls


if __name__ == "__main__":
    counter = kill_at(int(sys.argv[2]))
    run(sys.argv[1])
    print(counter[0])
