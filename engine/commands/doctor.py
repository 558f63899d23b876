"""The commands `penstock config` and `penstock doctor`, which list options and check the installation."""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import orjson
import pyarrow as pa
import pyspark
import typer
from packaging.requirements import Requirement
from pyspark.sql import SparkSession
from rich.table import Column

from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.configuration.describe_settings import (
    DescribedSetting,
    describe_known,
    describe_settings,
    properties_in_use,
    properties_of_environment,
)
from penstock.engine.configuration.find_configuration import configuration_directory
from penstock.engine.configuration.merge_settings import OPTIONS, closest_key, option_of
from penstock.engine.flink.plan_with_flink import flink_jars
from penstock.engine.machine.available_memory import import_root, memory_bytes
from penstock.engine.machine.folders import cache_folder, short_lived_folder, state_folder
from penstock.engine.machine.operating_system import cores
from penstock.engine.output.people import is_terminal, print_rows, print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.output.redaction import redact, remember_secrets
from penstock.engine.output.write_lines import write_texts
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.engine.spark.find_java import MINIMUM_JAVA, find_java
from penstock.engine.spark.session import get_session
from penstock.engine.spark.spark_conf import (
    delta_coordinates,
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.engine.spark.spark_memory_estimate import heap_mebibytes
from penstock.engine.spark.start_settings import ivy_dir
from penstock.operators.files.durable_files import NotOwnError
from penstock.plans.errors import ConfigurationError, PenstockError
from penstock.plans.installation import install_command, other_distribution, own_requirements, own_version
from penstock.plans.topology.rules import shorten

# `penstock config`: list options, their values and sources.


def config_command(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Describe only this key, in full.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List all options, their values and defaults, and where the values come from.

    Values come from defaults, from the YAML files of the configuration directory, from -D and from
    environment variables; Spark's properties also from spark-defaults.conf. Later ones win. Secrets are
    hidden.

    Examples:
        penstock config
        penstock config parallelism.default -D parallelism.default=4
    """
    configuration = given_configuration(config_dir, define)
    directory = configuration_directory(config_dir)
    properties, environment = properties_in_use(), properties_of_environment()
    remember_secrets({setting.key: setting.text for setting in (*properties, *environment)})
    described = describe_settings(configuration, environment, properties)
    if key is not None:
        _show_key(_describe_key(key, described), json)
    elif json:
        settings = [described_setting.as_json() for described_setting in described]
        listing = {"directory": str(directory.path), "named_by": directory.named_by, "settings": settings}
        write_texts([orjson.dumps(listing, option=orjson.OPT_INDENT_2).decode()], None)
    else:
        print_line(f"YAML files of {directory.path} ({directory.named_by})")
        rows = [
            (
                described_setting.key,
                described_setting.value,
                described_setting.default,
                _place(described_setting),
            )
            for described_setting in described
        ]
        print_table((Column("key"), Column("value"), Column("default"), Column("from")), rows)


def _place(setting: DescribedSetting) -> str:
    return f"{setting.place} ({setting.note})" if setting.note else setting.place


def _describe_key(key: str, described: list[DescribedSetting]) -> DescribedSetting:
    """Describe a key. Raises ConfigurationError if it is unknown."""
    option = option_of(key)
    wanted = key if option is None else option.key
    setting = next((setting for setting in described if setting.key == wanted), None) or describe_known(
        wanted
    )
    if setting is None:
        closest = closest_key(key, frozenset(option.key for option in OPTIONS))
        raise ConfigurationError(
            f"{shorten(key)} is an unknown key",
            f"did you mean {closest}?" if closest else "penstock config lists the options",
        )
    return setting


def _show_key(setting: DescribedSetting, json: bool) -> None:
    if json:
        write_texts([orjson.dumps(setting.as_json(), option=orjson.OPT_INDENT_2).decode()], None)
        return
    print_line(f"{setting.key}: {setting.meaning}")
    rows = [
        ("value", setting.value),
        ("from", setting.place),
        ("default", setting.default),
        ("allowed", setting.allowed),
        ("deprecated keys", ", ".join(setting.deprecated)),
        ("note", setting.note),
        *(("overridden", f"{value} ({place})") for place, value in setting.overridden),
    ]
    print_table((Column(""), Column("")), [(name, text) for name, text in rows if text or name == "value"])


# Checks of the installation. Each finding names a thing, its version and what it must fit.


NOT_INSTALLED = "not installed"
_SHOWN = ("pyspark", "delta-spark", "pyarrow", "pandas", "numpy", "polars", "deltalake", "numba")


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report; `problem` is empty if all is well, else it names the pair that does not fit."""

    name: str
    installed: str
    problem: str = ""


def diagnose() -> list[Finding]:
    """Return all findings that do not need Spark. Never raises: a failure is a finding."""
    return [
        Finding("Penstock", f"{own_version()} ({import_root()})", other_distribution() or ""),
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        _java(),
        *(_package(name) for name in _SHOWN),
        _extra_flink(),
        *_delta_jar(),
        _workers(),
        Finding("cores", str(cores())),
        Finding(
            "memory",
            f"{memory_bytes() / 2**30:.1f} GiB; a local Spark takes {heap_mebibytes() / 2**10:.1f} GiB",
        ),
        _conf_dir(),
        _own_folder("state", state_folder),
        _own_folder("cache", cache_folder),
    ]


def _extra_flink() -> Finding:
    """Check the extra `flink`. Without it nothing is wrong, but plans cannot be compared with Flink's."""
    name, installed = "extra flink", _version("apache-flink-libraries")
    try:
        return Finding(name, f"apache-flink-libraries {installed} ({flink_jars()})")
    except ConfigurationError as error:
        if installed == NOT_INSTALLED:
            return Finding(name, f"not installed; {install_command('flink')} adds planning by Flink itself")
        return Finding(name, f"apache-flink-libraries {installed}", error.message)


def probe(spark: SparkSession) -> list[Finding]:
    """Return findings about workers' Python and a Delta table, which need a running session."""
    schema = "executable string, version string, pyarrow string"
    worker = spark.range(1, numPartitions=1).mapInArrow(_describe_worker, schema).first()
    if worker is None:
        return [Finding("session's worker", "no answer", "a Python worker gave no row back")]
    driver_versions = (platform.python_version(), pa.__version__)
    versions = (worker["version"], worker["pyarrow"])
    worker_python = f"Python {versions[0]} ({worker['executable']}), pyarrow {versions[1]}"
    differ = f"driver has Python {driver_versions[0]} and pyarrow {driver_versions[1]}"
    problem = "" if driver_versions == versions else differ
    with short_lived_folder("doctor") as folder:
        path = os.path.join(folder, "table")
        spark.range(3).write.format("delta").save(path)
        rows = spark.read.format("delta").load(path).count()
    return [
        Finding("session", f"Spark {spark.version} on {spark.sparkContext.master}"),
        Finding("session's worker", worker_python, problem),
        Finding("session's Delta table", f"{rows} rows of 3", "" if rows == 3 else "rows were lost"),
    ]


def _describe_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            row = {
                "executable": sys.executable,
                "version": platform.python_version(),
                "pyarrow": pa.__version__,
            }
            yield pa.RecordBatch.from_pylist([row])


def _requirements() -> dict[str, Requirement]:
    declared = map(Requirement, own_requirements())
    return {r.name: r for r in declared if r.marker is None or r.marker.evaluate()}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return NOT_INSTALLED


def _java() -> Finding:
    try:
        java = find_java()
    except ConfigurationError as error:
        return Finding("Java", "none", str(error))
    problem = (
        "" if java.release >= MINIMUM_JAVA else f"pyspark {_version('pyspark')} needs Java {MINIMUM_JAVA}+"
    )
    return Finding("Java", f"{java.version} ({java.path})", problem)


def _package(name: str) -> Finding:
    installed, wanted = _version(name), _requirements().get(name)
    fits = wanted is None or (
        installed != NOT_INSTALLED and wanted.specifier.contains(installed, prereleases=True)
    )
    return Finding(name, installed, "" if fits else f"penstock {own_version()} needs {wanted}")


def _delta_jar() -> Iterator[Finding]:
    """Compare the jar with the installed delta-spark, pyspark's minor version and its Scala."""
    jar = delta_coordinates()
    delta, spark, scala = _version("delta-spark"), _version("pyspark"), _scala()
    problems = []
    if jar.version != delta:
        problems.append(f"jar {jar.version} and delta-spark {delta} differ")
    if jar.spark_version != ".".join(spark.split(".")[:2]):
        problems.append(f"the jar is for Spark {jar.spark_version}, pyspark is {spark}")
    if not scala.startswith(f"{jar.scala_version}."):
        problems.append(f"the jar is for Scala {jar.scala_version}, pyspark has {scala}")
    yield Finding("Scala", scala)
    yield Finding("Delta jar", jar.text, "; ".join(problems))
    try:
        jars = offline_jars()
    except PenstockError as error:
        yield Finding("jars from", "PENSTOCK_JARS", str(error))
        return
    if jars:
        yield Finding("jars from", f"PENSTOCK_JARS ({len(jars)} jars)")
    else:
        yield Finding("jars from", f"spark.jars.packages, cached in {ivy_dir() / 'jars'}")


def _scala() -> str:
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    names = (path.name for path in sorted((home / "jars").glob("scala-library-*.jar")))
    return next(
        (n.removeprefix("scala-library-").removesuffix(".jar") for n in names), "no scala-library jar"
    )


def _workers() -> Finding:
    """Name the workers' Python, which is this one in a local Spark, and PYSPARK_PYTHON on a cluster."""
    python = os.environ.get("PYSPARK_PYTHON")
    if python is None or Path(python) == Path(sys.executable):
        return Finding("workers' Python", sys.executable)
    return Finding("workers' Python", f"{sys.executable}; on a cluster {python} (PYSPARK_PYTHON)")


def _own_folder(name: str, hand_out: Callable[[], Path]) -> Finding:
    try:
        return Finding(f"folder of {name}", str(hand_out()))
    except NotOwnError as error:
        return Finding(f"folder of {name}", "not used", str(error))
    except OSError as error:
        return Finding(f"folder of {name}", f"none: {error}")


def _conf_dir() -> Finding:
    in_use = spark_conf_dir_in_use()
    bundled = spark_conf_dir()
    settings = spark_settings(in_use)
    if in_use == bundled or bundled in in_use.parents:
        return Finding("Spark settings", str(in_use))
    lacking = [
        key
        for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
        if spark_settings(bundled)[key] not in settings.get(key, "")
    ]
    problem = (
        f"lacks Delta's {', '.join(lacking)}; copy them from {bundled}/spark-defaults.conf" if lacking else ""
    )
    return Finding("Spark settings", f"{in_use} (SPARK_CONF_DIR)", problem)


def doctor_command(
    session: Annotated[
        bool, typer.Option("--session", help="Also start Spark, run a Python worker and write a Delta table.")
    ] = False,
) -> None:
    """Print the installed versions and everything that does not fit together.

    Examples:
        penstock doctor
        penstock doctor --session

    Exit codes:
        2: Something does not fit.
    """
    findings = diagnose()
    if session:
        findings += _probe()
    _print(findings)
    wrong = sum(1 for finding in findings if finding.problem)
    if wrong:
        raise ConfigurationError(f"{wrong} of {len(findings)} findings have a problem; see above")


def _probe() -> list[Finding]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark = get_session(app_name="penstock doctor")
    except PenstockError as error:
        return [Finding("session", "does not start", str(error))]
    try:
        return probe(spark)
    except (Py4JError, PySparkException) as error:
        return [Finding("session", "fails", describe_spark_error(error))]
    finally:
        spark.stop()


def _print(findings: list[Finding]) -> None:
    """Print a table on a terminal, or tab-separated name, finding and verdict if the output is piped."""
    if is_terminal():
        columns = (Column(), Column("found"), Column())
        print_table(columns, [(row.name, redact(row.installed), _verdict(row)) for row in findings])
        return
    for finding in findings:
        problem = " ".join(redact(finding.problem).split())
        print_rows([(finding.name, redact(finding.installed), f"WRONG: {problem}" if problem else "ok")])


def _verdict(finding: Finding) -> StyledText:
    return StyledText(redact(finding.problem), "red") if finding.problem else StyledText("ok", "green")
