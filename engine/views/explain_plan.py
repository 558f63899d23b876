"""Explain chaining and result types of edges, ids and groups of operators, slots, and fused operators.

Verdicts come from the planner's tables; nothing is decided here.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.run.lowering.transformations import LostSetting, LoweredJob
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.views.draw.drawn_plan import Row, is_chained, stream_edges_with_reasons
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ConfigurationError
from penstock.plans.job_graph.choose_result_partition_types import OF_EXCHANGE_MODE, OF_GLOBAL_MODE
from penstock.plans.stream_graph.choose_partitioners import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.stream_graph.not_chainable_reasons import SET_BY_AUTHOR, EdgeFacts, NotChainableReason
from penstock.plans.topology.rules import INT32_MAX
from penstock.plans.vocabulary import (
    ChainingStrategy,
    DistributionPattern,
    JobType,
    ManagedMemoryUseCase,
    ResultPartitionType,
    TopologyForm,
)

if TYPE_CHECKING:
    import polars as pl


# Rows of one topology's plan, for lookup.


_NODE = (
    *("id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining", "uid", "uid_hash"),
    *("source", "legacy_source", "yielding", "no_output_until_end_of_input", "coordinated"),
    *("co_location_group", "description", "keyed", "managed_memory", "slot_scope", "transformation"),
)
_GIVEN = ("id", "name", "kind", "chaining", "slot_sharing_group")


@dataclass(frozen=True)
class ExplainedPlan:
    """Tables of `plan` by key, each read once."""

    plan: PlanTables

    @cached_property
    def is_translated(self) -> bool:
        """Return whether the topology was given as transformations, not as a StreamGraph."""
        (form,) = self.plan.rows("topologies", "form")
        return bool(form["form"] == TopologyForm.TRANSFORMATIONS)

    @cached_property
    def settings(self) -> Row:
        """Return the job's settings."""
        (settings,) = self.plan.rows(
            "job_settings",
            *("job_type", "chaining_enabled", "chain_different_max_parallelism", "global_exchange_mode"),
            "all_vertices_in_same_slot_sharing_group",
        )
        return settings

    @cached_property
    def nodes(self) -> dict[int, Row]:
        """Return stream nodes by id."""
        rows = self.plan.rows("stream_nodes", *_NODE)
        return {row["id"]: row for row in sorted(rows, key=lambda row: int(row["id"]))}

    @cached_property
    def may_chain(self) -> bool:
        """Return whether state fits longer chains: one max parallelism for all, and ids that can be set.

        The operators of a chain get the max parallelism of its task, and Flink restores no state of another
        max parallelism. Ids change with chains; the ids of the Table planner's operators, and of the parts of
        a sink without a uid, cannot all be set. A source that an operator with several inputs takes into its
        chain loses its state.
        """
        nodes = self.nodes.values()
        is_sql = any(re.match(r"\[\d+\]:", node["description"] or "") for node in nodes)
        made_of = Counter(node["transformation"] for node in nodes)
        has_unset_sinks = any(
            node["uid"] is None and node["transformation"] is not None and made_of[node["transformation"]] > 1
            for node in nodes
        )
        takes_sources = any(node["chaining"] == ChainingStrategy.HEAD_WITH_SOURCES for node in nodes)
        unsettable = is_sql or has_unset_sinks or takes_sources
        return not unsettable and len({node["max_parallelism"] for node in nodes}) == 1

    @cached_property
    def given(self) -> dict[int, Row]:
        """Return transformations by id, with the parts of sinks; none for a StreamGraph."""
        frame = self._expanded
        if frame is None:
            return {}
        return {row["id"]: row for row in frame.select(_GIVEN).iter_rows(named=True)}

    @cached_property
    def _expanded(self) -> "pl.DataFrame | None":
        from penstock.plans.stream_graph.expand_sinks import expand_transformations

        if not self.plan.has("transformations", "job_settings"):
            return None
        frame, settings = (self.plan.table(name) for name in ("transformations", "job_settings"))
        return expand_transformations(frame.sort("id").collect(), settings.collect())

    @cached_property
    def edges(self) -> list[tuple[Row, str]]:
        """Return stream edges by target and input edge, with sentences against chaining (empty: chained)."""
        return list(stream_edges_with_reasons(self.plan).values())

    @cached_property
    def inputs(self) -> dict[int, list[Row]]:
        """Return the edges into each node."""
        edges_into: dict[int, list[Row]] = defaultdict(list)
        for edge, _ in self.edges:
            edges_into[edge["target"]].append(edge)
        return edges_into

    @cached_property
    def chained_outputs(self) -> Counter[int]:
        """Count chainable edges out of each node."""
        return Counter(edge["source"] for edge, _ in self.edges if edge["chainable"])

    @cached_property
    def input_degrees(self) -> Counter[tuple[int, int]]:
        """Count edges that feed each input of each node."""
        return Counter((edge["target"], edge["type_number"]) for edge, _ in self.edges)

    @cached_property
    def operators(self) -> dict[int, Row]:
        """Return chained operators by node; none if the plan ends before the job graph."""
        rows = self.plan.rows(
            *("chained_operators", "node", "vertex", "operator_id", "user_defined_operator_id"),
        )
        return {row["node"]: row for row in rows}

    @cached_property
    def vertices(self) -> dict[int, Row]:
        """Return job vertices by the node that heads them."""
        rows = self.plan.rows("job_vertices", "vertex", "name", "parallelism", "slot_sharing_group")
        return {row["vertex"]: row for row in rows}

    @cached_property
    def job_edges(self) -> dict[tuple[int, int], Row]:
        """Map (target, in_index) of a stream edge to its job edge and the type of its data set."""
        types = {
            (row["vertex"], row["data_set_id"]): row["result_partition_type"]
            for row in self.plan.rows(
                "intermediate_data_sets", "vertex", "data_set_id", "result_partition_type"
            )
        }
        rows = self.plan.rows(
            *("job_edges", "source_vertex", "target_vertex", "target_node", "in_index", "data_set_id"),
            *("forward", "distribution", "broadcast"),
        )
        return {
            (row["target_node"], row["in_index"]): {
                **row,
                "result_partition_type": types[row["source_vertex"], row["data_set_id"]],
            }
            for row in rows
        }

    @cached_property
    def given_partitioners(self) -> dict[tuple[int, int], str | None]:
        """Map (target, in_index) to the partitioner that a partition transformation sets there, or None.

        Empty for a StreamGraph, which sets the partitioners of all edges.
        """
        if not self.is_translated:
            return {}
        from penstock.plans.stream_graph.resolve_virtual_nodes import resolve_virtual_nodes

        frame = self._expanded
        if frame is None:
            return {}
        resolved = resolve_virtual_nodes(frame).select("target", "in_index", "partitioner")
        return {(target, index): name for target, index, name in resolved.iter_rows()}


