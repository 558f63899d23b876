"""Tells a job that is run again from another one."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from penstock.engine.run.commits.acknowledge_runs import published_jobs
from penstock.engine.run.runtime.job import Job
from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.common.identify_value import UnidentifiableError, identify_value, is_installed
from penstock.operators.connectors.recover_sinks import recovery_of
from penstock.operators.connectors.sink import Sink
from penstock.operators.connectors.source import Source
from penstock.operators.files.identify_files import identify_files


def job_fingerprint(job: Job) -> str:
    """What makes a run a repetition of another: the same text, which is otherwise another one.

    That is a SHA-256 over the job's name, operators and parameters, script and arguments of this process, the
    user's modules that it has imported, the files that are sent along, how many jobs of that name it has
    published before, where its sinks write, the values that its functions hold, and what its sources say of
    the records that they read. Where one of these cannot be told, it is like no other.
    """
    try:
        known = [
            [job.name, published_jobs[job.name], job.batch, dict(job.job_parameters), dict(job.config)],
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
    """The modules of the user's that are imported, and a digest of each."""
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
    """Digests of the files that are sent along with a job."""
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
