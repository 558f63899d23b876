"""Submit a script in cluster mode by spark-submit, with settings and archives in files.

Source: org.apache.spark.deploy.SparkSubmit.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.configuration.cluster_options import Level
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.machine.folders import temporary_folder
from penstock.engine.output.print_line import print_error
from penstock.engine.output.redaction import redact, redact_value
from penstock.engine.run.clusters.session_folder import Cluster
from penstock.engine.run.clusters.start_session import EXECUTOR_CORES
from penstock.engine.run.lowering.transformations import (
    FILE_DELIMITER,
    PARAM_DELIMITER,
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.engine.spark import submitted_driver
from penstock.engine.spark.class_archive import archive_settings, write_archive, write_wheel
from penstock.engine.spark.find_java import require_java
from penstock.engine.spark.spark_conf import (
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.engine.spark.start_jvm import spark_submit
from penstock.engine.spark.start_settings import authentication, write_properties
from penstock.engine.spark.submitted_driver import COMMAND_LINE, JOB_FOLDER
from penstock.plans.errors import ConfigurationError, InputError, PenstockError

# A client's files that a script in cluster mode needs, and their paths in the driver.


class ShippedFiles:
    """Collects the files that are sent with a job, and the names of all missing files."""

    def __init__(self) -> None:
        self.entries = dict[str, Path]()  #: by name in the archive of the job
        self.missing = list[str]()

    def ship(self, option: str, path: str) -> str:
        """Add `path`, a value of `option`; return its path in the driver. URLs are returned unchanged."""
        if "://" in path and not path.startswith("file://"):
            return path
        local = Path(path.removeprefix("file://"))
        if not local.exists():
            self.missing.append(f"{option} {path}: no such file")
        name = f"files/{len(self.entries)}/{local.resolve().name}"
        self.entries[name] = local
        return f"{JOB_FOLDER}/{name}"

    def ship_option(self, key: str, text: str) -> str:
        """Return the value of a Flink option in the driver: paths of Python files, archives, requirements."""
        if key == PYTHON_FILES:
            paths = filter(None, text.split(FILE_DELIMITER))
            return FILE_DELIMITER.join(self.ship(key, path) for path in paths)
        if key == PYTHON_ARCHIVES:
            return FILE_DELIMITER.join(
                self._archive(archive) for archive in filter(None, text.split(FILE_DELIMITER))
            )
        if key == PYTHON_REQUIREMENTS:
            paths = filter(None, text.split(PARAM_DELIMITER))
            return PARAM_DELIMITER.join(self.ship(key, path) for path in paths)
        return text

    def _archive(self, text: str) -> str:
        path, delimiter, folder = text.partition(PARAM_DELIMITER)
        return f"{self.ship(PYTHON_ARCHIVES, path)}{delimiter}{folder}"


DEPLOY_MODE = "spark.submit.deployMode"
_JAVA_OPTIONS = tuple(
    f"spark.{role}.{kind}JavaOptions" for role in ("driver", "executor") for kind in ("default", "extra")
)
_KUBERNETES = "k8s://"
_KUBERNETES_SETTINGS = {
    "spark.kubernetes.container.image": "the image of the pods",
    "spark.kubernetes.file.upload.path": "a folder that the driver's pod reads, such as s3a://bucket/folder",
}
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_PATHS_OF_THE_CLUSTER = ("--to=", "--checkpoint-dir=")
_WAIT = ("spark.yarn.submit.waitAppCompletion", "spark.kubernetes.submission.waitAppCompletion")


# The submission.


@dataclass(frozen=True)
class ClusterScript:
    """A script to run in cluster mode."""

    master: str
    script: str
    arguments: Sequence[str]
    options: Sequence[str]  #: options of `penstock run` that the driver gets unchanged
    configuration: EffectiveConfiguration
    spark: Mapping[str, str]  #: Spark's settings from the configuration and the command
    python_files: str | None  #: value of --py-files
    detached: bool  #: the command does not wait for the end of the application


@dataclass(frozen=True)
class Submission:
    """The arguments of spark-submit, and the settings in its properties file."""

    arguments: tuple[str, ...]
    settings: Mapping[str, str]


def write_submission(folder: Path, script: ClusterScript) -> Submission:
    """Write the files that `script` needs into `folder`.

    Settings, options and arguments of the script stay off the command line, which all users can see. Raises
    ConfigurationError with all problems, and InputError if the script does not exist.
    """
    path = Path(script.script)
    if not path.is_file():
        raise InputError(f"{script.script}: no such script" if not path.exists() else f"{path}: not a file")
    shipped = ShippedFiles()
    command = _command(script, shipped)
    configuration = _shipped_options(Level.FILE, script, shipped)
    settings = _settings(folder, script)
    _refuse(script, [*_problems(script, settings), *shipped.missing])
    write_wheel(folder / "penstock.zip")
    write_archive(
        folder / f"{JOB_FOLDER}.zip",
        {
            COMMAND_LINE: json.dumps(command, indent=1),
            "conf/configuration.yaml": json.dumps(configuration, indent=1),  # JSON is YAML
            f"script/{path.name}": path,
            **shipped.entries,
        },
    )
    driver = folder / "penstock_driver.py"
    shutil.copyfile(submitted_driver.__file__, driver)
    properties = folder / "spark.properties"
    write_properties(properties, settings)
    return Submission(("--properties-file", str(properties), str(driver)), settings)


def _command(script: ClusterScript, shipped: ShippedFiles) -> list[str]:
    """Return the arguments of `penstock` in the driver."""
    options = [*script.options, f"--master={script.master}", f"--config-dir={JOB_FOLDER}/conf"]
    options += [f"-D{key}={text}" for key, text in _shipped_options(Level.DEFINE, script, shipped).items()]
    if script.python_files:
        options.append(f"--py-files={shipped.ship_option('python.files', script.python_files)}")
    if script.configuration.cluster.slots is not None:
        options.append(f"--conf={EXECUTOR_CORES}={_executor_cores(script)}")
    return ["run", *options, "--", f"{JOB_FOLDER}/script/{Path(script.script).name}", *script.arguments]


def _shipped_options(level: Level, script: ClusterScript, shipped: ShippedFiles) -> dict[str, str]:
    """Return Flink's options that were set at a level, with their values in the driver."""
    return {
        setting.key: shipped.ship_option(setting.key, setting.text)
        for setting in script.configuration.settings.values()
        if setting.level is level and not setting.key.startswith("spark.")
    }