Explanation = dict[str, Any]
"""An explanation as `--json` writes it: texts, numbers, and lists and mappings of these."""

_KEEP_IDS = "; operator ids change with chains, so give operators without uids theirs as uid hashes first"
_KEYED_IN_BATCH = "Flink: it is keyed, in a BATCH job"


def explain_edge(plan: ExplainedPlan, edge: Row, why: str) -> Explanation:
    """Explain all conditions of chaining of an edge, and its result; `why` is the sentence against chaining.

    It is chained if and only if all conditions are met. `result` is None if there is no job edge.
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
        "conditions": [_condition(facts, reason) for reason in _conditions(edge)],
        "result": _result(plan, edge),
    }


def _conditions(edge: Row) -> list[NotChainableReason]:
    """Return Flink's conditions of an edge, and a custom planner's if it keeps the edge apart."""
    decided = NotChainableReason.DECIDED_BY_PLANNER
    return [
        reason
        for reason in NotChainableReason
        if reason is not decided or decided.value in edge["not_chainable_reasons"]
    ]


def _condition(facts: EdgeFacts, reason: NotChainableReason) -> Explanation:
    record = reason.record
    # A head that takes sources into its chain has several inputs: the sources are chained all the same.
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
        may_share_slots=_may_share_slots(plan),
        may_follow=plan.may_chain and _may_follow(plan, edge),
        exchange_is_given=plan.is_translated and edge["exchange_mode"] in OF_EXCHANGE_MODE,
        ids_change=any(node["uid"] is None for node in plan.nodes.values()),
    )


def _may_share_slots(plan: ExplainedPlan) -> bool:
    """Return whether groups can join, without co-location and with weights of memory that can be added up."""
    nodes = plan.nodes.values()
    weights = sum(weight for node in nodes for _, weight in dict(node["managed_memory"] or ()).items())
    return weights <= INT32_MAX and not any(node["co_location_group"] for node in nodes)


def _behind_legacy(plan: ExplainedPlan, source: Row) -> bool:
    """Return whether a node is a SourceFunction, or in a chain headed by one."""
    operator = plan.operators.get(source["id"])
    head = source if operator is None else plan.nodes[operator["vertex"]]
    return bool(source["legacy_source"] or head["legacy_source"])


def _strategy(plan: ExplainedPlan, node: Row) -> Explanation:
    """Return a node's chaining strategy, and its origin."""
    strategy = node["chaining"]
    if strategy is None:
        return {"strategy": "NEVER", "set by": "Flink: the node has no operator"}
    if (given := plan.given.get(node["id"])) is None:
        return {"strategy": strategy, "set by": "the stream graph"}
    in_batch = plan.settings["job_type"] == JobType.BATCH
    if in_batch and node["keyed"] and strategy == ChainingStrategy.HEAD:  # regardless of the author's setting
        return {"strategy": strategy, "set by": _KEYED_IN_BATCH}
    if given["chaining"] == strategy:
        return {"strategy": strategy, "set by": SET_BY_AUTHOR}
    if given["chaining"] is None and OPERATOR_KINDS[given["kind"]].chaining == strategy:
        return {"strategy": strategy, "set by": f"the default of kind {given['kind']}"}
    return {"strategy": strategy, "set by": _KEYED_IN_BATCH}


