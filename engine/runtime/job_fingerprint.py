"""Tells a job that is run again from another one."""

import hashlib
import json
import sys
from contextlib import suppress
from pathlib import Path

from engine.commits.acknowledge_runs import published_jobs
from engine.runtime.job import Job
from operators.connectors.delta.delta_source import DeltaSource
from operators.connectors.file_source import FileSource
from operators.connectors.recover_sinks import recovery_of
from operators.connectors.sink import Sink
from operators.files.filesystem import find_files


def job_fingerprint(job: Job) -> str:
    """SHA-256 over what makes a run a repetition of another.

    That is: the job's name, operators and parameters, script and arguments of this process, how many jobs of
    that name it has published before, where its sinks write, and the files or the table version that its
    sources read.
    """
    operators = [[one.kind, one.name] for one in job.transformations]
    sinks, inputs = [], []
    for one in job.transformations:
        if isinstance(one.operator, Sink):
            recovery = recovery_of(one.operator)
            sinks.append([one.name, type(one.operator).__qualname__, recovery and recovery.folder])
        elif isinstance(one.operator, DeltaSource):
            inputs.append([one.operator.path, one.operator.version])
        elif isinstance(one.operator, FileSource):
            with suppress(OSError, ValueError):  # the job says what is missing
                inputs.append([list(file) for file in find_files(one.operator.paths)])
    known = [
        [job.name, published_jobs[job.name], dict(job.job_parameters), dict(job.config)],
        [operators, sinks, inputs],
        [sys.argv[1:], _script()],
    ]
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def _script() -> str | None:
    try:
        return Path(sys.argv[0]).read_text(errors="replace")
    except (OSError, IndexError, ValueError):
        return None
