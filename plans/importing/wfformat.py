"""Instances of scientific workflows in WfCommons' WfFormat as graphs.

Source: the JSON schema of WfFormat, versions 1.3 to 1.6 (github.com/wfcommons/WfFormat); Coleman et al.,
"WfCommons: A framework for enabling scientific workflow research and development", Future Generation Computer
Systems 128 (2022).
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.errors import TopologyError
from penstock.plans.importing.given_graph import (
    GivenEdge,
    GivenGraph,
    GivenNode,
    Imported,
    ImportOptions,
    attribute_name,
    errors_of_known,
    topology_of_graph,
)
from penstock.plans.printable import first_and_count
from penstock.plans.topology.rules import Rule, Rules, list_of, shorten, text, wrong_type

FORM = "wfformat"
VERSIONS = ("1.3", "1.4", "1.5", "1.6")
_BY_NAME = ("1.3", "1.4")
"""Versions in which tasks refer to each other by name; later ones by id."""

_TASKS = Rule(
    lambda value: type(value) is list,
    lambda location, key, value: [wrong_type(location, key, value, "a list of tasks")],
    "a list of tasks",
)
_REFERENCES = list_of(text(), "a list of tasks")
_TASK: Rules = {"name": text(), "id": text(), "parents": _REFERENCES, "children": _REFERENCES}


def is_wfformat(document: Mapping[str, Any]) -> bool:
    """Whether an object is an instance of any version."""
    return "schemaVersion" in document and type(document.get("workflow")) is dict


def from_wfformat(document: Mapping[str, Any], name: str, options: ImportOptions) -> Imported:
    """A topology named `name`: an operator for each task, an edge for each dependency.

    Tasks without parents are sources, those without children are sinks. The properties of a task and of its
    execution (coreCount, runtimeInSeconds, …) become attributes of its node.
    """
    version = str(document["schemaVersion"])  # 1.5 without quotes is meant as "1.5"
    if version not in VERSIONS:
        return [
            TopologyError(
                ErrorKind.UNKNOWN_VALUE,
                "workflow",
                f"schemaVersion {shorten(version, 40)}",
                ", ".join(VERSIONS),
                "wfcommons-migrate-instance.py of WfFormat brings older ones up to date",
            )
        ]
    workflow = document["workflow"]
    holder = workflow if version in _BY_NAME else workflow.get("specification", {})
    if type(holder) is not dict:
        return [wrong_type("workflow", "specification", holder, "an object")]
    errors = errors_of_known(holder, {"tasks": _TASKS}, ("tasks",), "workflow")
    if errors:
        return errors
    tasks = holder["tasks"]
    required = ("name",) if version in _BY_NAME else ("name", "id")
    for place, task in enumerate(tasks, 1):
        where = f"task at position {place}"
        if type(task) is not dict:
            errors.append(wrong_type(where, "task", task, "an object"))
        else:
            errors += errors_of_known(task, _TASK, required, where)
    if errors:
        return errors
    keys = [str(task["name"] if version in _BY_NAME else task["id"]) for task in tasks]
    errors = _duplicates(keys)
    known = _references(tasks, keys)
    edges: dict[tuple[str, str], None] = {}
    for key, task in zip(keys, tasks, strict=True):
        # Either end may name the other.
        pairs = [(other, key, other) for other in task.get("parents", ())]
        pairs += [(key, other, other) for other in task.get("children", ())]
        for source, target, named in pairs:
            if named not in known:
                problem = f"{shorten(named, 80)}, which no task has as its name or id"
                errors.append(
                    TopologyError(ErrorKind.DANGLING_EDGE, f"task {shorten(key, 80)}", problem, "a task", "")
                )
            else:
                edges[known.get(source, source), known.get(target, target)] = None
    if errors:
        return errors
    executed = _executed(workflow)
    nodes = [
        GivenNode(key, {**_plain(executed.get(key, {})), **_plain(task), "name": _name(task)})
        for key, task in zip(keys, tasks, strict=True)
    ]
    graph = GivenGraph(
        name,
        nodes,
        [GivenEdge(source, target, {}) for source, target in edges],
        left_out=_left_out(document, holder, executed.keys() - set(keys)),
        keys_are_ids=False,
    )
    return topology_of_graph(graph, FORM, options)


def _left_out(document: Mapping[str, Any], holder: Mapping[str, Any], unknown: AbstractSet[str]) -> list[str]:
    """Parts of a workflow beside its tasks, and executions of tasks that are not there."""
    workflow = document["workflow"]
    parts = {
        "": (document, ("name", "schemaVersion", "workflow")),
        "workflow.": (workflow, ("tasks", "specification", "execution")),
        "specification.": ({} if holder is workflow else holder, ("tasks",)),
        "execution.": (workflow.get("execution"), ("tasks",)),
    }
    left_out = [
        attribute_name(f"{where}{key}")
        for where, (part, known) in parts.items()
        if type(part) is dict
        for key, value in part.items()
        if key not in known and value not in (None, "", [], {})
    ]
    if unknown:
        listed = first_and_count([shorten(task, 40) for task in sorted(unknown)], most=5)
        left_out.append(f"executions of tasks that are not there: {listed}")
    return left_out


def _references(tasks: list[Any], keys: list[str]) -> dict[str, str]:
    """Names and ids of tasks mapped to their keys; keys win."""
    known = {key: key for key in keys}
    for key, task in zip(keys, tasks, strict=True):
        for other in (task["name"], task.get("id")):
            if other is not None:
                known.setdefault(other, key)
    return known


def _duplicates(keys: list[str]) -> list[TopologyError]:
    return [
        TopologyError(
            ErrorKind.DUPLICATE_ID, f"task {shorten(key, 80)}", f"{count} tasks of this id", "1", ""
        )
        for key, count in Counter(keys).items()
        if count > 1
    ]


def _executed(workflow: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Measurements of tasks, by id (from version 1.5 on)."""
    execution = workflow.get("execution")
    tasks = execution.get("tasks") if type(execution) is dict else None
    if type(tasks) is not list:
        return {}
    return {task["id"]: task for task in tasks if type(task) is dict and type(task.get("id")) is str}


def _plain(task: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a task that are attributes of a node: all but its edges."""
    return {key: value for key, value in task.items() if key not in ("id", "parents", "children")}


def _name(task: Mapping[str, Any]) -> str:
    """A task's name and id, or just one of them if it contains the other."""
    name, own = str(task["name"]), str(task.get("id", ""))
    if name in own:
        return own
    return name if own in name else f"{name}_{own}"
