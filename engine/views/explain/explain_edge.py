"""Why an edge is chained or not, and why its result is of its type."""

from typing import Any

from penstock.engine.run.runtime.lowered_transformation import LostSetting, LoweredJob
from penstock.engine.views.draw.chaining_reasons import is_chained
from penstock.engine.views.draw.drawn_plan import Row
from penstock.engine.views.explain.explained_plan import ExplainedPlan
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.job_graph.choose_result_partition_types import OF_EXCHANGE_MODE, OF_GLOBAL_MODE
from penstock.plans.stream_graph.not_chainable_reasons import SET_BY_AUTHOR, NotChainableReason
from penstock.plans.stream_graph.reason_records import EdgeFacts
from penstock.plans.vocabulary import DistributionPattern, ManagedMemoryUseCase, ResultPartitionType

Explanation = dict[str, Any]
"""An explanation as `--json` writes it: texts, numbers, lists and mappings of them."""

_KEEP_IDS = "; operator ids change with chains, so give operators without uids theirs as uid hashes first"
_KEYED_IN_BATCH = "Flink: it is keyed, in a BATCH job"


def explain_edge(plan: ExplainedPlan, edge: Row, why: str) -> Explanation:
    """An edge with all conditions of chaining, and its result; `why`: the sentence against chaining.

    It is chained if and only if all conditions are met. `result` is None where there is no job edge.
    """
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    chained, facts = is_chained(edge), _facts(plan, edge)
    return {
        "source": {"node": source["id"], "name": source["name"]},
        "target": {"node": target["id"], "name": target["name"]},
        "in_index": edge["in_index"],
        "chained": chained,
        "not_chained_because": "" if chained else why,
        "partitioner": edge["partitioner"],
        "partitioner_because": facts.partitioner_because,
        "conditions": [_condition(facts, reason) for reason in _asked(edge)],
        "result": _result(plan, edge),
    }


def _asked(edge: Row) -> list[NotChainableReason]:
    """The conditions of an edge: Flink's, and that of a custom planner where it keeps the edge apart."""
    decided = NotChainableReason.DECIDED_BY_PLANNER
    return [
        reason
        for reason in NotChainableReason
        if reason is not decided or decided.value in edge["not_chainable_reasons"]
    ]


def _condition(facts: EdgeFacts, reason: NotChainableReason) -> Explanation:
    record = reason.record
    # The head that takes sources into its chain has several inputs: the sources are chained all the same.
    waived = reason is NotChainableReason.SEVERAL_INPUTS and facts.edge["chained_source"]
    met = waived or reason.value not in facts.edge["not_chainable_reasons"]
    change = None if met or record.change is None else record.change(facts)
    return {
        "reason": reason.value,
        "requires": record.requires,
        "met": met,
        "found": record.values(facts),
        "method": record.method,
        "change": change + _KEEP_IDS if change is not None and facts.ids_change else change,
    }


def _facts(plan: ExplainedPlan, edge: Row) -> EdgeFacts:
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    return EdgeFacts(
        edge=edge,
        source=source,
        target=target,
        settings=plan.settings,
        target_inputs=len(plan.inputs[target["id"]]),
        input_edges=plan.input_degrees[target["id"], edge["type_number"]],
        in_chain_of_legacy_source=_behind_legacy(plan, source),
        source_strategy=_strategy(plan, source),
        target_strategy=_strategy(plan, target),
        partitioner_because=_partitioner_because(plan, edge),
        may_chain=plan.may_chain,
        may_share_slots=not any(node["co_location_group"] for node in plan.nodes.values()),
        may_follow=plan.may_chain and _may_follow(plan, edge),
        exchange_is_given=plan.is_translated and edge["exchange_mode"] in OF_EXCHANGE_MODE,
        ids_change=any(node["uid"] is None for node in plan.nodes.values()),
    )


def _behind_legacy(plan: ExplainedPlan, source: Row) -> bool:
    """Whether a node is a SourceFunction, or in a chain that one heads."""
    operator = plan.operators.get(source["id"])
    head = source if operator is None else plan.nodes[operator["vertex"]]
    return bool(source["legacy_source"] or head["legacy_source"])


def _strategy(plan: ExplainedPlan, node: Row) -> Explanation:
    """A node's chaining strategy, and who has set it."""
    strategy = node["chaining"]
    if strategy is None:
        return {"strategy": "NEVER", "set by": "Flink: the node has no operator"}
    if (own := plan.given.get(node["id"])) is None:
        return {"strategy": strategy, "set by": "the stream graph"}
    if own["chaining"] == strategy:
        return {"strategy": strategy, "set by": SET_BY_AUTHOR}
    if own["chaining"] is None and OPERATOR_KINDS[own["kind"]].chaining == strategy:
        return {"strategy": strategy, "set by": f"the default of kind {own['kind']}"}
    return {"strategy": strategy, "set by": _KEYED_IN_BATCH}


def _partitioner_because(plan: ExplainedPlan, edge: Row) -> str:
    if not plan.is_translated:
        return "the stream graph gives it"
    if plan.given_partitioners.get((edge["target"], edge["in_index"])) is not None:
        return "a partition transformation sets it"
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    equal = source["parallelism"] == target["parallelism"]
    return f"none is set, and parallelism {'is equal' if equal else 'differs'}"