def _partitioner_because(plan: ExplainedPlan, edge: Row) -> str:
    if not plan.is_translated:
        return "the stream graph sets it"
    if plan.given_partitioners.get((edge["target"], edge["in_index"])) is not None:
        return "a partition transformation sets it"
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    equal = source["parallelism"] == target["parallelism"]
    return f"none is set, and parallelism {'is equal' if equal else 'differs'}"


def _may_follow(plan: ExplainedPlan, edge: Row) -> bool:
    """Return whether the target's chain can take the source's parallelism without changing results.

    It cannot if an author's partitioner or a key distributes its records, a subtask may be alone on purpose,
    it writes to a sink, or another edge has to be FORWARD.
    writes to a sink, or another edge has to be FORWARD.
    """
    source, target = plan.nodes[edge["source"]], plan.nodes[edge["target"]]
    head = plan.operators.get(target["id"])
    given = plan.given_partitioners.get((edge["target"], edge["in_index"]))
    if not plan.is_translated or given is not None or head is None or source["id"] not in plan.operators:
        return False
    chain = {node for node, row in plan.operators.items() if row["vertex"] == head["vertex"]}
    entering = [other for other, _ in plan.edges if other["target"] in chain and other["source"] not in chain]
    leaving = [other for other, _ in plan.edges if other["source"] in chain and other["target"] not in chain]
    read = {other["source"] for other, _ in plan.edges}
    wanted = source["parallelism"]
    return (
        min(wanted, target["parallelism"]) > 1
        and len(entering) == 1
        and chain <= read
        and all(other["partitioner"] != "FORWARD" for other in leaving)
        and not any(_is_bound(plan.nodes[node], wanted) for node in chain)
    )


def _is_bound(node: Row, parallelism: int) -> bool:
    """Return whether an operator may depend on its parallelism, or cannot have this one."""
    keyed = node["keyed"] or ManagedMemoryUseCase.STATE_BACKEND in node["slot_scope"]
    too_low = 0 < node["max_parallelism"] < parallelism
    return bool(keyed or node["coordinated"] or node["co_location_group"] or too_low)


