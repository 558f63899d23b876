"""Plan with the decisions of custom planners in place of Flink's rules."""

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.engine.planning.find_custom_planners import (
    COSTS,
    CustomPlanner,
    find_custom_planners,
    name_of_planner,
    place_of_error,
    place_of_function,
)
from penstock.engine.planning.plan_in_process import (
    Source,
    plan_in_process,
    read_in_process,
    write_result,
)
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planner_process import PlannerEndedError, RemoteFunction
from penstock.engine.planning.planner_program import PlannerProgram, ProgramFailedError
from penstock.plans.custom_planners.check_answer import check_answer, check_tables, reader_of
from penstock.plans.custom_planners.decisions import Decision
from penstock.plans.custom_planners.find_violations import (
    NO_VIOLATION,
    STAGE,
    Invariant,
    find_violations,
    reject_violations,
    violations,
)
from penstock.plans.errors import ConfigurationError, SchemaError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.layers import DEFAULT_OPTIONS, PlanOptions, layers_until
from penstock.plans.metrics.operator_costs import operator_costs
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Layer

# Call a custom planner for a batch of topologies, within a time limit.


MOST_CALLS = 1_000
SEARCH_SECONDS = 30.0
"""Calls and time for one batch to find, by halving, the topologies for which the planner raises."""

_Answer = tuple[Any, pl.DataFrame]


class FailedPolicyError(Exception):
    """A planner returned no answer; `rule` is the reason."""

    def __init__(self, rule: Invariant, violation: str) -> None:
        super().__init__(violation)
        self.rule = rule


def call_custom_planner(
    custom_planner: CustomPlanner, tables: Mapping[str, pl.DataFrame], seconds: float, read: Any
) -> Any:
    """Call the planner with these tables and return its answer, converted by `read`.

    The planner runs in a thread of its own, with copies of the tables, and its output goes to standard error.
    A thread that is still running after `seconds` is abandoned with an exception pending; it ends with the
    process at the latest. Raises FailedPolicyError if the planner raises or takes longer, and SchemaError if
    `read` does.
    """
    function = custom_planner.function
    is_remote = isinstance(function, RemoteFunction)
    arguments = {
        name: tables[name].to_arrow(compat_level=pl.CompatLevel.oldest())
        if arrow or is_remote
        else tables[name].clone()
        for name, arrow in custom_planner.reads.items()
    }
    returned: list[Any] = []
    raised: list[SchemaError | FailedPolicyError] = []

    def run() -> None:
        try:
            returned.append(read(function(**arguments)))
        # Only the texts are stored: the exception would hold on to all objects of the planner.
        except SchemaError as error:
            raised.append(SchemaError(error.message))
        except BaseException as error:
            raised.append(FailedPolicyError(Invariant.PLANNER_RAISED, describe_raised(error)))

    thread = threading.Thread(target=run, name=f"planner {custom_planner.name}", daemon=True)
    with contextlib.nullcontext() if is_remote else _process_as_before():
        thread.start()
        try:
            thread.join(seconds)
        except BaseException:  # an interrupt: the late answer must not pass for the next call's
            if isinstance(function, PlannerProgram | RemoteFunction):
                function.stop()
            raise
    if returned:
        return returned[0]
    if raised:
        raise raised[0]
    if isinstance(function, PlannerProgram | RemoteFunction):
        function.stop()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
    raise FailedPolicyError(
        Invariant.PLANNER_TIMED_OUT,
        f"no answer within {seconds:g} s ({place_of_function(custom_planner.function)})",
    )


@contextlib.contextmanager
def _process_as_before() -> Iterator[None]:
    """Redirect standard output to standard error, and afterwards restore this process.

    Restored are missing environment variables, folders of sys.path, the working folder and polars'
    attributes.
    """
    environment, path = dict(os.environ), list(sys.path)
    patchable = {owner: dict(vars(owner)) for owner in (pl, pl.DataFrame, pl.LazyFrame, pl.Series, pl.Expr)}
    descriptors = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):
            descriptors[number] = os.dup(number)
    with contextlib.redirect_stdout(sys.stderr), contextlib.chdir(os.getcwd()):
        try:
            if len(descriptors) == 2:
                if sys.__stdout__ is not None:
                    sys.__stdout__.flush()
                os.dup2(2, 1)
            yield
        finally:
            for number, copy in descriptors.items():
                os.dup2(copy, number)
                os.close(copy)
            for key in environment.keys() - os.environ.keys():
                os.environ[key] = environment[key]
            sys.path.extend(folder for folder in path if folder not in sys.path)
            for owner, values in patchable.items():
                for name, value in values.items():
                    if vars(owner).get(name, owner) is not value:
                        setattr(owner, name, value)


