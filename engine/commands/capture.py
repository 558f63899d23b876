"""`penstock capture`: the jobs of real programs as topologies."""

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
from penstock.engine.library.what_if_of_script import jobs_of_script
from penstock.engine.machine.replace_file import require_place
from penstock.engine.machine.state_folder import short_lived_folder
from penstock.engine.output.print_line import print_beside_output, print_error, print_line
from penstock.engine.output.write_lines import write_texts
from penstock.engine.planning.plan_beside_flink import first_difference, verify_captured
from penstock.engine.pyflink.datastream.environment_options import EnvironmentSettings
from penstock.engine.pyflink_names.modules import UnsupportedNameError
from penstock.engine.run.runtime.transformations import topology_of
from penstock.operators.common.arguments import NoJavaError
from penstock.plans.errors import ConfigurationError, InputError, PenstockError

# Compares what the real PyFlink submitted for a script with what Penstock makes of the same script.


#: Of nodes; known of some operators only, or in Flink only.
_TYPES = ("operator_class", "function_class", "output_type")
_DATA_SETS = ("persistent_data_set", "consumes_data_set")


class ScriptComparison(NamedTuple):
    """Where Penstock's lowering of a script says something else than PyFlink's, and what it does not run.

    `differences` has a list for each job that was compared, by name; an empty list means that all is equal.
    `not_run` is why Penstock does not run the script, or its rest: none of the other jobs was compared.
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
    """Compare each captured job with what Penstock makes of the same script.

    The script runs here, too; none of its jobs does. `lines` are captured topologies in the order of
    submission, `flinks` the plan JSON that Flink made of them. The stream graphs are compared, and every
    layer that Flink gave. A script that needs what Penstock does not support, or a module that this Python
    does not have, is no difference: it is `not_run`. Any other failure is one.
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
        own = {**topology_of(job), "name": name}
        wanted, flink = _with_data_sets_of(own["stream_graph"], captured["stream_graph"], plans.get(name))
        of_layers = verify_captured([orjson.dumps(own).decode()], [flink]) if flink else {}
        differences[name] = [*_compare_graphs(wanted, own["stream_graph"]), *of_layers.get(name, ())]
    return ScriptComparison(differences, not_run)


def _unsupported(failure: PenstockError) -> str | None:
    """The feature that Penstock does not support; None if the script failed for another reason."""
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
    own: Mapping[str, Any], captured: Mapping[str, Any], flink: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The captured graph with the ids of cached data sets that `own` has: Flink draws them at random."""
    pairs = zip(_data_sets(captured), _data_sets(own), strict=False)
    texts = [orjson.dumps(captured), orjson.dumps(flink or {})]
    for theirs, ours in pairs:
        texts = [text.replace(theirs.encode(), ours.encode()) for text in texts]
    graph, plan = map(orjson.loads, texts)
    return graph, plan


def _data_sets(graph: Mapping[str, Any]) -> list[str]:
    """The ids of cached data sets by what writes or reads them."""
    rows = sorted(graph["nodes"], key=lambda node: int(node["id"])) + sorted(
        graph["edges"], key=lambda edge: str(edge["edge_id"])
    )
    return [row[key] for row in rows for key in _DATA_SETS if key in row]


def _compare_graphs(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    theirs, ours = _comparable(wanted, own), _comparable(own, own)
    return [] if theirs == ours else [first_difference(theirs, ours, "/stream_graph")]


def _comparable(graph: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes and edges by id; what `own` does not know is left out."""
    known = {node["id"]: node.keys() for node in own["nodes"]}
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


# `penstock capture --verify`: Penstock's plans of captured jobs beside those of Flink.


class NotVerifiedError(PenstockError):
    """Flink did not plan a captured job, or Penstock plans it otherwise."""

    exit_code = 10


