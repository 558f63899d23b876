"""Running scripts as a library call."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.engine.library.check_arguments import path, strings, whole_number
from penstock.engine.library.library_configuration import Config, library_configuration
from penstock.engine.library.require_store import require_store
from penstock.plans.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.engine.run.runtime.job_monitor import JobResult


def run(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    parallelism: int | None = None,
    master: str | None = None,
    config: Config = None,
    conf: Mapping[str, str] | None = None,
    py_files: Sequence[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    real_pyflink: bool = False,
) -> "list[JobResult]":
    """Run a PyFlink or Penstock script on Spark as `penstock run` does, and give the result of each of its
    jobs.

    `arguments` become sys.argv; `parallelism` is the default of its jobs (None: the number of cores),
    `master` a Spark master URL (None: local[*]), `config` options by key or a directory of YAML files (see
    library_configuration), `conf` Spark settings, `py_files`
    what its functions import. With `to`, each run and its plan are a version of that store. Unless
    `real_pyflink`, the script's `import pyflink` means Penstock.

    Raises InputError (no such script), ScriptError (the script raised), ConfigurationError (a wrong
    argument).
    """
    from penstock.engine.library.run_script import run_script
    from penstock.engine.library.what_if_of_script import with_python_files
    from penstock.engine.output.redaction import remember_secrets
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.pyflink.datastream.environment_options import EnvironmentSettings
    from penstock.engine.run.commits.acknowledge_runs import runs_acknowledged_at_end
    from penstock.engine.run.runtime.job_monitor import write_run
    from penstock.engine.run.runtime.receive_results import collects_closed_at_end
    from penstock.engine.run.runtime.run_control import run_listeners
    from penstock.engine.run.runtime.run_environment import use_session_settings

    place = path("script", script)
    files = [path("py_files", file) for file in py_files]
    target = None if to is None else path("to", to)
    if parallelism is not None:
        whole_number("parallelism", parallelism)
    if isinstance(arguments, str):
        raise ConfigurationError("arguments: found a string, allowed a list of strings")
    configuration = library_configuration(config)
    settings = strings("conf", conf)
    remember_secrets(settings)
    environment = EnvironmentSettings(
        parallelism=parallelism,
        config=with_python_files(configuration, ",".join(files)),
        plan_options=plan_options(cluster=configuration.cluster),
    )
    if target is not None:
        require_store(target)
    results: list[JobResult] = []

    def ended(result: "JobResult") -> None:
        results.append(result)
        if target is not None:
            write_run(target, result)

    run_listeners.append(ended)
    try:
        spark = {**configuration.spark, **settings}
        with use_session_settings(master, spark), runs_acknowledged_at_end(), collects_closed_at_end():
            run_script(
                place,
                [str(argument) for argument in arguments],
                environment,
                real_pyflink=real_pyflink,
            )
    finally:
        run_listeners.remove(ended)
    return results
