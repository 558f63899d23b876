"""What a run needs: a session, files on the workers, and a display of its progress."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.run.clusters.session_folder import Session, live_session
from penstock.engine.run.clusters.start_session import EXECUTOR_CORES
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.job_monitor import JobMonitor
from penstock.engine.run.runtime.spark_application import is_remote, send_file
from penstock.engine.run.runtime.transformations import CachedFile
from penstock.engine.spark.session import any_session, use_this_python
from penstock.plans.printable import printable


def run_session(slots: int, dataframes: Sequence[DataFrame] = ()) -> SparkSession:
    """The session that jobs run in: that of the DataFrames they read, the process's own, else a new one as
    `use_session_settings` says.

    Outside of its blocks a new one is as the configuration directory says, and the process's own as it is.
    A new one on a cluster asks for executors (TaskManagers) with as many cores as the plan has slots: on
    spark:// by spark.cores.max, on yarn and k8s by spark.executor.instances, unless these are set.
    """
    if dataframes:
        return use_this_python(dataframes[0].sparkSession)
    if _settings is not None and _settings.session is not None:
        from penstock.engine.run.clusters.session_server import connected_session

        live_session(_settings.session.name)  # it may have ended since the script began
        return cast(SparkSession, connected_session())
    is_new = SparkContext._active_spark_context is None
    settings = _settings or SessionSettings(conf=find_configuration().spark if is_new else {})
    conf = dict(settings.conf)
    master = settings.master or conf.get("spark.master", "")
    each = int(conf.get(EXECUTOR_CORES) or 1)
    if is_new and master.startswith("spark://"):
        conf.setdefault("spark.cores.max", str(-(-slots // each) * each))
    elif is_new and master.startswith(("yarn", "k8s://")):
        conf.setdefault("spark.executor.instances", str(-(-slots // each)))
    return any_session(master=settings.master, conf=conf)


@dataclass(frozen=True)
class SessionSettings:
    """What a session is started with: a Spark master (None: local[*]) and Spark settings; or a session that
    runs, with which this process is connected.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: Session | None = None


_settings: SessionSettings | None = None


def session_of_runs() -> Session | None:
    """The session that jobs run in, if they do not start a Spark of their own."""
    return None if _settings is None else _settings.session


@contextmanager
def use_session_settings(
    master: str | None, conf: Mapping[str, str], session: Session | None = None
) -> Iterator[None]:
    """Jobs that run inside the block run on `master`, or in `session`."""
    global _settings  # noqa: PLW0603 scripts start jobs through an environment
    before, _settings = _settings, SessionSettings(master, conf, session)
    try:
        yield
    finally:
        _settings = before


def cached_files_on_spark(spark: SparkSession, files: Mapping[str, CachedFile]) -> dict[str, str]:
    """Send the files of the distributed cache to the workers; name to the file's name among Spark's."""
    sent = {}
    for name, file in files.items():
        path = Path(file.path.removeprefix("file://"))
        if not path.exists():
            raise JobCompileError(f"cached file {name!r}: {path} does not exist")
        if is_remote(spark):  # on the machine of the server; other clients may have sent this name
            sent[name] = str(path.absolute())
            continue
        send_file(spark, str(path), is_folder=path.is_dir())
        sent[name] = path.name
    return sent


@contextmanager
def show_run(name: str, compiled: CompiledJob) -> Iterator[Callable[[JobMonitor], None]]:
    """Show the progress of each JobVertex if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda monitor: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f} subtasks"),
        TextColumn("{task.fields[records]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[int, TaskID] = {
            compiled_vertex.chain.vertex: bar.add_task(
                printable(compiled_vertex.chain.name[:48]),
                total=compiled_vertex.chain.parallelism,
                records="",
                start=False,
            )
            for compiled_vertex in compiled.vertices
        }

        def on_change(monitor: JobMonitor) -> None:
            for vertex, task in tasks.items():
                summary = monitor.summary(vertex)
                if any(
                    attempt.vertex == vertex and attempt.host for attempt in monitor.attempts.copy().values()
                ):
                    bar.start_task(task)
                records = max(summary["records_in"], summary["records_out"])
                bar.update(
                    task, completed=summary["finished"], records=f"{records:,} records" if records else ""
                )

        yield on_change
