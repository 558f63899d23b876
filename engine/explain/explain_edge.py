"""Why an edge is chained or not, and why its result is of its type."""

from typing import Any

from engine.draw.chaining_reasons import is_chained
from engine.draw.drawn_plan import Row
from engine.explain.chaining_conditions import CONDITIONS
from engine.explain.explained_plan import ExplainedPlan
from operators.kinds import OPERATOR_KINDS
from plans.job_graph.choose_result_partition_types import OF_EXCHANGE_MODE, OF_GLOBAL_MODE
from plans.vocabulary import DistributionPattern, ResultPartitionType
from plans.vocabulary import NotChainableReason as Reason

Explanation = dict[str, Any]
"""What `--json` writes: texts, numbers, lists and mappings of them."""

_KEYED_IN_BATCH = "Flink: it is keyed, in a BATCH job"
_AS_STREAMING = "run as STREAMING: execution.runtime-mode: STREAMING"


def explain_edge(plan: ExplainedPlan, edge: Row, why: str) -> Explanation:
    """An edge with all conditions of chaining, and its result; `why`: the sentence against chaining.

    It is chained if and only if all conditions are met. `result` is None where there is no job edge.
    """
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    chained, found = is_chained(edge), _found(plan, edge)
    return {
        "source": {"node": source["id"], "name": source["name"]},
        "target": {"node": target["id"], "name": target["name"]},
        "in_index": edge["in_index"],
        "chained": chained,
        "not_chained_because": "" if chained else why,
        "partitioner": edge["partitioner"],
        "partitioner_because": _partitioner_because(plan, edge),
        "conditions": [_condition(plan, edge, reason, found[reason]) for reason in _asked(edge)],
        "result": _result(plan, edge),
    }


def _asked(edge: Row) -> list[Reason]:
    """The conditions of an edge: Flink's, and that of another planner where it keeps the edge apart."""
    own = Reason.DECIDED_BY_PLANNER
    return [one for one in Reason if one is not own or own.value in edge["not_chainable_reasons"]]


def _condition(plan: ExplainedPlan, edge: Row, reason: Reason, found: Explanation) -> Explanation:
    condition = CONDITIONS[reason]
    # The head that takes sources into its chain has several inputs: the sources are chained all the same.
    waived = reason is Reason.SEVERAL_INPUTS and edge["chained_source"]
    met = waived or reason.value not in edge["not_chainable_reasons"]
    change = None if met else condition.change
    if not met and reason is Reason.PARTITIONER_NOT_FORWARD:
        change = _change_of_partitioner(plan, edge)
    elif not met and reason is Reason.DOWNSTREAM_IS_HEAD and found["set by"] == _KEYED_IN_BATCH:
        change = _AS_STREAMING
    return {
        "reason": reason.value,
        "requires": condition.requires,
        "met": met,
        "found": found,
        "method": condition.method,
        "change": change,
    }


