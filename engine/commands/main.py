"""The `penstock` command. Each subcommand is imported when it runs, so that help does not wait for Spark."""

import atexit
import gc
import os
import sys
import traceback
import warnings

from penstock.engine.machine.operating_system import adopt_orphans
from penstock.engine.machine.standard_streams import (
    NOBODY_READS,
    end_on_standard_error,
    name_standard_output,
    nobody_reads,
    open_missing_standard_files,
)
from penstock.engine.machine.stop_on_signals import (
    end_at_once_on_signals,
    end_children,
    stopped_by,
    unwinding_on_signals,
)

# Only as a command, and before imports that take a tenth of a second.
if __name__ == "__main__" or os.path.basename(sys.argv[0]) in ("penstock", "penstock-spark"):
    end_at_once_on_signals()
    open_missing_standard_files()
    gc.disable()  # until the command is imported: imports leave no garbage behind
    atexit.register(gc.freeze)  # collecting cycles at exit would take 0.3 s after planning a fleet

from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.engine.commands.explain_error import explain_error, explain_stop
from penstock.engine.commands.skip_typers_checks import ARGUMENTS, PlainCommand, skip_typers_checks
from penstock.engine.machine.available_memory import require_address_space
from penstock.engine.output.print_line import print_error, print_line
from penstock.engine.output.redaction import mask_arguments, redact, remember_secret_arguments
from penstock.plans.printable import printable_lines

COMMANDS = {
    "Plan": {
        "plan": ("plan", "Plan topology files into a store."),
        "capture": ("capture", "Turn jobs of real programs into topologies."),
        "import": ("import_files", "Turn graphs of other tools into topologies."),
        "generate": ("generate", "Make synthetic topologies."),
        "examples": ("examples", "List and copy the bundled examples."),
    },
    "Look at plans": {
        "show": ("show", "Show the plans of a store."),
        "draw": ("draw", "Draw a plan as a picture, a page or a graph."),
        "explain": ("explain", "Explain a plan: chaining, ids, slots."),
        "diff": ("diff", "Compare plans, and check whether savepoints restore."),
        "size": ("size", "Count the TaskManagers that the jobs of a store need."),
        "metrics": ("metrics", "Show the resources and sustainable rates of plans."),
        "rejected": ("show", "List rejected topologies and the reasons."),
        "edges": ("edges", "Write the execution edges of a topology."),
        "sql": ("sql", "Query a store with SQL."),
        "export": ("export", "Write plans as JSON lines."),
    },
    "Run jobs": {
        "run": ("run", "Run a PyFlink or Penstock script on Spark."),
        "info": ("info", "Show the jobs of a script without running them."),
        "list": ("jobs", "List running jobs, and the latest that have ended."),
        "status": ("jobs", "Show a job, by vertex."),
        "logs": ("jobs", "Print the output of a detached job's driver."),
        "wait": ("jobs", "Wait until a job has ended."),
        "cancel": ("jobs", "Cancel a job."),
        "session": ("session", "Start, list and stop sessions that jobs share."),
        "state": ("state", "Show and compare the state of streams."),
        "ui": ("jobs", "Show jobs and runs in a browser, live."),
        "runs": ("runs", "List the runs that a store records."),
    },
    "Measure planners": {
        "bench": ("bench", "Measure planners, and compare their plans."),
        "sweep": ("sweep", "Measure a grid of topologies, options and planners."),
        "cite": ("examples", "Print how to cite Penstock."),
    },
    "Maintain": {
        "verify": ("maintain", "Check that the files of a store are undamaged."),
        "recover": ("recover", "Finish or undo the commits of killed runs."),
        "drop": ("maintain", "Drop versions of a store."),
        "vacuum": ("maintain", "Free the disk space of dropped versions."),
        "clean": ("recover", "Remove the checkpoints that jobs keep for resuming."),
        "config": ("doctor", "List options, their values and their sources."),
        "doctor": ("doctor", "Check the installation."),
    },
}
"""The help's headings, each with its commands: module and one line of help."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed (Spark, or a bug); 2 usage, configuration or installation; "
    "3 an input cannot be read; 4 the store is unsuitable or damaged; "
    "5 bench: slower than the earlier results; 6 diff: a verdict is worse than required; "
    "7 topologies were refused: all of them, or any with --strict; "
    "8 the system reports no space, no permission, a read-only target or an I/O error; "
    "9 not enough memory; 10 capture --verify: a plan differs from Flink's; 129 hung up (SIGHUP); "
    "130 interrupted (Ctrl-C); 141 the reader closed the output (SIGPIPE); 143 terminated (SIGTERM)."
)


class LazyGroup(TyperGroup):
    """Lists COMMANDS as placeholders in the help, and imports the command that is called.

    Typer's extension point for this is a class.
    """

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for heading, commands in COMMANDS.items():
            for name, (_, line) in commands.items():
                self.add_command(TyperCommand(name, help=line, rich_help_panel=heading))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command, and Typer's own."""
        params = super().get_params(ctx)
        skip_typers_checks(params)
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that `args` calls; return it with the remaining arguments."""
        name, placeholder, rest = super().resolve_command(ctx, args)
        ctx.meta[ARGUMENTS] = tuple(rest)
        require_address_space(str(name))
        return name, _load(str(name)) if placeholder else None, rest

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of `args`. Help, the version and errors of usage are printed here."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.TyperException as error:
            raise _shown(error) from None
        except OSError as error:
            if (message := explain_error(error)) is None or "--debug" in args:
                raise
            _end(message, error)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn its errors into a message and an exit code, unless --debug is set.

        Signals end it like Ctrl-C. Output is flushed here, where an error can still be reported.
        """
        try:
            with unwinding_on_signals():
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except typer.TyperException as error:
            raise _shown(error) from None
        except BaseException as error:
            message = explain_stop(error) or explain_error(error)
            if message is None or (ctx.params["debug"] and stopped_by() is None):
                raise
            _end(message, error)


