"""The command `penstock capture`, which captures the jobs of real programs as topologies."""

import gzip
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer

from penstock.engine.commands.key_values import key_values
from penstock.engine.commands.skip_typers_checks import ARGUMENTS
from penstock.engine.flink.capture.build_agent import MINIMUM_JAVA
from penstock.engine.flink.capture.program_command import (
    Program,
    ProgramCommand,
    ProgramKind,
    find_flink_home,
    find_flink_home_of_script,
    program_command,
    program_kind,
    require_command,
)
from penstock.engine.flink.capture.run_capture import CaptureResult, agent_exports, run_capture
from penstock.engine.flink.plan_with_flink import FLINK_VERSION
from penstock.engine.library.run_script import jobs_of_script
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.machine.replace_file import require_place
from penstock.engine.output.print_line import print_beside_output, print_error, print_line
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_beside_flink import first_difference, verify_captured
from penstock.engine.pyflink_names.modules import UnsupportedNameError
from penstock.engine.run.lowering.transformations import topology_of
from penstock.engine.run.runtime.run_context import EnvironmentSettings
from penstock.operators.common.arguments import NoJavaError
from penstock.plans.errors import ConfigurationError, InputError, PenstockError

# Comparison of PyFlink's jobs of a script with Penstock's jobs of the same script.


#: Of nodes; known only for some operators, or only in Flink.
_TYPES = ("operator_class", "function_class", "output_type")
_DATA_SETS = ("persistent_data_set", "consumes_data_set")


class ScriptComparison(NamedTuple):
    """Differences between Penstock's and PyFlink's lowering of a script, and the part Penstock cannot run.

    `differences` maps names of compared jobs to lists; an empty list means that all is equal. `not_run` is
    the reason why Penstock does not run the script, or its rest; the remaining jobs were not compared.
    """

    differences: dict[str, list[str]]
    not_run: str | None


def compare_with_captured(
    script: str,
    arguments: Sequence[str],
    settings: EnvironmentSettings,
    lines: Sequence[str],
    flinks: Sequence[Mapping[str, Any]],
) -> ScriptComparison:
    """Compare each captured job with Penstock's job of the same script.

    The script runs here too; its jobs do not. `lines` are captured topologies in order of submission,
    `flinks` Flink's plan JSON of each. The stream graphs are compared, and every layer in Flink's JSON. A
    script that needs an unsupported feature, or a module that this Python lacks, is `not_run`, not a
    difference. Any other failure is a difference.
    """
    failure: PenstockError | None
    try:
        jobs_found = jobs_of_script(script, arguments, settings)
        jobs, failure = jobs_found.jobs, jobs_found.failure
    except PenstockError as error:
        jobs, failure = [], error
    not_run = None if failure is None else _unsupported(failure)
    plans = {str(plan["name"]): plan for plan in flinks}
    differences: dict[str, list[str]] = {}
    for captured, job in zip_longest(map(orjson.loads, lines), jobs):
        if captured is None:
            last = list(differences)[-1]
            differences[last] = [*differences[last], f"PyFlink submits no further job, Penstock {job.name!r}"]
            continue
        name = str(captured["name"])
        if job is None:
            if not_run is None:
                why = failure.message if failure is not None else "the script executes no such job"
                differences[name] = [f"Penstock has no such job: {why}"]
            continue
        graph, penstock = job.lowered.submitted.stream_graph, {**topology_of(job), "name": name}
        wanted, flink = _with_data_sets_of(graph, captured["stream_graph"], plans.get(name))
        layer_differences = verify_captured([orjson.dumps(penstock).decode()], [flink]) if flink else {}
        differences[name] = [*_compare_graphs(wanted, graph), *layer_differences.get(name, ())]
    return ScriptComparison(differences, not_run)