def _result(plan: ExplainedPlan, edge: Row) -> Explanation | None:
    """Explain the type of the intermediate data set that the edge reads."""
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
    if (by_edge := OF_EXCHANGE_MODE.get(edge["exchange_mode"])) is not None:
        requested, because = by_edge, f"the edge's exchange mode is {edge['exchange_mode']}"
    else:
        kind = ("a forward edge", "a pointwise edge that is not forward", "an all-to-all edge")[place]
        requested = OF_GLOBAL_MODE[mode][place]
        because = f"the {plan.settings['job_type']} job's exchange mode is {mode}, and this is {kind}"
    if requested == partition_type:
        return because
    if (
        requested == ResultPartitionType.HYBRID_SELECTIVE
        and partition_type == ResultPartitionType.HYBRID_FULL
    ):
        return f"{because}; a result that is broadcast or read by several edges is stored in full"
    return "the producer's chain emits nothing before the end of its input"


# Fusing in PyFlink: fused operators, operators that are not fused, and settings lost by fusing.
#
# Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.


_LOST = {
    "uid": "state saved under it is lost: the fused operator has the uid of its first one, or none",
    "uid_hash": "state saved under it is lost: the fused operator has the hash of its first one",
    "name": "metrics use the fused operator's name, which contains it",
}


def lost_setting_text(lost: LostSetting) -> str:
    """Describe a setting that PyFlink loses."""
    where = f" ({lost.line})" if lost.line else ""
    return (
        f"{lost.setting} {lost.value!r}{where} of {lost.name!r} is lost, because PyFlink fuses the operator "
        f"into {lost.fused_into!r}; {_LOST[lost.setting]}"
    )


def explain_fusing(lowered: LoweredJob) -> dict[str, Any]:
    """Explain fused operators, pairs that are not fused, and lost settings; also for `--json`.

    In process mode each boundary between two Python operators costs a Python process in each subtask, and
    serialisation of the second operator's records in both directions.
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


# Explanations of a plan: its edges, operators and slots.


def explain_plan(plan: ExplainedPlan, operator: str | None, edge: tuple[str, str] | None) -> Explanation:
    """Explain the `edges`, `operators` and `slots` of a topology that are requested.

    `operator`: only this one and its edges; `edge`: only the edges between these two (see find_operator).
    Raises ConfigurationError if they do not exist.
    """
    edges, operators, slots = plan.edges, list(plan.nodes.values()), explain_slots(plan)
    if operator is not None:
        node = find_operator(plan, operator)
        operators = [node]
        edges = [
            explained_edge
            for explained_edge in edges
            if node["id"] in (explained_edge[0]["source"], explained_edge[0]["target"])
        ]
        slots = [
            slot_row for slot_row in slots if slot_row["slot_sharing_group"] == _group_of(plan, node["id"])
        ]
    if edge is not None:
        source, target = (find_operator(plan, name) for name in edge)
        between = (source["id"], target["id"])
        operators, slots = [], []
        edges = [
            explained_edge
            for explained_edge in edges
            if (explained_edge[0]["source"], explained_edge[0]["target"]) == between
        ]
        if not edges:
            read = ", ".join(
                repr(plan.nodes[read_edge["source"]]["name"]) for read_edge in plan.inputs[target["id"]][:5]
            )
            raise ConfigurationError(
                f"topology {plan.plan.topology!r} has no edge from {source['name']!r} to {target['name']!r}",
                f"{target['name']!r} reads {read or 'nothing'}",
            )
    return {
        "topology": plan.plan.topology,
        "edges": [explain_edge(plan, *explained_edge) for explained_edge in edges],
        "operators": [explain_operator(plan, node) for node in operators],
        "slots": slots,
    }


def _group_of(plan: ExplainedPlan, node: int) -> int | None:
    """Return the number of the slot sharing group of an operator's vertex."""
    operator = plan.operators.get(node)
    return None if operator is None else int(plan.vertices[operator["vertex"]]["slot_sharing_group"])


# The operators chosen by `--operator` and `--edge`.