def ask_custom_planner(
    custom_planner: CustomPlanner,
    tables: Mapping[str, pl.DataFrame],
    topologies: pl.Series,
    seconds: float,
    read: Any,
) -> _Answer:
    """Return the planner's converted answer about `topologies`, and violations of those without an answer.

    `tables` hold only these topologies; `read` converts answers. If a call raises, each half is tried
    separately, the largest part first, so that one topology does not cost the others their answers; after
    MOST_CALLS or SEARCH_SECONDS the remaining topologies get no answer. A planner that exceeds its time or
    returns a malformed table loses the whole batch.
    """
    answers: list[Any] = []
    wrong = [NO_VIOLATION]
    parts = deque([topologies])
    failed: FailedPolicyError | None = None
    calls, end = 0, time.monotonic() + SEARCH_SECONDS
    while parts:
        part = parts.popleft()
        if failed is not None and (calls >= MOST_CALLS or time.monotonic() > end):
            given_up = [part, *parts]
            message = f"no answer: given up after {calls:,} calls, the last of which raised {failed}"
            wrong += [_violations(rest, Invariant.PLANNER_RAISED, message) for rest in given_up]
            break
        part_tables = tables if len(part) == len(topologies) else _only(tables, part)
        calls += 1
        try:
            answer = call_custom_planner(custom_planner, part_tables, seconds, read)
            _require_topologies(answer, part)
            answers.append(answer)
            continue
        except SchemaError as error:
            place = place_of_function(custom_planner.function)
            message = f"{error.message} ({place})" if place else error.message
            failed = FailedPolicyError(Invariant.PLANNER_SCHEMA, message)
        except FailedPolicyError as error:
            failed = error
        if failed.rule is Invariant.PLANNER_RAISED and len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
        else:
            wrong.append(_violations(part, failed.rule, str(failed)))
    return joined(answers), pl.concat(wrong)


_ALLOWED = {
    Invariant.PLANNER_RAISED: "an answer",
    Invariant.PLANNER_TIMED_OUT: "an answer within the time limit of a batch",
    Invariant.PLANNER_SCHEMA: "the columns of the decision",
}


def _violations(topologies: pl.Series, rule: Invariant, message: str) -> pl.DataFrame:
    """Return one violation for each topology of a part."""
    place = "the topology" if len(topologies) == 1 else f"a batch of {len(topologies):,} topologies"
    rows = pl.DataFrame({TOPOLOGY: topologies})
    return violations(rows, rule, pl.lit(place), pl.lit(message.removeprefix("found ")), _ALLOWED[rule])


def describe_raised(error: BaseException) -> str:
    """Return class, message and place of an exception that a planner raised."""
    return f"{_error_text(error)}{_where(error)}"


def _error_text(error: BaseException) -> str:
    if isinstance(error, ProgramFailedError | PlannerEndedError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # its __str__ raises, too
        return type(error).__name__


def _where(error: BaseException) -> str:
    """Return the file and line of the planner that raised, in parentheses."""
    if isinstance(error, PlannerEndedError):  # its text names them
        return ""
    place = place_of_error(error, apart=__file__)
    return f" ({place})" if place else ""


def _require_topologies(answer: Any, topologies: pl.Series) -> None:
    """Raise SchemaError if a table of the answer has rows of topologies outside the call."""
    for rows in answer.values() if isinstance(answer, dict) else [answer]:
        strange = rows.filter(~pl.col(TOPOLOGY).is_in(topologies.implode()).fill_null(False))
        if len(strange):
            raise SchemaError(f"{TOPOLOGY} must be a topology of this call, got {strange[TOPOLOGY][0]}")


def _only(tables: Mapping[str, pl.DataFrame], topologies: pl.Series) -> dict[str, pl.DataFrame]:
    keys = pl.DataFrame({TOPOLOGY: topologies})
    return {name: rows.join(keys, on=TOPOLOGY, how="semi") for name, rows in tables.items()}


def joined(answers: list[Any]) -> Any:
    """Join answers about different topologies; None without any answer."""
    given_answers = [answer for answer in answers if answer is not None]
    if not given_answers:
        return None
    if isinstance(given_answers[0], dict):
        names = dict.fromkeys(name for answer in given_answers for name in answer)
        return {
            name: pl.concat([answer_tables[name] for answer_tables in given_answers if name in answer_tables])
            for name in names
        }
    return pl.concat(given_answers)


DEFAULT_SECONDS = 60.0
"""Time limit of a planner for one batch."""

TOPOLOGIES_OF_A_BATCH = 20_000

Frames = dict[str, pl.DataFrame]


class CallSettings(NamedTuple):
    """Settings of calls to planners.

    `costs` computes the table operator_costs from stream nodes and edges; `seconds` limit the time for a
    batch; `constants` belong to the cost model that measures the plans.
    """

    costs: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] = operator_costs
    seconds: float = DEFAULT_SECONDS
    constants: Constants = CONSTANTS