def _may_follow(plan: ExplainedPlan, edge: Row) -> bool:
    """Whether the reader's chain can take the producer's parallelism without other results.

    Not if an author's partitioner or a key distributes its records, a subtask may be alone on purpose, it
    writes to a sink, or another edge has to be FORWARD.
    """
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    head = plan.operators.get(target["id"])
    given = plan.given_partitioners.get((edge["target"], edge["in_index"]))
    if not plan.is_translated or given is not None or head is None or source["id"] not in plan.operators:
        return False
    chain = {node for node, row in plan.operators.items() if row["vertex"] == head["vertex"]}
    entering = [one for one, _ in plan.edges if one["target"] in chain and one["source"] not in chain]
    leaving = [one for one, _ in plan.edges if one["source"] in chain and one["target"] not in chain]
    read = {one["source"] for one, _ in plan.edges}
    wanted = source["parallelism"]
    return (
        min(wanted, target["parallelism"]) > 1
        and len(entering) == 1
        and chain <= read
        and all(one["partitioner"] != "FORWARD" for one in leaving)
        and not any(_is_bound(plan.nodes[node], wanted) for node in chain)
    )


def _is_bound(node: Row, parallelism: int) -> bool:
    """Whether an operator may depend on its parallelism, or cannot have this one."""
    keyed = node["keyed"] or ManagedMemoryUseCase.STATE_BACKEND in node["slot_scope"]
    too_low = 0 < node["max_parallelism"] < parallelism
    return bool(keyed or node["coordinated"] or node["co_location_group"] or too_low)


def _result(plan: ExplainedPlan, edge: Row) -> Explanation | None:
    """The type of the intermediate data set that the edge reads, and what has chosen it."""
    job_edge = plan.job_edges.get((edge["target"], edge["in_index"]))
    if job_edge is None:
        return None
    partition_type = job_edge["result_partition_type"]
    return {
        "data_set_id": job_edge["data_set_id"],
        "type": partition_type,
        "because": _type_because(plan, edge, job_edge, partition_type),
    }


def _type_because(plan: ExplainedPlan, edge: Row, job_edge: Row, partition_type: str) -> str:
    mode = plan.settings["global_exchange_mode"]
    pointwise = job_edge["distribution"] == DistributionPattern.POINTWISE
    place = 0 if job_edge["forward"] else 1 if pointwise else 2
    if (own := OF_EXCHANGE_MODE.get(edge["exchange_mode"])) is not None:
        asked, because = own, f"the edge's exchange mode is {edge['exchange_mode']}"
    else:
        kind = ("a forward edge", "a pointwise edge that is not forward", "an all-to-all edge")[place]
        asked = OF_GLOBAL_MODE[mode][place]
        because = f"the {plan.settings['job_type']} job's exchange mode is {mode}, and this is {kind}"
    if asked == partition_type:
        return because
    if asked == ResultPartitionType.HYBRID_SELECTIVE and partition_type == ResultPartitionType.HYBRID_FULL:
        return f"{because}; a result that is broadcast, or that several edges read, is kept in full"
    return "the producer's chain gives nothing before the end of its input"


# Which operators PyFlink fuses into one, which it does not, and what is lost by fusing.
#
# Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.


_LOST = {
    "uid": "state saved under it is not found: the fused operator has the uid of its first one, or none",
    "uid_hash": "state saved under it is not found: the fused operator has the hash of its first one",
    "name": "it is a part of the fused operator's name; metrics are by that one",
}


def lost_setting_text(lost: LostSetting) -> str:
    """A setting that PyFlink forgets, as a sentence."""
    where = f" ({lost.line})" if lost.line else ""
    return (
        f"{lost.setting} {lost.value!r}{where} of {lost.name!r} is lost, because PyFlink fuses the operator "
        f"into {lost.fused_into!r}; {_LOST[lost.setting]}"
    )


def explain_fusing(lowered: LoweredJob) -> dict[str, Any]:
    """Fused operators, pairs that are not fused with the reasons, and what is lost; for `--json`, too.

    In process mode each boundary between two Python operators costs a Python process in each subtask, and the
    second operator's records are serialised into it and out of it.
    """
    fused = [
        operator
        for operator in lowered.submitted.physical.values()
        if len(operator.steps) > 1 and operator.python
    ]
    names = {operator.id: operator.name for operator in lowered.submitted.physical.values()}
    return {
        "fused": [
            {"node": operator.id, "operators": [step.name for step in operator.steps]} for operator in fused
        ],
        "not_fused": [
            {
                "source": {"node": pair.source, "name": names[pair.source]},
                "target": {"node": pair.target, "name": names[pair.target]},
                "reasons": list(pair.reasons),
            }
            for pair in lowered.not_fused
            if pair.source in names and pair.target in names
        ],
        "boundaries_saved": sum(len(operator.steps) - 1 for operator in fused),
        "lost_settings": [
            {
                "setting": lost.setting,
                "value": lost.value,
                "operator": lost.name,
                "fused_into": lost.fused_into,
                "line": lost.line,
            }
            for lost in lowered.lost_settings
        ],
    }
