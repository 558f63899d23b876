"""Get the Spark session for all work, the caller's own or a local one with Penstock's settings."""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.engine.machine.stop_on_signals import handles_signals, keeping_interrupts, noting_handler_errors
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.engine.spark.class_archive import (
    ArchivedStart,
    archived_start,
    remember_jars,
    uses_only_its_packages,
)
from penstock.engine.spark.describe_spark_error import describe_spark_error, disk_error_of_spark
from penstock.engine.spark.find_java import require_java
from penstock.engine.spark.spark_conf import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    delta_coordinates,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.engine.spark.spark_memory_estimate import require_memory_for_spark
from penstock.engine.spark.start_jvm import end_early, forget_jvm, spawn_early, starting_jvm
from penstock.engine.spark.start_settings import require_local_folders, start_settings
from penstock.plans.errors import ConfigurationError, PenstockError

_STOPPING_SECONDS = 10.0
_POLL_SECONDS = 0.02


def get_session(
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    app_name: str = "penstock",
    of_jvm: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session like `any_session`; ConfigurationError if it cannot read and write Delta tables."""
    running = _running_session()
    spark = any_session(master=master, conf=conf, app_name=app_name, of_jvm=of_jvm)
    try:
        return require_delta(spark)
    except ConfigurationError:
        if running is None:
            spark.stop()
        raise


def any_session(
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    app_name: str = "penstock",
    of_jvm: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session, with or without Delta.

    If the process has a running session, that one: `conf` is set on it, and it is the caller's to stop. Else
    a new one on `master` (a Spark master URL; default spark.master of the settings, else local[*]) with the
    settings of SPARK_CONF_DIR, or Penstock's own `spark-conf/` if that is not set, below `conf`. `of_jvm` are
    settings below `conf` for a JVM that is started now (see _defaults_of_jvm); a running one is not changed.

    Raises ConfigurationError: no Java or one too old, the Delta jar cannot be fetched, a value Spark refuses,
    a master or a static setting that differs from the running session's.
    """
    settings = dict(conf or {})
    remember_secrets(settings)
    running = _running_session()
    if running is not None:
        apply_settings(running, master, settings)
        return use_this_python(running)
    return _start(master, {**_defaults_of_jvm(of_jvm or {}, master, settings), **settings}, app_name)


def _defaults_of_jvm(
    of_jvm: Mapping[str, str], master: str | None, settings: Mapping[str, str]
) -> Mapping[str, str]:
    """Return `of_jvm`; its heap is only for a local Spark, and if no file sets one."""
    files = spark_settings(spark_conf_dir_in_use())
    chosen = master or settings.get("spark.master") or files.get("spark.master", "local")
    if chosen.startswith("local") and _HEAP not in files and _GATEWAY not in os.environ:
        return of_jvm
    return {key: value for key, value in of_jvm.items() if key != _HEAP}


_HEAP = "spark.driver.memory"


def require_delta(spark: SparkSession) -> SparkSession:
    """Return `spark`, or raise ConfigurationError, which names every setting it lacks for Delta tables."""
    if is_connect(spark):
        raise ConfigurationError(
            "whether a Spark Connect server has Delta is unknown", "give a path of this machine"
        )
    missing = _missing_for_delta(spark)
    if missing:
        raise ConfigurationError(
            f"the Spark session {spark.sparkContext.appName!r} cannot use Delta tables; it lacks "
            + ", ".join(missing),
            f"set them before the session starts, or use the settings in {spark_conf_dir()}",
        )
    return spark


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session is known to read and write Delta tables."""
    return not is_connect(spark) and not _missing_for_delta(spark)


def _missing_for_delta(spark: SparkSession) -> list[str]:
    missing = []
    if DELTA_EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        missing.append(f"spark.sql.extensions={DELTA_EXTENSION}")
    if spark.conf.get("spark.sql.catalog.spark_catalog", "") != DELTA_CATALOG:
        missing.append(f"spark.sql.catalog.spark_catalog={DELTA_CATALOG}")
    if not _has_class(spark, DELTA_CATALOG):
        missing.append(f"spark.jars.packages={delta_coordinates().text}")
    return missing


def use_this_python(spark: SparkSession) -> SparkSession:
    """Make local workers of `spark` run this interpreter unless another is configured; return `spark`.

    Spark's default is the `python3` of PATH, which is another one if an environment is not activated.
    """
    if is_connect(spark) or "PYSPARK_PYTHON" in os.environ:
        return spark
    context = spark.sparkContext
    if str(context.master).startswith("local") and spark.conf.get("spark.pyspark.python", None) is None:
        context.pythonExec = sys.executable
    return spark


def is_connect(spark: Any) -> bool:
    """Return whether a session or a DataFrame belongs to a client of Spark Connect, which has no JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores_of(spark: SparkSession) -> int:
    """Return the default parallelism of a session, classic or Connect: the tasks that run at once."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # A range has as many partitions, unless the setting of leaf nodes says otherwise.
    return spark.range(_MOST_CORES).selectExpr("spark_partition_id() as part").distinct().count()


_MOST_CORES = 1_000_000


def is_on_this_machine(spark: SparkSession) -> bool:
    """Return whether a session's Spark is one JVM on this machine. A Connect server's machine is unknown."""
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def _running_session() -> SparkSession | None:
    _wait_until_stopped()
    active = SparkSession.getActiveSession() if SparkContext._active_spark_context is not None else None
    if active is None and SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()  # started by another thread
    connect = sys.modules.get("pyspark.sql.connect.session")
    if active is None and connect is not None:
        active = connect.SparkSession.getActiveSession()
    return active


def _wait_until_stopped() -> None:
    """Wait while another thread stops the SparkContext, which stays the active one until then."""
    end = time.monotonic() + _STOPPING_SECONDS
    while time.monotonic() < end:
        context = SparkContext._active_spark_context
        if context is None or vars(context).get("_jsc", context) is not None:  # absent while it starts
            return
        time.sleep(_POLL_SECONDS)


def apply_settings(spark: SparkSession, master: str | None, settings: Mapping[str, str]) -> None:
    """Set `settings` on a running session; raise ConfigurationError for static ones that differ."""
    if is_connect(spark):
        for key, value in settings.items():
            spark.conf.set(key, value)
        return
    fixed = {} if master is None else {"spark.master": master}
    for key, value in settings.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        else:
            fixed[key] = value
    for key, value in fixed.items():
        current = spark.sparkContext.getConf().get(key)
        if current != value and not _is_with_sparks_own(key, current, value):
            raise ConfigurationError(
                f"{key} must be {_redacted(key, current)}, as in the running Spark session, got "
                f"{_redacted(key, value)}; it cannot be changed any more",
                "stop that session first, or leave the setting out",
            )


def _is_with_sparks_own(key: str, current: str | None, value: str) -> bool:
    """Return whether `current` is `value` after options for Java that Spark itself adds."""
    return key.endswith(".extraJavaOptions") and bool(value) and str(current).endswith(f" {value}")


def _redacted(key: str, value: str | None) -> str:
    return "none" if value is None else repr(redact_value(key, value))


_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Spark's environment variable with the port of the JVM that started this process."""


@dataclass(frozen=True)
class _SessionStart:
    """The settings of a session's start, and the arguments and environment from which they were computed."""

    arguments: tuple[str | None, Mapping[str, str], str]
    settings: Mapping[str, str]  #: in addition to its spark-defaults.conf
    archived: ArchivedStart | None
    environment: Mapping[str, str]
    folder: str

    @property
    def origin(self) -> tuple[Any, ...]:
        return self.arguments, self.environment, self.folder

    @property
    def is_local(self) -> bool:
        return self.settings["spark.master"].startswith("local")


_early_start: _SessionStart | None = None


def begin_session(
    *, master: str | None = None, conf: Mapping[str, str] | None = None, app_name: str = "penstock"
) -> None:
    """Spawn the JVM of a local session early, for a later `any_session` with the same arguments.

    The JVM starts while the caller does other work. Errors are reported by `any_session`, which starts
    again if the environment or the working directory has changed by then: workers inherit them from the JVM.
    """
    global _early_start  # noqa: PLW0603 a process has one JVM
    if _running_session() is not None or SparkContext._gateway is not None:
        return
    with suppress(PenstockError, OSError):
        start = _prepared(master, dict(conf or {}), app_name)
        if start.is_local:
            spawn_early(start.settings, start.archived)
            _early_start = start


def _prepared(master: str | None, settings: Mapping[str, str], app_name: str) -> _SessionStart:
    """Prepare a session's start. Raises ConfigurationError or NotEnoughMemoryError if it cannot start."""
    own = start_settings(master, settings, app_name)
    local = own["spark.master"].startswith("local")
    every = {**spark_settings(spark_conf_dir_in_use()), **own}
    if local:
        require_memory_for_spark()
        require_local_folders(every)
    java = require_java()
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONF_DIR", str(spark_conf_dir()))
    return _SessionStart(
        (master, settings, app_name), own, archived_start(own, every, java), _environment(), os.getcwd()
    )


def _environment() -> dict[str, str]:
    """Return the user's environment variables; libraries prefix their own with an underscore."""
    return {name: value for name, value in os.environ.items() if not name.startswith("_")}


def _start(master: str | None, requested: Mapping[str, str], app_name: str) -> SparkSession:
    global _early_start
    if _GATEWAY in os.environ:
        return _session_from_spark_submit(requested)
    early_start, _early_start = _early_start, None
    origin = ((master, requested, app_name), _environment(), os.getcwd())
    if early_start is not None and early_start.origin == origin:
        start = early_start
    else:
        end_early()
        start = _prepared(master, requested, app_name)
    settings = start.settings
    every = {**spark_settings(spark_conf_dir_in_use()), **settings}
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)  # repeats the exception as JSON
    if handles_signals():  # Py4J logs tracebacks of interrupted calls; a command reports why it ends
        logging.getLogger().addFilter(_is_worth_logging)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with noting_handler_errors() as raised:
        try:
            session = _session_of_new_context(conf, start, every)
        except BaseException:
            if raised:  # else the next session would reuse a partly started one
                forget_jvm()
                raise raised[0] from None
            raise
    if raised:  # Py4J has ignored it
        raise raised[0] from None
    return session