AS_ASSUMED = CallSettings()


def plan_by_custom_planners(
    read: TopologyTables,
    custom_planners: Sequence[CustomPlanner],
    options: PlanOptions = DEFAULT_OPTIONS,
    question: CallSettings = AS_ASSUMED,
    report: Report = SILENT,
) -> PlanResult:
    """Plan topologies that were read, with `custom_planners` deciding in place of Flink's rules.

    Each planner gets Flink's plan under the decisions before its own. Its answer is checked: a topology whose
    answer breaks a rule (see Invariant) is rejected at stage `planner`, and no other. A topology that Flink
    refuses because of a decision is rejected, too. Raises the errors of plan_in_process.
    """
    frames = read._asdict()
    inputs = frames.pop("inputs")
    chosen = options
    names = ", ".join(dict.fromkeys(custom_planner.name for custom_planner in custom_planners))
    seconds: dict[str, float] = {}
    answers: dict[str, pl.DataFrame] = {}
    for custom_planner in custom_planners:
        of_layers = replace(chosen, until=custom_planner.layer)
        given = TopologyTables(**frames, inputs=inputs)
        flinks_plan = _tables(plan_in_process(given, of_layers, None, report))
        report(f"ask {custom_planner.name}")
        started = time.monotonic()
        topologies = flinks_plan["topologies"][TOPOLOGY]
        answer, wrong = _decide(custom_planner, flinks_plan, topologies, question)
        _reject(frames, wrong, custom_planner.name)
        refused = wrong[TOPOLOGY].unique().sort().to_numpy()
        if answer is not None and custom_planner.decision is Decision.PLAN:
            answers = {name: without_topologies(rows, refused) for name, rows in answer.items()}
        elif answer is not None:
            decided = (custom_planner.decision, without_topologies(answer, refused))
            chosen = replace(chosen, decided=(*chosen.decided, decided))
        seconds[custom_planner.decision.value] = time.monotonic() - started
    planned = plan_in_process(TopologyTables(**frames, inputs=inputs), chosen, None, report)
    report("check the plan")
    started = time.monotonic()
    tables = _tables(planned)
    for name in answers.keys() & tables.keys():
        answered_rows = answers[name].join(tables["topologies"].select(TOPOLOGY), on=TOPOLOGY, how="semi")
        others = tables[name].join(answers[name].select(TOPOLOGY).unique(), on=TOPOLOGY, how="anti")
        tables[name] = pl.concat([answered_rows.select(others.columns), others])
    wrong = find_violations(tables)
    if len(wrong):
        gone = wrong[TOPOLOGY].unique().sort().to_numpy()
        rejected = reject_violations(wrong, tables["topologies"], names)
        tables = {
            name: without_topologies(rows, gone) for name, rows in tables.items() if name != "rejected"
        } | {"rejected": pl.concat([tables["rejected"], rejected])}
    tables["rejected"] = _blame_decisions(tables["rejected"], frames, options, names)
    arrow = {name: to_arrow(rows, name) for name, rows in tables.items()}
    seconds["check the plan"] = time.monotonic() - started
    return PlanResult(
        arrow, inputs, len(tables["topologies"]), len(tables["rejected"]), {**planned.seconds, **seconds}
    )


def _tables(planned: PlanResult) -> Frames:
    return {name: from_arrow(table) for name, table in planned.tables.items()}


def _decide(
    custom_planner: CustomPlanner, flinks_plan: Frames, topologies: pl.Series, question: CallSettings
) -> tuple[Any, pl.DataFrame]:
    """Return a planner's answers to all batches, and their violations."""
    if COSTS in custom_planner.reads:
        flinks_plan = {
            **flinks_plan,
            COSTS: question.costs(flinks_plan["stream_nodes"], flinks_plan["stream_edges"]),
        }
    answers, wrong = [], [NO_VIOLATION]
    read = reader_of(custom_planner.decision)
    for start in range(0, len(topologies), TOPOLOGIES_OF_A_BATCH):
        batch = topologies[start : start + TOPOLOGIES_OF_A_BATCH]
        batch_keys = pl.DataFrame({TOPOLOGY: batch})
        whole = len(batch) == len(topologies)
        tables = {
            name: flinks_plan[name] if whole else flinks_plan[name].join(batch_keys, on=TOPOLOGY, how="semi")
            for name in custom_planner.reads
        }
        answer, failed = ask_custom_planner(custom_planner, tables, batch, question.seconds, read)
        wrong.append(failed)
        if answer is None:
            continue
        answers.append(answer)
    answer = joined(answers)
    if answer is None:
        return None, pl.concat(wrong)
    check = (
        check_tables(answer)
        if custom_planner.decision is Decision.PLAN
        else check_answer(answer, custom_planner.decision, flinks_plan)
    )
    return answer, pl.concat([*wrong, check])