def find_operator(plan: ExplainedPlan, named: str) -> Row:
    """Find a stream node by name, given name (without "Source: "), uid, operator id or number, in this order.

    Raises ConfigurationError if no node, or more than one, fits.
    """
    ids = {node: row["operator_id"] for node, row in plan.operators.items()}
    given_names = {row["id"]: row["name"] for row in plan.given.values()}
    known = [
        (node, (node["name"], given_names.get(node["id"]), node["uid"], ids.get(node["id"]), str(node["id"])))
        for node in plan.nodes.values()
    ]
    for place in range(len(known[0][1]) if known else 0):
        called_so = [node for node, called in known if called[place] == named]
        if len(called_so) == 1:
            return called_so[0]
        if called_so:
            numbers = ", ".join(str(node["id"]) for node in called_so[:5]) + ", …" * (len(called_so) > 5)
            raise ConfigurationError(
                f"topology {plan.plan.topology!r}: {len(called_so):,} operators are called {named!r}",
                f"choose a node: {numbers}",
            )
    names = list(dict.fromkeys(node["name"] for node in plan.nodes.values()))[:10_000]
    close = get_close_matches(named, names, n=3, cutoff=0.4) or names[:3]
    raise ConfigurationError(
        f"topology {plan.plan.topology!r} has no operator {named!r}",
        f"close names: {', '.join(map(repr, close))}",
    )


# Origins of operator ids and slot sharing groups, and needs for slots.


def explain_operator(plan: ExplainedPlan, node: Row) -> Explanation:
    """Explain an operator's id and slot sharing group.

    `operator_id` is None for an operator without a vertex.
    """
    operator = plan.operators.get(node["id"])
    inputs = plan.inputs[node["id"]]
    return {
        "node": node["id"],
        "name": node["name"],
        "operator_id": operator["operator_id"] if operator else None,
        "user_defined_operator_id": operator["user_defined_operator_id"] if operator else None,
        "operator_id_because": _id_because(plan, node, inputs),
        "slot_sharing_group": node["slot_sharing_group"],
        "slot_sharing_group_because": _group_because(plan, node, inputs),
    }


def explain_slots(plan: ExplainedPlan) -> list[Explanation]:
    """Explain for each slot sharing group the slots that it needs, and the vertex that determines them.

    Empty if the plan ends before the slots.
    """
    groups = {
        row["slot_sharing_group"]: row["name"]
        for row in plan.plan.rows("slot_sharing_groups", "slot_sharing_group", "name")
    }
    rows = plan.plan.rows(
        "required_slots", "slot_sharing_group", "slots", "tasks", "vertices", "largest_vertex"
    )
    return [
        {
            **row,
            "name": groups[row["slot_sharing_group"]],
            "largest_vertex": plan.vertices[row["largest_vertex"]]["name"],
            "because": "tasks of one vertex never share a slot, tasks of different vertices do: "
            f"the largest vertex has {row['slots']:,} {'task' if row['slots'] == 1 else 'tasks'}",
        }
        for row in sorted(rows, key=lambda row: int(row["slot_sharing_group"]))
    ]


def _id_because(plan: ExplainedPlan, node: Row, inputs: list[Row]) -> str:
    by_hand = ""
    if node["uid_hash"] is not None:
        by_hand = "; the uid hash is a second id, under which Flink looks for state first"
    if node["uid"] is not None:
        return f"murmur3-128 of the uid {node['uid']!r}{by_hand}"
    chained = plan.chained_outputs[node["id"]]
    mixed = f", mixed with the ids of its {len(inputs):,} input edges' operators" if inputs else ""
    return (
        "generated: murmur3-128 of its number in the breadth-first walk from the sources, written "
        f"{chained + 1:,} times (once, and once for each of {chained:,} chained output edges){mixed}; "
        f"it changes with the graph, and a uid would keep it{by_hand}"
    )


def _group_because(plan: ExplainedPlan, node: Row, inputs: list[Row]) -> str:
    if not plan.is_translated:
        return "the stream graph sets it"
    if plan.given[node["id"]]["slot_sharing_group"] is not None:
        return "the operator sets it"
    if not inputs:
        return f"it sets none and has no input, so it is in {DEFAULT_SLOT_SHARING_GROUP!r}"
    groups = sorted({plan.nodes[edge["source"]]["slot_sharing_group"] for edge in inputs})
    if len(groups) == 1:
        return f"it sets none, and all of its inputs are in {groups[0]!r}"
    disagreeing = ", ".join(map(repr, groups[:5])) + ", …" * (len(groups) > 5)
    return (
        f"it sets none, and its inputs disagree ({disagreeing}), so it is in {DEFAULT_SLOT_SHARING_GROUP!r}"
    )