def _unsupported(failure: PenstockError) -> str | None:
    """Name the feature that Penstock does not support; None if the script failed for another reason."""
    for error in _causes(failure):
        if isinstance(error, UnsupportedNameError | NoJavaError):
            return str(error)
        if isinstance(error, ModuleNotFoundError):
            return f"{error}, in the Python that runs Penstock"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _with_data_sets_of(
    penstock: Mapping[str, Any], captured: Mapping[str, Any], flink: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Replace ids of cached data sets in the captured graph by Penstock's: Flink draws them at random."""
    pairs = zip(_data_sets(captured), _data_sets(penstock), strict=False)
    texts = [orjson.dumps(captured), orjson.dumps(flink or {})]
    for theirs, ours in pairs:
        texts = [text.replace(theirs.encode(), ours.encode()) for text in texts]
    graph, plan = map(orjson.loads, texts)
    return graph, plan


def _data_sets(graph: Mapping[str, Any]) -> list[str]:
    """Return the ids of cached data sets in the order of the nodes that write or read them."""
    rows = sorted(graph["nodes"], key=lambda node: int(node["id"])) + sorted(
        graph["edges"], key=lambda edge: str(edge["edge_id"])
    )
    return [row[key] for row in rows for key in _DATA_SETS if key in row]


def _compare_graphs(wanted: Mapping[str, Any], penstock: Mapping[str, Any]) -> list[str]:
    theirs, ours = _comparable(wanted, penstock), _comparable(penstock, penstock)
    return [] if theirs == ours else [first_difference(theirs, ours, "/stream_graph")]


def _comparable(graph: Mapping[str, Any], penstock: Mapping[str, Any]) -> dict[str, Any]:
    """Return nodes and edges by id, without keys that `penstock` lacks."""
    known = {node["id"]: node.keys() for node in penstock["nodes"]}
    nodes = {}
    for node in graph["nodes"]:
        unknown = {key for key in _TYPES if key not in known.get(node["id"], _TYPES)}
        row = {key: value for key, value in node.items() if key not in unknown}
        row["slot_scope"] = sorted(row["slot_scope"])
        if row.get("description") == row["name"]:
            del row["description"]
        nodes[str(node["id"])] = row
    edges = {
        edge["edge_id"]: {key: value for key, value in edge.items() if key != "chainable"}
        for edge in graph["edges"]
    }
    settings = {**graph, "sources": sorted(graph["sources"]), "sinks": sorted(graph["sinks"])}
    return {**settings, "nodes": nodes, "edges": edges}


# `penstock capture --verify`: Penstock's plans of captured jobs beside Flink's.


class NotVerifiedError(PenstockError):
    """Flink did not plan a captured job, or Penstock plans it differently."""

    exit_code = 10


def _verified(captured: CaptureResult) -> dict[str, list[str]]:
    """Compare Penstock's plan of each job's graph with Flink's; return the differences by job name.

    Raises NotVerifiedError if Flink did not plan every job.
    """
    differences = verify_captured(captured.lines, captured.plans)
    names = [str(orjson.loads(line)["name"]) for line in captured.lines]
    if missing := [name for name in names if name not in differences]:
        raise NotVerifiedError(f"Flink did not plan {', '.join(missing)}", "this is a bug in Penstock")
    return differences


def _lowered(
    words: Sequence[str],
    captured: CaptureResult,
    parallelism: int | None,
    options: Mapping[str, str],
    *,
    verbose: bool,
) -> ScriptComparison:
    """Compare the captured jobs of a PyFlink script with Penstock's jobs of it.

    `words` are the script and its arguments. Its output goes to standard error if `verbose`. The script may
    change its folder.
    """
    version = captured.flink_version
    if version.split(".")[:2] != FLINK_VERSION.split(".")[:2]:
        return ScriptComparison({}, f"Penstock makes graphs like PyFlink {FLINK_VERSION}, not {version}")
    if parallelism is None and "parallelism.default" not in options:
        parallelism = 1  # the default of flink run
    settings = EnvironmentSettings(config=options, parallelism=parallelism)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out = sys.stderr if verbose else nowhere
        with redirect_stdout(out), redirect_stderr(out), chdir(os.getcwd()):
            return compare_with_captured(words[0], words[1:], settings, captured.lines, captured.plans)


def _require_equal(
    program: str,
    captured: CaptureResult,
    plan_differences: Mapping[str, Sequence[str]],
    script_differences: Mapping[str, Sequence[str]],
) -> None:
    """Raise NotVerifiedError if plans, or the graphs of a script, differ."""
    if different := sum(map(bool, plan_differences.values())):
        raise NotVerifiedError(
            f"Penstock plans {different} of {len(captured.lines)} jobs differently from Flink",
            "this is a bug in Penstock: please report it with the lines that differ",
        )
    if different := sum(map(bool, script_differences.values())):
        raise NotVerifiedError(
            f"Penstock's graph of {program} differs from PyFlink's for {different} of "
            f"{len(captured.lines)} jobs; Penstock plans PyFlink's graph like Flink",
            "docs/running-jobs.md names three such cases, where a script continues with streams of a job "
            "that "
            "has run; any other is a bug in Penstock",
        )


CONTEXT_SETTINGS = {"allow_interspersed_args": True, "ignore_unknown_options": True}


class CaptureError(PenstockError):
    """A program did not submit all its jobs."""


def capture_command(
    context: typer.Context,
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROGRAM [ARGS]...",
            help="A jar, a SQL script (.sql) or a PyFlink script (.py), with its arguments (after --, if "
            "they look like options of this command). Or -- and any command that submits jobs.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Default: standard output; .gz is compressed."),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Append the jobs to FILE.")] = False,
    flink: Annotated[
        Path | None,
        typer.Option(
            "--flink",
            metavar="HOME",
            help="The folder of a Flink distribution, 1.20 or newer. Default: FLINK_HOME, else the extra "
            "flink; for a PyFlink script, the PyFlink that runs it.",
        ),
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option("-p", "--parallelism", min=1, help="Default parallelism, as in flink run."),
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option("-D", metavar="KEY=VALUE", help="An option of Flink; repeatable."),
    ] = None,
    main_class: Annotated[
        str | None, typer.Option("-c", "--class", metavar="MAIN", help="The main class of a jar.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Have Flink plan each job in the same process, and compare Penstock's plan with Flink's; "
            "for "
            "a PyFlink script, also compare Penstock's own graph of the script.",
        ),
    ] = False,
    observe: Annotated[
        bool,
        typer.Option("--observe", help="RUN the jobs as usual after writing their graphs."),
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="Print the agent's jar and the variables that set it up, and exit."),
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Write jobs even if the program fails later.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show the program's output, on standard error.")
    ] = False,
) -> None:
    """Write the jobs that a program submits as topologies, one per line, for penstock plan. No job runs.

    The program's main() DOES run: it may create tables, call services and write files. Its jobs reach an
    agent instead of a cluster, and are answered as finished, without results. A program that starts a cluster
    is refused. Of the configuration, only the keys that planning reads are written.

    Examples:
        penstock capture job.jar -o jobs.jsonl -c com.example.Main -- --input orders
        penstock capture script.sql -o jobs.jsonl
        penstock capture --verify script.py -o jobs.jsonl

    Exit codes:
        1: The program failed, or submitted no job; nothing is written.
        10: With --verify: a plan differs from Flink's own.
    """
    if agent:
        for line in agent_exports(out or Path("jobs.jsonl"), observe):
            print_line(line)
        return
    words, is_command = _words(context, program or [])
    _require_sensible(words, out, append=append, verify=verify, observe=observe)
    if out is not None:
        require_place(out)  # running the program twice may not be possible
    with short_lived_folder("capture") as folder:
        if is_command:
            _require_no_options_of_programs(flink, parallelism, define, main_class)
            require_command(words)
            run = ProgramCommand(words, dict(os.environ), False)
        else:
            options = key_values(define, "-D")
            requested = Program(
                Path(words[0]), program_kind(words[0]), words[1:], main_class, parallelism, options
            )
            run = _command_of(requested, flink, Path(folder))
        name = os.path.basename(words[0])
        untouched = _stamp(out)
        captured = run_capture(
            run.line,
            run.environment,
            Path(folder),
            name=name,
            before=_lines_before(out) if append and out is not None else [],
            observes=observe,
            verifies=verify,
            tells_errors=run.tells_errors,
            verbose=verbose,
        )
    if out is not None and (stamp := _stamp(out)) is not None and stamp != untouched:
        raise CaptureError(
            f"{shlex.join(words[:1])}: it wrote to {out} itself; its output is still there, and its "
            f"{_count(captured.lines, 'job')} are not",
            "name a file with -o that the program does not write",
        )
    problem = _problem(words, captured, run.no_python)
    if problem is not None and (not partial or not captured.lines):
        raise problem
    differences, lowered = {}, None
    if verify:
        differences = _verified(captured)
    write_texts([*captured.before, *captured.lines], out)
    if verify and not is_command and program_kind(words[0]) is ProgramKind.PYTHON:
        lowered = _lowered(words, captured, parallelism, key_values(define, "-D"), verbose=verbose)
    _print_jobs(captured, differences if verify else None, lowered.differences if lowered else {}, out)
    if lowered is not None and lowered.not_run is not None:
        print_beside_output(f"Penstock's own graph of {words[0]} was not compared: {lowered.not_run}")
    if problem is not None:
        print_error(f"not complete: {problem.message}")
    if verify:
        _require_equal(words[0], captured, differences, lowered.differences if lowered else {})


