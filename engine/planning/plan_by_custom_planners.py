"""Planning with decisions of others in place of Flink's rules."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.planning.ask_custom_planner import ask_custom_planner, joined
from penstock.engine.planning.find_custom_planners import COSTS, CustomPlanner
from penstock.engine.planning.plan_in_process import PlannedTables, plan_frames
from penstock.plans.custom_planners.check_answer import check_answer, check_tables, reader_of
from penstock.plans.custom_planners.decisions import Decision
from penstock.plans.custom_planners.find_omissions import NO_VIOLATION, STAGE, Invariant, reject_violations
from penstock.plans.custom_planners.find_violations import find_violations
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.layers import Choices, layers_until
from penstock.plans.metrics.exchange_costs import CONSTANTS, Constants
from penstock.plans.metrics.operator_costs import operator_costs
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

DEFAULT_SECONDS = 60.0
"""Time limit of a planner for one batch."""

TOPOLOGIES_OF_A_BATCH = 20_000

Frames = dict[str, pl.DataFrame]
Report = Callable[[str], None]


class Question(NamedTuple):
    """How planners are asked: from stream nodes and edges to the operator_costs that they are shown, and
    seconds for a batch. `constants`: of the cost model that measures their plans."""

    costs: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] = operator_costs
    seconds: float = DEFAULT_SECONDS
    constants: Constants = CONSTANTS


AS_ASSUMED = Question()


def plan_by_custom_planners(
    frames: Frames,
    inputs: int,
    custom_planners: Sequence[CustomPlanner],
    *,
    until: Layer = Layer.SLOTS,
    choices: Choices | None = None,
    question: Question = AS_ASSUMED,
    report: Report = lambda stage: None,
) -> PlannedTables:
    """`plan_frames` of topologies that were read, where `custom_planners` decide in place of Flink's rules.

    Each is shown Flink's plan with the decisions before its own. What it returns is checked: a topology for
    which it breaks a rule (see Rule) is rejected at stage `planner`, and only that. So is one that Flink
    refuses because of a decision. `frames` are emptied. Raises what plan_frames raises.
    """
    chosen = choices or Choices()
    names = ", ".join(dict.fromkeys(custom_planner.name for custom_planner in custom_planners))
    seconds: dict[str, float] = {}
    answers: dict[str, pl.DataFrame] = {}
    for custom_planner in custom_planners:
        shown = _tables(plan_frames(dict(frames), inputs, custom_planner.layer, chosen, report))
        report(f"ask {custom_planner.name}")
        started = time.monotonic()
        topologies = shown["topologies"][TOPOLOGY]
        answer, wrong = _decide(custom_planner, shown, topologies, question)
        _reject(frames, wrong, custom_planner.name)
        refused = wrong[TOPOLOGY].unique().sort().to_numpy()
        if answer is not None and custom_planner.decision is Decision.PLAN:
            answers = {name: without_topologies(rows, refused) for name, rows in answer.items()}
        elif answer is not None:
            decided = (custom_planner.decision, without_topologies(answer, refused))
            chosen = replace(chosen, decided=(*chosen.decided, decided))
        seconds[custom_planner.decision.value] = time.monotonic() - started
    planned = plan_frames(dict(frames), inputs, until, chosen, report)
    report("check the plan")
    started = time.monotonic()
    tables = _tables(planned)
    for name in answers.keys() & tables.keys():
        kept = answers[name].join(tables["topologies"].select(TOPOLOGY), on=TOPOLOGY, how="semi")
        others = tables[name].join(answers[name].select(TOPOLOGY).unique(), on=TOPOLOGY, how="anti")
        tables[name] = pl.concat([kept.select(others.columns), others])
    wrong = find_violations(tables)
    if len(wrong):
        gone = wrong[TOPOLOGY].unique().sort().to_numpy()
        rejected = reject_violations(wrong, tables["topologies"], names)
        tables = {
            name: without_topologies(rows, gone) for name, rows in tables.items() if name != "rejected"
        } | {"rejected": pl.concat([tables["rejected"], rejected])}
    tables["rejected"] = _told_apart(tables["rejected"], frames, until, choices or Choices(), names)
    frames.clear()
    arrow = {name: to_arrow(rows, name) for name, rows in tables.items()}
    seconds["check the plan"] = time.monotonic() - started
    return PlannedTables(
        arrow, inputs, len(tables["topologies"]), len(tables["rejected"]), {**planned.seconds, **seconds}
    )


def _tables(planned: PlannedTables) -> Frames:
    return {name: from_arrow(table) for name, table in planned.tables.items()}


def _decide(
    custom_planner: CustomPlanner, shown: Frames, topologies: pl.Series, question: Question
) -> tuple[Any, pl.DataFrame]:
    """A planner's answers to all batches, and their faults."""
    if COSTS in custom_planner.reads:
        shown = {**shown, COSTS: question.costs(shown["stream_nodes"], shown["stream_edges"])}
    answers, wrong = [], [NO_VIOLATION]
    read = reader_of(custom_planner.decision)
    for start in range(0, len(topologies), TOPOLOGIES_OF_A_BATCH):
        batch = topologies[start : start + TOPOLOGIES_OF_A_BATCH]
        asked = pl.DataFrame({TOPOLOGY: batch})
        whole = len(batch) == len(topologies)
        tables = {
            name: shown[name] if whole else shown[name].join(asked, on=TOPOLOGY, how="semi")
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
        else check_answer(answer, custom_planner.decision, shown)
    )
    return answer, pl.concat([*wrong, check])


def _reject(frames: Frames, wrong: pl.DataFrame, planner: str) -> None:
    """Take the topologies of `wrong` out of what is planned, and add them to `rejected`."""
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


def _told_apart(
    rejected: pl.DataFrame, frames: Frames, until: Layer, choices: Choices, planner: str
) -> pl.DataFrame:
    """`rejected`, where topologies that Flink refuses only because of decisions say so."""
    layers = [layer.value for layer in layers_until(Layer.SLOTS)]
    of_flink = rejected.filter(pl.col("error_stage").is_in(layers)).select(TOPOLOGY)
    asked = {name: rows.join(of_flink, on=TOPOLOGY, how="semi") for name, rows in frames.items()}
    count = len(asked["topologies"])
    if not count:
        return rejected
    asked["rejected"] = rejected.clear()
    without = plan_frames(asked, count, until, choices, lambda stage: None)
    by_decision = pl.col(TOPOLOGY).is_in(from_arrow(without.tables["topologies"])[TOPOLOGY].implode())
    forward = pl.col("message").str.starts_with("Forward partitioning does not allow change of parallelism")
    located = pl.col("message").str.contains("(?i)co-?locat")
    rule = (
        pl.when(forward)
        .then(pl.lit(Invariant.FORWARD_UNEQUAL_PARALLELISM.value))
        .when(located)
        .then(pl.lit(Invariant.CO_LOCATION_BROKEN.value))
    )
    why = pl.lit(f"planner {planner}: Flink refuses what follows from its decision: ")
    said = pl.concat_str(why, "error", pl.lit(": "), "message")
    return rejected.with_columns(
        error_stage=pl.when(by_decision).then(pl.lit(STAGE)).otherwise("error_stage"),
        error=pl.when(by_decision)
        .then(rule.otherwise(pl.lit(Invariant.REFUSED_BY_FLINK.value)))
        .otherwise("error"),
        message=pl.when(by_decision).then(said).otherwise("message"),
    )
