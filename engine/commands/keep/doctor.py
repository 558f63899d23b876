"""`penstock doctor`: what is installed, what Spark will use, and what does not fit together."""

from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.keep.check_installation import Finding, diagnose, probe
from penstock.engine.output.people import is_terminal, print_rows, print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.redaction import redact
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.engine.spark.session import get_session
from penstock.plans.errors import ConfigurationError, PenstockError


def command(
    session: Annotated[
        bool, typer.Option("--session", help="Also start Spark, run a Python worker and write a Delta table.")
    ] = False,
) -> None:
    """Print what is installed and what does not fit together (exit code 2)."""
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
    if is_terminal():
        columns = (Column(), Column("found"), Column())
        print_table(columns, [(row.name, redact(row.found), _verdict(row)) for row in findings])
        return
    for finding in findings:
        problem = " ".join(redact(finding.problem).split())
        print_rows([(finding.name, redact(finding.found), f"WRONG: {problem}" if problem else "ok")])


def _verdict(finding: Finding) -> Styled:
    return Styled(redact(finding.problem), "red") if finding.problem else Styled("ok", "green")