def _stamp(out: Path | None) -> tuple[int, ...] | None:
    """Return values that change when a file is written; None if it does not exist or is a device."""
    if out is None or str(out).startswith("/dev/") or not out.is_file():
        return None
    status = out.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _words(context: typer.Context, words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the program or command with its arguments, and whether all of it followed `--`."""
    line: Sequence[str] = context.meta.get(ARGUMENTS, ())
    after = list(line[list(line).index("--") + 1 :]) if "--" in line else None
    return list(words), after is not None and after == list(words)


def _require_sensible(
    words: Sequence[str], out: Path | None, *, append: bool, verify: bool, observe: bool
) -> None:
    if not words:
        raise ConfigurationError("no program to capture", "name a jar, a script, or -- and a command")
    if append and out is None:
        raise ConfigurationError("--append needs -o FILE", "name the file to append to")
    if verify and observe:
        raise ConfigurationError(
            "--verify and --observe cannot be combined: planning changes the graph that would run",
            "to verify the program, capture it without --observe",
        )


def _require_no_options_of_programs(*options: object) -> None:
    if any(options):
        raise ConfigurationError(
            "--flink, -p, -D and -c need a jar or a script, got a command after --",
            "give these options to the command itself",
        )


def _command_of(program: Program, flink: Path | None, folder: Path) -> ProgramCommand:
    from penstock.engine.spark.find_java import require_java

    if program.kind is ProgramKind.PYTHON:
        home = find_flink_home_of_script(flink, os.environ, program.options)
    else:
        home = find_flink_home(flink, os.environ)
    return program_command(program, home, require_java(MINIMUM_JAVA).path, os.environ, folder)


def _lines_before(out: Path) -> list[str]:
    if not out.exists():
        return []
    try:
        data = out.read_bytes()
        text = (gzip.decompress(data) if out.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{out}cannot be read for appending: {error}") from error
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{out}: line {number} is not JSON, so nothing is appended") from error
    return lines


def _problem(
    words: Sequence[str], captured: CaptureResult, no_python: ConfigurationError | None
) -> CaptureError | None:
    """Return the error of an incomplete capture; None if it is complete."""
    program = shlex.join(words[:1])
    jobs = _count(captured.lines, "job")
    if captured.changed_file is not None:
        return CaptureError(
            f"{program}: {captured.changed_file}, after {jobs}", _PARTIAL if captured.lines else None
        )
    if captured.refusals:
        return CaptureError(
            f"{program}: " + "; ".join(captured.refusals), _PARTIAL if captured.lines else None
        )
    if captured.problem is not None:
        log_tail = captured.log_tail.replace("\n", "\n  ")
        if no_python is not None and "python" in log_tail.lower():
            log_tail += f"\nfunctions in Python need {no_python.message}; {no_python.hint}"
        return CaptureError(
            f"{program}: {captured.problem}, after {jobs}"
            + (f"; its last lines:\n  {log_tail}" if log_tail else ""),
            _PARTIAL if captured.lines else None,
        )
    if not captured.lines:
        return CaptureError(
            f"{program}: submitted no job",
            "a program must call execute(), and a command must start Java with this environment; -v shows "
            "its output",
        )
    return None


_PARTIAL = "nothing was written; --partial writes the earlier jobs"


def _print_jobs(
    captured: CaptureResult,
    differences: Mapping[str, list[str]] | None,
    script_differences: Mapping[str, list[str]],
    out: Path | None,
) -> None:
    """Print a line for each job, and the place of the output, on standard error."""
    for line in captured.lines:
        topology = orjson.loads(line)
        graph, differing = topology["stream_graph"], (differences or {}).get(topology["name"], [])
        compared = "" if differences is None else ": differs from Flink's plan" if differing else ": ok"
        print_beside_output(
            f"{topology['name']} ({graph['job_type']}, {_count(graph['nodes'], 'operator')}){compared}"
        )
        for difference in differing:
            print_beside_output(f"  {difference}")
        if (lowering_differences := script_differences.get(topology["name"])) is not None:
            print_beside_output(
                f"  as Penstock lowers the script: {'differs' if lowering_differences else 'ok'}"
            )
            for difference in lowering_differences:
                print_beside_output(f"    {difference}")
    print_beside_output(
        f"{_count(captured.lines, 'job')} of Flink {captured.flink_version} written to "
        f"{out or 'standard output'}"
    )


def _count(things: Sequence[object], thing: str) -> str:
    return f"{len(things)} {thing}{'' if len(things) == 1 else 's'}"