def _verified(captured: CaptureResult) -> dict[str, list[str]]:
    """For each job, by name: where Penstock's plan of its graph says something else than Flink's.

    Raises NotVerifiedError if Flink gave no plan of one.
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
    """The captured jobs of a PyFlink script beside those that Penstock makes of it.

    `words` are the script and its arguments. What it prints goes to standard error, if `verbose`, and it may
    change its folder.
    """
    version = captured.flink_version
    if version.split(".")[:2] != FLINK_VERSION.split(".")[:2]:
        return ScriptComparison({}, f"it makes graphs as PyFlink {FLINK_VERSION} does, not as {version}")
    if parallelism is None and "parallelism.default" not in options:
        parallelism = 1  # as of flink run
    settings = EnvironmentSettings(config=options, parallelism=parallelism)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out = sys.stderr if verbose else nowhere
        with redirect_stdout(out), redirect_stderr(out), chdir(os.getcwd()):
            return compare_with_captured(words[0], words[1:], settings, captured.lines, captured.plans)


def _require_equal(
    program: str,
    captured: CaptureResult,
    of_plans: Mapping[str, Sequence[str]],
    of_script: Mapping[str, Sequence[str]],
) -> None:
    """Raises NotVerifiedError if there is a difference, of the plans or of the graphs of a script."""
    if different := sum(map(bool, of_plans.values())):
        raise NotVerifiedError(
            f"Penstock plans {different} of {len(captured.lines)} jobs otherwise than Flink does",
            "this is a bug in Penstock: please report it with the lines that differ",
        )
    if different := sum(map(bool, of_script.values())):
        raise NotVerifiedError(
            f"Penstock makes another graph of {program} than PyFlink for {different} of "
            f"{len(captured.lines)} jobs, and plans PyFlink's as Flink does",
            "docs/running-jobs.md names three such cases, where a script goes on with streams of a job that "
            "has run; any other is a bug in Penstock",
        )


CONTEXT_SETTINGS = {"allow_interspersed_args": True, "ignore_unknown_options": True}


class CaptureError(PenstockError):
    """A program did not give all its jobs."""


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
        typer.Option("-o", "--out", metavar="FILE", help="Default: standard output; .gz is packed."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Keep what FILE holds, and add the jobs to it.")
    ] = False,
    flink: Annotated[
        Path | None,
        typer.Option(
            "--flink",
            metavar="HOME",
            help="The folder of a Flink distribution, 1.20 or newer. Default: FLINK_HOME, else the extra "
            "flink; of a PyFlink script, the PyFlink that runs it.",
        ),
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option("-p", "--parallelism", min=1, help="Default parallelism, as of flink run."),
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option("-D", metavar="KEY=VALUE", help="An option of Flink; may be repeated."),
    ] = None,
    main_class: Annotated[
        str | None, typer.Option("-c", "--class", metavar="MAIN", help="The main class of a jar.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Have Flink plan each job in the same process, and compare Penstock's plan with Flink's; of "
            "a PyFlink script, what Penstock itself makes of the script, too.",
        ),
    ] = False,
    observe: Annotated[
        bool,
        typer.Option("--observe", help="RUN the jobs as usual, once their graphs are written."),
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="Print the agent's jar and the variables that set it up, and exit."),
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Write the jobs of a program that fails later on.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show what the program prints, on standard error.")
    ] = False,
) -> None:
    """Write the jobs that a program submits as topologies, one line each, for penstock plan. No job runs.

    The program's main() DOES run: it may create tables, call services, and write files by itself. Its jobs
    reach the agent in place of a cluster, and are answered as finished, without results. A program that
    starts a cluster itself is refused. Of the configuration only the keys that planning reads are written.
    """
    if agent:
        for line in agent_exports(out or Path("jobs.jsonl"), observe):
            print_line(line)
        return
    words, is_command = _words(context, program or [])
    _require_sensible(words, out, append=append, verify=verify, observe=observe)
    if out is not None:
        require_place(out)  # the program may do for real what cannot be done twice
    with short_lived_folder("capture") as folder:
        if is_command:
            _require_no_options_of_programs(flink, parallelism, define, main_class)
            require_command(words)
            run = ProgramCommand(words, dict(os.environ), False)
        else:
            options = key_values(define, "-D")
            asked = Program(
                Path(words[0]), program_kind(words[0]), words[1:], main_class, parallelism, options
            )
            run = _command_of(asked, flink, Path(folder))
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
            f"{shlex.join(words[:1])}: it wrote to {out} itself; what it wrote is still there, and its "
            f"{_count(captured.lines, 'job')} not",
            "name a file by -o that the program does not write",
        )
    problem = _problem(words, captured, run.no_python)
    if problem is not None and (not partial or not captured.lines):
        raise problem
    differences, own = {}, None
    if verify:
        differences = _verified(captured)
    write_texts([*captured.before, *captured.lines], out)
    if verify and not is_command and program_kind(words[0]) is ProgramKind.PYTHON:
        own = _lowered(words, captured, parallelism, key_values(define, "-D"), verbose=verbose)
    _tell(captured, differences if verify else None, own.differences if own else {}, out)
    if own is not None and own.not_run is not None:
        print_beside_output(f"what Penstock itself makes of {words[0]} was not compared: {own.not_run}")
    if problem is not None:
        print_error(f"not complete: {problem.message}")
    if verify:
        _require_equal(words[0], captured, differences, own.differences if own else {})


def _stamp(out: Path | None) -> tuple[int, ...] | None:
    """What changes when a file is written; None if there is no file (or a device: /dev/stdout)."""
    if out is None or str(out).startswith("/dev/") or not out.is_file():
        return None
    found = out.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _words(context: typer.Context, words: Sequence[str]) -> tuple[list[str], bool]:
    """The program or command with its arguments; whether all of it stands after `--`."""
    line: Sequence[str] = context.meta.get(ARGUMENTS, ())
    after = list(line[list(line).index("--") + 1 :]) if "--" in line else None
    return list(words), after is not None and after == list(words)


def _require_sensible(
    words: Sequence[str], out: Path | None, *, append: bool, verify: bool, observe: bool
) -> None:
    if not words:
        raise ConfigurationError("no program to capture", "name a jar, a script, or -- and a command")
    if append and out is None:
        raise ConfigurationError("--append: found no file to add to", "name it by -o FILE")
    if verify and observe:
        raise ConfigurationError(
            "--verify with --observe: planning changes the graph that would run",
            "capture the program without --observe to verify it",
        )


def _require_no_options_of_programs(*options: object) -> None:
    if any(options):
        raise ConfigurationError(
            "--flink, -p, -D and -c: found with a command after --, allowed with a jar or a script",
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
        raise InputError(f"{out}: cannot be read to append to it: {error}") from error
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{out}: line {number} is no JSON, so nothing is added to it") from error
    return lines


def _problem(
    words: Sequence[str], captured: CaptureResult, no_python: ConfigurationError | None
) -> CaptureError | None:
    """Why the capture is not complete; None if it is."""
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
        said = captured.log_tail.replace("\n", "\n  ")
        if no_python is not None and "python" in said.lower():
            said += f"\nfunctions in Python need {no_python.message}; {no_python.hint}"
        return CaptureError(
            f"{program}: {captured.problem}, after {jobs}" + (f"; its last words:\n  {said}" if said else ""),
            _PARTIAL if captured.lines else None,
        )
    if not captured.lines:
        return CaptureError(
            f"{program}: submitted no job",
            "a program has to call execute(), and a command to start Java with this environment; -v shows "
            "what it prints",
        )
    return None


_PARTIAL = "nothing was written; --partial writes the jobs that came before"


def _tell(
    captured: CaptureResult,
    differences: Mapping[str, list[str]] | None,
    own: Mapping[str, list[str]],
    out: Path | None,
) -> None:
    """A line for each job, and where they are, on standard error: the jobs may go to standard output."""
    for line in captured.lines:
        topology = orjson.loads(line)
        graph, differing = topology["stream_graph"], (differences or {}).get(topology["name"], [])
        compared = "" if differences is None else ": differs from Flink's plan" if differing else ": ok"
        print_beside_output(
            f"{topology['name']} ({graph['job_type']}, {_count(graph['nodes'], 'operator')}){compared}"
        )
        for difference in differing:
            print_beside_output(f"  {difference}")
        if (of_script := own.get(topology["name"])) is not None:
            print_beside_output(f"  as Penstock lowers the script: {'differs' if of_script else 'ok'}")
            for difference in of_script:
                print_beside_output(f"    {difference}")
    print_beside_output(
        f"{_count(captured.lines, 'job')} of Flink {captured.flink_version} written to "
        f"{out or 'standard output'}"
    )


def _count(things: Sequence[object], thing: str) -> str:
    return f"{len(things)} {thing}{'' if len(things) == 1 else 's'}"