def _executor_cores(script: ClusterScript) -> str:
    return script.spark.get(EXECUTOR_CORES) or str(script.configuration.cluster.slots or 1)


def _settings(folder: Path, script: ClusterScript) -> dict[str, str]:
    settings = {**spark_settings(spark_conf_dir_in_use()), **script.spark}
    if script.configuration.cluster.slots is not None:
        settings[EXECUTOR_CORES] = _executor_cores(script)
    if jars := offline_jars():
        settings |= {"spark.jars": ",".join(map(str, jars)), "spark.jars.packages": ""}
    settings |= {
        "spark.app.name": f"penstock {Path(script.script).name}",
        "spark.master": script.master,
        DEPLOY_MODE: "cluster",
        **dict.fromkeys(_WAIT, str(not script.detached).lower()),
        **authentication(script.master, settings),
    }
    job = f"{folder / JOB_FOLDER}.zip#{JOB_FOLDER}"
    return {**settings, **archive_settings(script.master, settings, folder / "penstock.zip", job)}


def _problems(script: ClusterScript, settings: Mapping[str, str]) -> list[str]:
    problems = [
        f"{key} holds a secret, which would be on a command line of Java's in the cluster"
        for key in _JAVA_OPTIONS
        if key in settings and redact_value(key, settings[key]) != settings[key]
    ]
    problems += [
        f"{option} must be a URL, or an absolute path that the driver sees: the driver's working folder is "
        "removed at its end"
        for option in script.options
        if option.startswith(_PATHS_OF_THE_CLUSTER)
        and "://" not in option
        and not os.path.isabs(option.partition("=")[2])
    ]
    if script.master.startswith(_KUBERNETES):
        problems += [
            f"{key} is not set: {meaning}"
            for key, meaning in _KUBERNETES_SETTINGS.items()
            if key not in settings
        ]
    elif not any(os.environ.get(name) for name in _HADOOP):
        problems.append(f"neither {_HADOOP[0]} nor {_HADOOP[1]} is set: the folder of Hadoop's configuration")
    return problems