def _reject(frames: Frames, wrong: pl.DataFrame, planner: str) -> None:
    """Move the topologies of `wrong` from the other frames to `rejected`."""
    if wrong.is_empty():
        return
    gone = wrong[TOPOLOGY].unique()
    rejected = reject_violations(wrong, frames["topologies"], planner)
    for name, rows in frames.items():
        if name != "rejected":
            frames[name] = rows.join(
                pl.DataFrame({TOPOLOGY: gone}), on=TOPOLOGY, how="anti", maintain_order="left"
            )
    frames["rejected"] = pl.concat([frames["rejected"], rejected])


def _blame_decisions(
    rejected: pl.DataFrame, frames: Frames, options: PlanOptions, planner: str
) -> pl.DataFrame:
    """Mark the rows of `rejected` that Flink refuses only because of decisions.

    These topologies are planned again without decisions: if Flink then accepts one, its row gets stage
    `planner`, the invariant as its error, and a message that names the planner.
    """
    layers = [layer.value for layer in layers_until(Layer.SLOTS)]
    refused = rejected.filter(pl.col("error_stage").is_in(layers)).select(TOPOLOGY)
    refused_frames = {name: rows.join(refused, on=TOPOLOGY, how="semi") for name, rows in frames.items()}
    if refused_frames["topologies"].is_empty():
        return rejected
    refused_frames["rejected"] = rejected.clear()
    without = plan_in_process(TopologyTables.of(refused_frames), options)
    by_decision = pl.col(TOPOLOGY).is_in(from_arrow(without.tables["topologies"])[TOPOLOGY].implode())
    forward = pl.col("message").str.starts_with("Forward partitioning does not allow change of parallelism")
    located = pl.col("message").str.contains("(?i)co-?locat")
    rule = (
        pl.when(forward)
        .then(pl.lit(Invariant.FORWARD_UNEQUAL_PARALLELISM.value))
        .when(located)
        .then(pl.lit(Invariant.CO_LOCATION_BROKEN.value))
    )
    prefix = pl.lit(f"planner {planner}: Flink refuses the result of its decision: ")
    message = pl.concat_str(prefix, "error", pl.lit(": "), "message")
    return rejected.with_columns(
        error_stage=pl.when(by_decision).then(pl.lit(STAGE)).otherwise("error_stage"),
        error=pl.when(by_decision)
        .then(rule.otherwise(pl.lit(Invariant.REFUSED_BY_FLINK.value)))
        .otherwise("error"),
        message=pl.when(by_decision).then(message).otherwise("message"),
    )


# Custom planners of a command or a call, and the settings of their calls.


class CustomPlanners(NamedTuple):
    """A custom planner's name and functions, the source of its operator costs, and seconds for a batch."""

    name: str
    chosen: list[CustomPlanner]
    costs: str | None
    seconds: float

    def question(self, topologies: pl.DataFrame, part: bool = False) -> CallSettings:
        """Return the settings for calls about these topologies (see call_settings)."""
        return call_settings(self.costs, topologies, self.seconds, part)

    def plan(
        self,
        source: Source,
        options: PlanOptions = DEFAULT_OPTIONS,
        out: str | None = None,
        report: Report = SILENT,
    ) -> PlanResult:
        """Plan like `plan_in_process`, all topologies at once: a custom planner first gets Flink's plan."""
        started = time.monotonic()
        read = source if isinstance(source, TopologyTables) else read_in_process(source, options, report)
        seconds = {} if read is source else {"read_and_validate": time.monotonic() - started}
        question = self.question(read.topologies)
        planned = plan_by_custom_planners(read, self.chosen, options, question, report)
        planned = replace(planned, seconds={**seconds, **planned.seconds}, planner=self.name)
        return planned if out is None else write_result(planned, out, options, report, self.name)


def named_custom_planners(planner: Any, costs: str | None, seconds: float) -> CustomPlanners:
    """Find a planner in any form that find_custom_planners takes. Raises ConfigurationError."""
    if seconds <= 0:
        raise ConfigurationError(f"--time-limit must be above 0 seconds, got {seconds:g}")
    # Spark's workers have other working folders.
    source = os.path.abspath(costs) if costs is not None and os.path.exists(costs) else costs
    return CustomPlanners(name_of_planner(planner), find_custom_planners(planner), source, seconds)


def call_settings(
    costs: str | None,
    topologies: pl.DataFrame,
    seconds: float,
    part: bool = False,
    constants: Constants = CONSTANTS,
) -> CallSettings:
    """Return the settings for calls about these topologies, with the costs that `costs` (--costs) chooses.

    `part`: `topologies` are one part of several. Raises the errors of chosen_costs.
    """
    return CallSettings(chosen_costs(costs, topologies, part), seconds, constants)
