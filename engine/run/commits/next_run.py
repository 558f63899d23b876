"""The run of a job that is about to begin: its sinks, and its fingerprint, which a repetition has as well."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from penstock.engine.run.commits.commit_run import JobSink, NextRun
from penstock.engine.run.lowering.transformations import Job, Transformation
from penstock.operators.common.pickles import UnidentifiableError, identify_value, is_installed
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.sink import Sink
from penstock.operators.connectors.source import Source
from penstock.operators.files.filesystem import identify_files


def next_run(job: Job, published: int) -> NextRun:
    """Return name, fingerprint, sinks and storage options of the run of `job` that is about to begin;
    `published` runs of that name came before it.
    """
    sinks = [
        JobSink(transformation.name, transformation.operator, transformation.output_type)
        for transformation in job.transformations
        if isinstance(transformation.operator, Sink)
    ]
    options = {
        recovery.folder: storage_options
        for sink in sinks
        if (storage_options := getattr(sink.sink, "storage_options", None))
        and (recovery := recovery_of(sink.sink))
    }
    committed = any(needs_commit(sink.sink) for sink in sinks)
    return NextRun(job.name, job_fingerprint(job, published) if committed else "", sinks, options)


def job_fingerprint(job: Job, published: int) -> str:
    """Return a SHA-256 of the job and its input; a random text if one of its parts is unknown.

    Two runs with the same fingerprint repeat each other. It covers the job's name, operators and parameters,
    script and arguments of this process, the user's modules that it has imported, the files that are sent
    along, the number of jobs of that name that are `published` before, the folders of its sinks, the values
    that its functions hold, and the fingerprints of its sources (the records that they would read).
    """
    try:
        known = [
            [job.name, published, job.batch, dict(job.job_parameters), dict(job.config)],
            [_describe_transformation(transformation) for transformation in job.transformations],
            [sys.argv[1:], _script(), *_modules()],
            _files_sent(job),
        ]
    except UnidentifiableError:
        return f"like no other: {uuid4().hex}"
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def _describe_transformation(transformation: Transformation) -> list[Any]:
    functions = (
        transformation.key_selectors,
        transformation.key_selector,
        transformation.custom_partitioner,
        transformation.timestamp_extractor,
        transformation.watermark_strategy,
    )
    known: list[Any] = [
        transformation.kind,
        transformation.name,
        transformation.parallelism,
        identify_value(functions),
    ]
    if isinstance(transformation.operator, Source):
        fingerprint = transformation.operator.fingerprint()
        if fingerprint is None:
            raise UnidentifiableError(f"source {transformation.name}")
        return [*known, type(transformation.operator).__qualname__, fingerprint]
    if isinstance(transformation.operator, Sink):
        recovery = recovery_of(transformation.operator)
        return [*known, type(transformation.operator).__qualname__, recovery and recovery.folder]
    return [*known, identify_value(transformation.operator)]


def _script() -> str | None:
    try:
        return Path(sys.argv[0]).read_text(errors="replace")
    except (OSError, IndexError, ValueError):
        return None


def _modules() -> Iterator[list[str]]:
    """Yield the name and digest of each imported module that is the user's own."""
    for name, module in sorted(sys.modules.copy().items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and not is_installed(file):
            yield [name, hashlib.sha256(_content(module, file)).hexdigest()]


def _content(module: ModuleType, file: str) -> bytes:
    with suppress(OSError):
        return Path(file).read_bytes()
    try:  # in an archive
        return bytes(module.__loader__.get_data(file))  # type: ignore[union-attr]
    except (AttributeError, OSError) as error:
        raise UnidentifiableError(f"module {module.__name__}") from error


def _files_sent(job: Job) -> list[str]:
    """Return digests of the files that are sent along with a job."""
    archives = [path for path, _ in job.archives]
    cached = [file.path for _, file in sorted(job.cached_files.items())]
    paths = [*job.python_files, *archives, *cached, *filter(None, (job.requirements, job.requirements_cache))]
    digests = []
    for path in paths:
        digest = identify_files([path])
        if digest is None:
            raise UnidentifiableError(path)
        digests.append(digest)
    return digests