# Explanations as text, 80 columns wide.


_WIDTH = 79
_EDGES = 100
"""Edges of a whole topology that are printed."""


def print_explanation(explained: Explanation, whole: bool) -> None:
    """Print explanations. `whole`: of a whole topology, without met conditions and operators."""
    print_line(StyledText(explained["topology"], "bold"))
    edges = explained["edges"]
    if whole:
        apart = [edge for edge in edges if not edge["chained"]]
        print_line(
            f"{_number(len(edges), 'edge')}: {len(edges) - len(apart):,} chained, {len(apart):,} not chained"
        )
        for edge in apart[:_EDGES]:
            _print_edge(edge, all_conditions=False)
        if len(apart) > _EDGES:
            print_line()
            print_line(f"… and {len(apart) - _EDGES:,} more are not chained; --json writes all")
    else:
        for operator in explained["operators"]:
            _print_operator(operator)
        for edge in edges:
            _print_edge(edge, all_conditions=True)
    if whole and "fusing" in explained:
        _print_fusing(explained["fusing"])
    for group in explained["slots"]:
        print_line()
        slots, tasks = _number(group["slots"], "slot"), _number(group["tasks"], "task")
        _print_indented(f"slot sharing group {group['name']}: {slots} for {tasks}", 0)
        _print_indented(f"{group['because']} ({group['largest_vertex']})", 2)


def _print_fusing(fusing: Explanation) -> None:
    """Print which Python operators PyFlink fuses, which not, and why."""
    for operator in fusing["fused"]:
        print_line()
        _print_indented(f"fused to one Python operator: {', '.join(operator['operators'])}", 0)
    for pair in fusing["not_fused"]:
        print_line()
        _print_indented(f"{pair['source']['name']} → {pair['target']['name']}", 0)
        _print_indented(f"two Python operators, not fused: {'; '.join(pair['reasons'])}", 2)
    for setting in fusing["lost_settings"]:
        print_line()
        where = f" ({setting['line']})" if setting["line"] else ""
        _print_indented(
            f"{setting['setting']} {setting['value']!r}{where} of {setting['operator']} is lost", 0
        )
        _print_indented(f"PyFlink fuses the operator into {setting['fused_into']}", 2)


def _print_operator(operator: Explanation) -> None:
    _print_indented(f"operator {operator['name']} (node {operator['node']})", 0)
    _print_indented(
        f"operator id: {operator['operator_id'] or 'none: no vertex of this plan contains it'}", 2
    )
    _print_indented(operator["operator_id_because"], 4)
    if operator["user_defined_operator_id"] is not None:
        _print_indented(f"user-defined operator id: {operator['user_defined_operator_id']}", 2)
    _print_indented(f"slot sharing group: {operator['slot_sharing_group']}", 2)
    _print_indented(operator["slot_sharing_group_because"], 4)


def _print_edge(edge: Explanation, all_conditions: bool) -> None:
    print_line()
    _print_indented(f"{edge['source']['name']} → {edge['target']['name']}", 0)
    _print_indented("chained" if edge["chained"] else f"not chained: {edge['not_chained_because']}", 2)
    if (result := edge["result"]) is not None:
        _print_indented(f"result {result['type']}: {result['because']}", 2)
    for condition in edge["conditions"]:
        if condition["met"] and not all_conditions:
            continue
        _print_indented(f"{'met' if condition['met'] else 'NOT MET'}: {condition['requires']}", 2)
        values = ", ".join(f"{name} {_value(value)}" for name, value in condition["found"].items())
        if all_conditions:
            _print_indented(f"found: {values}", 6)
            _print_indented(f"Flink: {condition['method']}", 6)
        if condition["change"] is not None:
            _print_indented(f"to change it: {condition['change']}", 6)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _print_indented(text: str, indent: int) -> None:
    """Print a text in lines of at most _WIDTH; a longer word has a line of its own."""
    lines = wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        print_line(line)


def _number(count: int, singular: str) -> str:
    return f"{count:,} {singular}{'' if count == 1 else 's'}"