app = typer.Typer(
    cls=LazyGroup,
    help="Plans Flink-style streaming topologies exactly as Apache Flink does, and runs them on Spark.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from penstock.plans.installation import own_version

        print_line(f"penstock {own_version()}")
        sys.stdout.flush()  # while an error can still be reported
        raise typer.Exit()


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Entry point of the console command `penstock`, in a process that leaves no children behind."""
    exit_code = [0]
    if sys.version_info >= (3, 14):
        atexit.register(end_before_duckdb, exit_code)  # registered first, so that it runs last
    end_at_once_on_signals()
    adopt_orphans()
    name_standard_output()
    remember_secret_arguments(sys.argv)
    if not mask_arguments():
        print_error(
            "penstock: other users can read the secrets of this command line while it runs\n"
            "  hint: put them into a file, and name it with --properties-file"
        )
    warnings.showwarning = _warn
    had_jvm = _has_jvm()
    try:
        app(prog_name="penstock")
    except SystemExit as stop:
        if nobody_reads(stop.__context__):  # Rich exits with 1
            sys.exit(NOBODY_READS)
        raise
    except Exception:  # --debug
        print_error(traceback.format_exc().rstrip())
        sys.exit(1)
    finally:
        end_on_standard_error()
        if stopped_by() is not None:
            end_children()
            if "penstock.plans.planners.plan_in_parts" in sys.modules:  # Python waits for its threads
                sys.modules["penstock.plans.planners.plan_in_parts"].interrupt_parts()
        elif not had_jvm and "penstock.engine.spark.start_jvm" in sys.modules:
            sys.modules["penstock.engine.spark.start_jvm"].end_jvm()
        ending = sys.exc_info()[1]
        code = ending.code if isinstance(ending, SystemExit) else int(ending is not None)
        exit_code[0] = code if isinstance(code, int) else int(code is not None)


def end_before_duckdb(exit_code: list[int]) -> None:
    """Skip the destructors of static objects, because DuckDB's take the GIL after Python has ended.

    Python 3.14 aborts then, so that `penstock sql` would end with exit code 134. See
    https://github.com/duckdb/duckdb-python/issues/531
    """
    if "duckdb" in sys.modules:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code[0])


def _has_jvm() -> bool:
    """Return whether this process already has a JVM that another library started."""
    return "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._gateway is not None


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """Print a warning as Python does, but printable and without secrets."""
    print_error(warnings.formatwarning(message, category, filename, lineno).rstrip())


def _load(name: str) -> Any:
    """Import the command `name`, which is the function `<name>_command` of its module."""
    (module,) = (commands[name][0] for commands in COMMANDS.values() if name in commands)
    loaded = import_module(f"penstock.engine.commands.{module}")
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    command = getattr(loaded, f"{name}_command")
    if isinstance(command, typer.Typer):  # it has subcommands
        return typer.main.get_command(command)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    settings = getattr(loaded, "CONTEXT_SETTINGS", None)
    single.command(cls=PlainCommand, context_settings=settings)(command)
    return typer.main.get_command(single)


def _end(message: tuple[str, int], error: BaseException) -> NoReturn:
    """End with `message`, which has the text and the exit code for `error`."""
    _flush_or_let_go()
    if message[0]:
        print_error(f"penstock: {message[0]}")
    raise typer.Exit(message[1]) from error


def _shown(error: typer.TyperException) -> typer.TyperException:
    """Make the message of `error`, which repeats arguments, printable and free of secrets."""
    if isinstance(message := getattr(error, "message", None), str):
        vars(error)["message"] = printable_lines(redact(message))
    return error


def _flush_or_let_go() -> None:
    """Flush standard output; if that fails, drop its buffer, because Python would try again."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
