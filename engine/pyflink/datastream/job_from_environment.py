"""Makes a Job of an environment's settings and operators.

Source: org.apache.flink.streaming.api.graph.StreamGraphGenerator.{generate,configureStreamGraph}.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.pyflink.datastream.environment_options import EnvironmentOptions
from penstock.engine.pyflink.datastream.environment_settings import current_settings
from penstock.engine.pyflink.datastream.operator_settings import (
    FILE_DELIMITER,
    PARAM_DELIMITER,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.engine.run.lowering.lower_job import lower_job
from penstock.engine.run.runtime.job import RUNTIME_MODE, CachedFile, Job
from penstock.engine.run.runtime.lowered_transformation import LoweredTransformation
from penstock.engine.run.runtime.transformations import Transformation, reachable
from penstock.plans.topology import flink_options as options
from penstock.plans.topology.flink_options import read_option

#: StreamGraphGenerator.DEFAULT_{STREAMING,BATCH}_JOB_NAME.
STREAMING_JOB = "Flink Streaming Job"
BATCH_JOB = "Flink Batch Job"


def is_batch(config: dict[str, str]) -> bool:
    """Whether jobs with these options run in BATCH mode; AUTOMATIC is, since all sources are bounded."""
    return bool(read_option(config, options.RUNTIME_MODE) != "STREAMING")


def job_from_environment(
    environment: EnvironmentOptions,
    roots: Sequence[Transformation],
    job_name: str | None,
    *,
    planned: Sequence[LoweredTransformation] = (),
    lowers_all: bool = False,
) -> Job:
    """The job of `roots` and all that they read.

    `planned`, `lowers_all`: see engine.lowering.lower_job.lower_job.
    Raises ValueError for an option that Flink could not parse.
    """
    changed = current_settings().changes.parallelism
    for call in reachable(roots) if changed else ():
        call.parallelism = changed.get(call.name, changed.get(call.uid or "", call.parallelism))
    if not lowers_all:
        environment.known_ids.clear()
    config = environment.options()
    batch = is_batch(config)
    if batch:
        config[RUNTIME_MODE] = "BATCH"
    files = environment.cached_files()
    if files:
        config[options.CACHED_FILES.key] = cached_files_option(files)
    max_parallelism = environment.get_max_parallelism()
    requirements, _, cache = config.get(PYTHON_REQUIREMENTS, "").partition(PARAM_DELIMITER)
    name = job_name or read_option(config, options.JOB_NAME) or (BATCH_JOB if batch else STREAMING_JOB)
    lowered = lower_job(
        name,
        roots,
        config,
        parallelism=environment.get_parallelism(),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        known_ids=environment.known_ids,
        slot_resources=environment.slot_resources(),
        planned=planned,
        lowers_all=lowers_all,
    )
    calls = [
        step.call
        for operator in lowered.submitted.physical.values()
        for step in operator.steps
        if step.call is not None
    ]
    return Job(
        name=name,
        transformations=reachable(calls),
        lowered=lowered,
        parallelism=environment.get_parallelism(),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        config=config,
        batch=batch,
        job_parameters=dict(environment.get_config().get_global_job_parameters()),
        cached_files=files,
        python_files=_paths(config.get(PYTHON_FILES)),
        requirements=requirements or None,
        requirements_cache=cache or None,
        archives=tuple(
            (path, folder or None)
            for path, _, folder in (
                archive.partition(PARAM_DELIMITER) for archive in _paths(config.get(PYTHON_ARCHIVES))
            )
        ),
        python_executable=config.get(PYTHON_EXECUTABLE),
        auto_watermark_interval_milliseconds=environment.get_config().get_auto_watermark_interval(),
        plan_options=current_settings().plan_options,
    )


def cached_files_option(files: dict[str, CachedFile]) -> str:
    """Cached files as one option's text, as DistributedCache.parseStringFromCachedFiles writes it."""
    entries = []
    for name, file in files.items():
        fields = {"name": name, "path": file.path, "executable": str(file.executable).lower()}
        entries.append(
            ",".join(_quoted(f"{key}:{_quoted(value, ':')}", ",") for key, value in fields.items())
        )
    return ";".join(_quoted(entry, ";") for entry in entries)


def _quoted(text: str, delimiter: str) -> str:
    """`text` as one part of what is split at `delimiter` (ConfigurationUtils, StructuredOptionsSplitter)."""
    if delimiter not in text and "'" not in text and not any(map(str.isspace, text)):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _paths(option: str | None) -> tuple[str, ...]:
    return tuple(path.strip() for path in (option or "").split(FILE_DELIMITER) if path.strip())