def _session_of_new_context(conf: SparkConf, start: _SessionStart, every: Mapping[str, str]) -> SparkSession:
    settings, archived = start.settings, start.archived
    with starting_jvm(settings, archived) if SparkContext._gateway is None else nullcontext() as gateway:
        try:
            with keeping_interrupts():
                context = SparkContext(gateway=gateway, conf=conf)
            server = context._accumulatorServer
            vars(server)["handle_error"] = _unless_cut_off(server.handle_error)
            if archived is None and start.is_local and uses_only_its_packages(every):
                remember_jars(every, context.getConf().get("spark.jars") or "")
            return SparkSession(context)
        except (Py4JError, PySparkException) as error:
            refused = disk_error_of_spark(error, every)
            message = f"Spark did not start: {describe_spark_error(error)}"
            raise refused or ConfigurationError(message) from error


def _session_from_spark_submit(settings: Mapping[str, str]) -> SparkSession:
    """Return the session of a driver started by spark-submit, whose JVM and settings exist."""
    try:
        SparkContext._ensure_initialized()
        return SparkSession(SparkContext(conf=SparkConf().setAll(list(settings.items()))))
    except (Py4JError, PySparkException) as error:
        raise ConfigurationError(f"Spark did not start: {describe_spark_error(error)}") from error


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for Py4J's log of an interrupted call to the JVM."""
    return not record.getMessage().endswith("while sending command.")


def _unless_cut_off(handle_error: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Silence a server's error handler once the JVM has ended, because its traceback adds nothing."""

    def handled(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            handle_error(request, client_address)

    return handled


def _has_class(spark: SparkSession, name: str) -> bool:
    if spark._jvm is None:
        return False
    try:
        spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JError:
        return False
    return True