def _found(plan: ExplainedPlan, edge: Row) -> dict[Reason, Explanation]:
    """The values that decide each condition."""
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    of_source, of_target = _strategy(plan, source), _strategy(plan, target)
    inputs: Explanation = {"input edges": len(plan.inputs[target["id"]])}
    if edge["chained_source"]:
        inputs["reader takes sources into its chain"] = True

    def of_both(attribute: str) -> Explanation:
        return {"producer": source[attribute], "reader": target[attribute]}

    return {
        Reason.CHAINING_DISABLED: {"chaining": "on" if plan.settings["chaining_enabled"] else "off"},
        Reason.SEVERAL_INPUTS: inputs,
        Reason.UNION_INPUT: {"edges into the input": plan.input_degrees[target["id"], edge["type_number"]]},
        Reason.DIFFERENT_SLOT_SHARING_GROUP: of_both("slot_sharing_group"),
        Reason.YIELDING_BEHIND_LEGACY_SOURCE: {
            "reader yields": target["yielding"],
            "SourceFunction": _behind_legacy(plan, source),
        },
        Reason.UPSTREAM_NEVER_CHAINS: of_source,
        Reason.DOWNSTREAM_NEVER_CHAINS: of_target,
        Reason.DOWNSTREAM_IS_HEAD: of_target,
        Reason.UPSTREAM_IS_NOT_A_SOURCE: {**of_target, "producer is a source": source["source"]},
        Reason.DIFFERENT_PARALLELISM: of_both("parallelism"),
        Reason.DIFFERENT_MAX_PARALLELISM: {
            **of_both("max_parallelism"),
            "may differ": plan.settings["chain_different_max_parallelism"],
        },
        Reason.PARTITIONER_NOT_FORWARD: {
            "partitioner": edge["partitioner"],
            "because": _partitioner_because(plan, edge),
        },
        Reason.BATCH_EXCHANGE: {
            "exchange mode": edge["exchange_mode"],
            "partitioner class": edge["partitioner_class"],
        },
        Reason.DECIDED_BY_PLANNER: {"decides": "apart"},
    }


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
    if (given := plan.given.get(node["id"])) is None:
        return {"strategy": strategy, "set by": "the stream graph"}
    if given["chaining"] == strategy:
        return {"strategy": strategy, "set by": "the operator"}
    if given["chaining"] is None and OPERATOR_KINDS[given["kind"]].chaining == strategy:
        return {"strategy": strategy, "set by": f"the default of kind {given['kind']}"}
    return {"strategy": strategy, "set by": _KEYED_IN_BATCH}


def _partitioner_because(plan: ExplainedPlan, edge: Row) -> str:
    if not plan.is_translated:
        return "the stream graph gives it"
    if plan.given_partitioners.get((edge["target"], edge["in_index"])) is not None:
        return "a partition transformation sets it"
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    equal = source["parallelism"] == target["parallelism"]
    return f"none is set, and parallelism {'is equal' if equal else 'differs'}"


def _change_of_partitioner(plan: ExplainedPlan, edge: Row) -> str:
    if not plan.is_translated:
        return "give the edge a ForwardPartitioner"
    if plan.given_partitioners.get((edge["target"], edge["in_index"])) is not None:
        return f"remove the partition transformation that sets {edge['partitioner']}"
    return "give both the same parallelism: the partitioner becomes FORWARD"


def _result(plan: ExplainedPlan, edge: Row) -> Explanation | None:
    """The type of the intermediate data set that the edge reads, and what has chosen it."""
    job_edge = plan.job_edges.get((edge["target"], edge["in_index"]))
    if job_edge is None:
        return None
    found = job_edge["result_partition_type"]
    return {
        "data_set_id": job_edge["data_set_id"],
        "type": found,
        "because": _type_because(plan, edge, job_edge, found),
    }


def _type_because(plan: ExplainedPlan, edge: Row, job_edge: Row, found: str) -> str:
    mode = plan.settings["global_exchange_mode"]
    pointwise = job_edge["distribution"] == DistributionPattern.POINTWISE
    place = 0 if job_edge["forward"] else 1 if pointwise else 2
    if (own := OF_EXCHANGE_MODE.get(edge["exchange_mode"])) is not None:
        asked, because = own, f"the edge's exchange mode is {edge['exchange_mode']}"
    else:
        kind = ("a forward edge", "a pointwise edge that is not forward", "an all-to-all edge")[place]
        asked = OF_GLOBAL_MODE[mode][place]
        because = f"the {plan.settings['job_type']} job's exchange mode is {mode}, and this is {kind}"
    if asked == found:
        return because
    if asked == ResultPartitionType.HYBRID_SELECTIVE and found == ResultPartitionType.HYBRID_FULL:
        return f"{because}; a result that is broadcast, or that several edges read, is kept in full"
    return "the producer's chain gives nothing before the end of its input"
