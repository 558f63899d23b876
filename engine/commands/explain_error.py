"""Message and exit code for an error that ends a command."""

import sys

import typer

from penstock.engine.machine.standard_streams import NOBODY_READS, nobody_reads
from penstock.engine.machine.stop_on_signals import note_interrupt, stop_exit_code, stop_message, stopped_by
from penstock.engine.spark.describe_memory_error import (
    describe_memory_error,
    is_out_of_memory,
    jvm_ran_out_of_memory,
)
from penstock.plans.errors import NotEnoughMemoryError, PenstockError

_RUST_PANIC = "PanicException"
"""Raised by polars and deltalake; not an Exception, and each library defines its own class."""


def explain_stop(error: BaseException) -> tuple[str, int] | None:
    """Return the message if a signal ended the command, whichever error it led to on the way out."""
    if isinstance(error, KeyboardInterrupt):
        note_interrupt()
    number = stopped_by()
    if number is None:
        return None
    message = str(error) if isinstance(error, PenstockError) else stop_message(number)
    return message, stop_exit_code(number)


def explain_error(error: BaseException) -> tuple[str, int] | None:
    """Return the message and exit code for `error`; None if Typer reports it (usage, exit)."""
    if isinstance(error, PenstockError) and not jvm_ran_out_of_memory(error):
        return str(error), error.exit_code
    if nobody_reads(error):
        return "", NOBODY_READS
    if isinstance(error, typer.Exit | typer.Abort | typer.TyperException | EOFError):
        return None
    # A panic of Rust is a BaseException of a class that each library defines itself.
    if not isinstance(error, Exception) and type(error).__name__ != _RUST_PANIC:
        return None  # KeyboardInterrupt, SystemExit
    if is_out_of_memory(error):
        return describe_memory_error(error), NotEnoughMemoryError.exit_code
    if isinstance(error, OSError):
        from penstock.engine.machine.machine_error import machine_error

        refused = machine_error(error)
        return (str(error), 1) if refused is None else (str(refused), refused.exit_code)
    if "pyspark" in sys.modules and _is_from_spark(error):
        from penstock.engine.spark.describe_spark_error import (
            describe_spark_error,
            disk_error_of_spark,
            unseen_by_executors,
        )

        message = f"Spark failed: {describe_spark_error(error)}"
        known = disk_error_of_spark(error) or unseen_by_executors(error)
        reported = known or PenstockError(message, "--debug shows the traceback")
        return str(reported), reported.exit_code
    hint = "--debug shows the traceback; please report it"
    if isinstance(error, ImportError | AttributeError):
        from penstock.plans.installation import other_distribution

        hint = other_distribution() or hint
    return f"internal error: {type(error).__name__}: {error}\n  hint: {hint}", 1


def _is_from_spark(error: BaseException) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException)
