"""`penstock doctor`: what is installed, what Spark will use, and which pair does not fit."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from engine.describe_spark_error import describe_spark_error
from engine.doctor import Finding, diagnose, probe
from engine.session import get_session
from plans.errors import ConfigurationError, PenstockError


def command(
    session: Annotated[
        bool, typer.Option("--session", help="Also start Spark, ask a worker and write a Delta table.")
    ] = False,
) -> None:
    """Print what is installed, and which pair does not fit (exit code 2)."""
    findings = diagnose()
    if session:
        findings += _probe()
    _print(findings)
    wrong = sum(1 for finding in findings if finding.problem)
    if wrong:
        raise ConfigurationError(f"{wrong} of {len(findings)} findings are wrong; see above")


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
    """A table on a terminal; name, found and verdict with tabs between where the output is piped."""
    console = Console()
    if console.is_terminal:
        console.print(_table(findings))
        return
    for finding in findings:
        problem = " ".join(finding.problem.split())
        verdict = f"WRONG: {problem}" if problem else "ok"
        sys.stdout.write("\t".join((finding.name, finding.found, verdict)) + "\n")


def _table(findings: list[Finding]) -> Table:
    table = Table(Column(), Column("found", overflow="fold"), Column(overflow="fold"), show_edge=False)
    for finding in findings:
        verdict = Text(finding.problem, style="red") if finding.problem else Text("ok", style="green")
        table.add_row(finding.name, Text(finding.found), verdict)
    return table