def _refuse(script: ClusterScript, problems: Sequence[str]) -> None:
    if problems:
        listed = problems[0] if len(problems) == 1 else "".join(f"\n  {problem}" for problem in problems)
        raise ConfigurationError(f"cluster mode on {redact(script.master)}: {listed}")


# The call of spark-submit, whose output is printed.


_APPLICATION = re.compile(r"\b(application_\d+_\d+)\b|\bsubmission ID (\S+)")
_STACK = re.compile(r"\s+(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)")
_FAILURE = 'Exception in thread "main" '


def submit_to_cluster(script: ClusterScript) -> str | None:
    """Submit `script`, wait until its application has ended unless it is detached, and return its id.

    None if spark-submit names no application. Raises ConfigurationError and InputError if the script cannot
    be submitted, PenstockError if spark-submit or the application fails.
    """
    folder = temporary_folder("submission")
    submission = write_submission(folder, script)
    require_java()
    application, reason, last = None, "", ""
    with subprocess.Popen(
        [spark_submit(), *submission.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if not line or _STACK.fullmatch(line):
                continue
            if match := _APPLICATION.search(line):
                application = match[1] or match[2]
            if line.startswith(_FAILURE):
                reason = line.removeprefix(_FAILURE)
            last = line
            print_error(line)
    if process.returncode:
        failed = f"application {application}" if application else "spark-submit"
        message = redact(f"cluster mode on {script.master}: {failed} has failed: {reason or last}")
        raise PenstockError(message, _hint(script.master, application))
    return application


def _hint(master: str, application: str | None) -> str:
    if application is None:
        return "check that the cluster can be reached from this machine"
    if master == "yarn":
        return f"yarn logs -applicationId {application} prints the driver's output"
    return f"kubectl logs {application.rpartition(':')[2]} prints the driver's output"


def _environment() -> dict[str, str]:
    """Return the environment of spark-submit, with a log that names the application and its states."""
    log4j = (spark_conf_dir() / "submission.log4j2.properties").as_uri()
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), f"-Dlog4j2.configurationFile={log4j}"]
    return {
        **os.environ,
        "SPARK_CONF_DIR": str(spark_conf_dir_in_use()),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, options)),
    }


# Spark has a cluster mode for Python on YARN and Kubernetes.


def require_cluster_mode(cluster: Cluster) -> str:
    """Return the master on which the driver runs. Raises ConfigurationError if Spark cannot run it there.

    Source: org.apache.spark.deploy.SparkSubmit.prepareSubmitEnvironment.
    """
    if cluster.session is not None:
        raise ConfigurationError(
            f"deploy mode cluster cannot be used with session {cluster.session.name!r}: a session has its "
            "driver already",
            "leave out --deploy-mode, or give -m yarn or -m k8s://…",
        )
    master = cluster.master or "local"
    if master == "yarn" or master.startswith("k8s://"):
        return master
    if master.startswith("spark://"):
        raise ConfigurationError(
            f"deploy mode cluster cannot be used on {redact(master)}: Spark's standalone cluster mode takes "
            "no Python applications",
            "run the command on a machine of the cluster, detached if you like (-d), or start a session: "
            "penstock session start -m …",
        )
    raise ConfigurationError(
        f"deploy mode cluster: the master must be yarn or k8s://…, got {redact(master)}",
        "give -m yarn or -m k8s://…; a local Spark has no cluster",
    )
