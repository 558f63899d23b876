"""Read task graphs of scheduling research (STG, daggen, DAX of Pegasus, Alibaba's batch tasks) as graphs.

Sources: the Standard Task Graph Set (Tobita, Kasahara: A standard task graph set for fair evaluation of
multiprocessor scheduling algorithms, Journal of Scheduling 5, 2002); daggen (github.com/frs69wq/daggen);
Pegasus's DAX schema 3.6 and workflows in YAML, 5.0; Alibaba's cluster-trace-v2018, table batch_task.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any
from xml.parsers import expat

import yaml

from penstock.plans.errors import ErrorKind, InputError, TopologyError
from penstock.plans.importing.bounds import (
    DEEPEST,
    MOST_BYTES_OF_YAML,
    MOST_EDGES,
    MOST_NODES,
    require_at_most,
)
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
from penstock.plans.importing.importers import ALIBABA_COLUMNS
from penstock.plans.printable import first_and_count
from penstock.plans.topology.rules import Rule, Rules, list_of, shorten, text, wrong_type

# Instances of scientific workflows in WfCommons' WfFormat as graphs.
#
# Source: the JSON schema of WfFormat, versions 1.3 to 1.6 (github.com/wfcommons/WfFormat); Coleman et al.,
# "WfCommons: A framework for enabling scientific workflow research and development", Future Generation
# Computer Systems 128 (2022).


FORM = "wfformat"
VERSIONS = ("1.3", "1.4", "1.5", "1.6")
_BY_NAME = ("1.3", "1.4")
"""Versions in which tasks refer to each other by name; in later ones by id."""

_TASKS = Rule(
    lambda value: type(value) is list,
    lambda location, key, value: [wrong_type(location, key, value, "a list of tasks")],
    "a list of tasks",
)
_REFERENCES = list_of(text(), "a list of tasks")
_WORKFLOW_TASK: Rules = {"name": text(), "id": text(), "parents": _REFERENCES, "children": _REFERENCES}


def from_wfformat(document: Mapping[str, Any], name: str, options: ImportOptions) -> Imported:
    """Return a topology named `name` with an operator per task and an edge per dependency.

    Tasks without parents are sources, tasks without children are sinks. The properties of a task and of its
    execution (coreCount, runtimeInSeconds, …) become attributes of its node.
    """
    version = str(document["schemaVersion"])  # 1.5 without quotes means "1.5"
    if version not in VERSIONS:
        return [
            TopologyError(
                ErrorKind.UNKNOWN_VALUE,
                "workflow",
                f"schemaVersion {shorten(version, 40)}",
                ", ".join(VERSIONS),
                "wfcommons-migrate-instance.py of WfFormat converts older versions",
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
            errors += errors_of_known(task, _WORKFLOW_TASK, required, where)
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
    """Return the parts of a workflow besides its tasks, and executions of tasks that do not exist."""
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
        left_out.append(f"executions of missing tasks: {listed}")
    return left_out


def _references(tasks: list[Any], keys: list[str]) -> dict[str, str]:
    """Map names and ids of tasks to their keys; keys win."""
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
    """Return measurements of tasks, by id (from version 1.5 on)."""
    execution = workflow.get("execution")
    tasks = execution.get("tasks") if type(execution) is dict else None
    if type(tasks) is not list:
        return {}
    return {task["id"]: task for task in tasks if type(task) is dict and type(task.get("id")) is str}


def _plain(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a task that are attributes of a node, which are all but its edges."""
    return {key: value for key, value in task.items() if key not in ("id", "parents", "children")}


def _name(task: Mapping[str, Any]) -> str:
    """Return a task's name and id, or just one of them if it contains the other."""
    name, own = str(task["name"]), str(task.get("id", ""))
    if name in own:
        return own
    return name if own in name else f"{name}_{own}"


_TASK = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)((?:_Stg\d+)*)$", re.ASCII)
_INSTANCES = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_ALIBABA_ATTRIBUTES = ("task_type", "status", "start_time", "end_time", "plan_cpu", "plan_mem")


def read_stg(text: str, file: str, name: str) -> GivenGraph:
    """Return a task graph, given as the number of tasks and then per task its number, processing time, and
    predecessors.

    Graphs of the Standard Task Graph Set have two more tasks than the number, of time 0: an entry and an
    exit. Raises InputError with the line.
    """
    rows = [
        (number, line.split("#")[0].split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.split("#")[0].strip()
    ]
    try:
        count = int(rows[0][1][0])
        tasks = [(number, [int(cell) for cell in cells]) for number, cells in rows[1:]]
    except (ValueError, IndexError):
        raise _wrong(file, rows[0][0] if rows else 1, "no whole numbers", "a task graph (STG)") from None
    require_at_most(len(tasks), MOST_NODES, "nodes")
    if len(tasks) not in (count, count + 2):
        raise _wrong(file, rows[0][0], f"{count:,} tasks, and lines of {len(tasks):,}", "as many lines")
    edges = []
    known = {cells[0] for _, cells in tasks}
    for number, cells in tasks:
        before = cells[3:]
        if len(cells) < 3 or cells[2] != len(before) or not set(before) <= known:
            allowed = "number, processing time, number of predecessors, and these"
            raise _wrong(file, number, " ".join(map(str, cells))[:60], allowed)
        edges += [GivenEdge(str(predecessor), str(cells[0]), {}) for predecessor in before]
    nodes = [GivenNode(str(cells[0]), {"name": f"task {cells[0]}", "processing_time": cells[1]})
             for _, cells in tasks]  # fmt: skip
    comments = [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]
    left_out = [f"comments {first_and_count([shorten(line, 60) for line in comments], most=3)}"]
    return GivenGraph(
        name, nodes, edges, left_out=left_out if comments else (), lists_nodes=True, keys_are_ids=False
    )


def read_daggen(text: str, file: str, name: str) -> GivenGraph:
    """Return a graph of daggen, given per task as its number, its children, type, cost and share of serial
    work.

    Transfers are tasks, too. Raises InputError with the line.
    """
    nodes: list[GivenNode] = []
    edges: list[GivenEdge] = []
    left_out: list[str] = []
    count = None
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if not cells:
            continue
        if line.lstrip().startswith(("//", "#")):
            left_out.append(f"comment {shorten(line.strip(), 60)}")
        elif cells[0] == "NODE_COUNT" and len(cells) == 2 and cells[1].isdecimal() and count is None:
            count = int(cells[1][:18])
        elif cells[0] == "NODE" and 4 <= len(cells) <= 6:
            _, key, children, kind, *rest = cells
            attributes = dict(zip(("cost", "alpha"), rest, strict=False))
            nodes.append(GivenNode(key, {"name": f"{kind.lower()} {key}", "type": kind, **attributes}))
            edges += [GivenEdge(key, child, {}) for child in children.split(",") if child not in ("-", "")]
            require_at_most(len(nodes), MOST_NODES, "nodes")
            require_at_most(len(edges), MOST_EDGES, "edges")
        else:
            raise _wrong(file, number, shorten(line, 60), "NODE number children type cost alpha")
    if count is not None and count != len(nodes):
        left_out.append(f"NODE_COUNT {count:,}, as the file has {len(nodes):,} nodes")
    return GivenGraph(name, nodes, edges, left_out=left_out, lists_nodes=True, keys_are_ids=False)


def read_dax(text: bytes, file: str, name: str) -> GivenGraph:
    """Return a workflow of Pegasus in XML with jobs and, for each child, its parents. Entities are refused.

    Raises InputError.
    """
    dax = _Dax()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = dax.start, dax.end
    parser.EntityDeclHandler = dax.entity
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise _wrong(file, error.lineno, expat.errors.messages[error.code], "XML of a DAX") from None
    except (LookupError, ValueError) as error:
        raise _wrong(file, parser.CurrentLineNumber, str(error), "a DAX") from None
    left_out = [f"elements {', '.join(sorted(dax.left_out))}"] if dax.left_out else []
    return GivenGraph(
        dax.name or name, dax.nodes, dax.edges, left_out=left_out, lists_nodes=True, keys_are_ids=False
    )


class _Dax:
    """Parser state; a handler raises the error that stops the parser."""

    def __init__(self) -> None:
        self.name = ""
        self.nodes: list[GivenNode] = []
        self.edges: list[GivenEdge] = []
        self.left_out: set[str] = set()
        self._child, self._depth = "", 0

    def entity(self, entity: str, *_: object) -> None:
        raise ValueError(f"entity {entity!r:.60}: entities of a document type are not read")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        require_at_most(self._depth, DEEPEST, "elements in one another")
        match tag.rpartition(":")[2]:
            case "adag":
                self.name = attributes.get("name", "")
            case "job" | "dag" | "dax":
                key = _required(attributes, "id", tag)
                own = attributes.get("name", key)
                plain = {k: v for k, v in attributes.items() if k not in ("id", "name", "namespace")}
                self.nodes.append(GivenNode(key, {"name": f"{own}_{key}", **plain}))
                require_at_most(len(self.nodes), MOST_NODES, "nodes")
            case "child":
                self._child = _required(attributes, "ref", tag)
            case "parent":
                edge_attributes = {key: value for key, value in attributes.items() if key != "ref"}
                if not self._child:
                    raise ValueError("a parent outside a child")
                self.edges.append(GivenEdge(_required(attributes, "ref", tag), self._child, edge_attributes))
                require_at_most(len(self.edges), MOST_EDGES, "edges")
            case other:
                if self._depth == 2 and other not in _UNREAD:
                    raise ValueError(f"an element {other!r:.60}; job, dag, dax and child are read")
                self.left_out.add(attribute_name(other))

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag.rpartition(":")[2] == "child":
            self._child = ""


_UNREAD = ("file", "executable", "transformation", "metadata", "invoke", "filename", "include")
"""Elements of a DAX besides its jobs, which are not part of the graph."""


def _required(attributes: dict[str, str], key: str, tag: str) -> str:
    if not attributes.get(key):
        raise ValueError(f"an element {tag!r:.60} without {key}")
    return attributes[key]


def read_pegasus(text: str, file: str, name: str) -> GivenGraph:
    """Return a workflow of Pegasus 5 in YAML: jobs and jobDependencies. Raises InputError."""
    require_at_most(len(text), MOST_BYTES_OF_YAML, "bytes of YAML")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise _wrong(file, 1, "an alias", "values written out")
        workflow = yaml.safe_load(text)
        nodes = [
            GivenNode(
                str(job["id"]),
                {
                    **{key: value for key, value in job.items() if key not in ("id", "name", "file")},
                    "name": f"{job.get('name') or job.get('file') or 'job'}_{job['id']}",
                },
            )
            for job in workflow["jobs"]
        ]
        edges = [
            GivenEdge(str(dependency["id"]), str(child), {})
            for dependency in workflow.get("jobDependencies") or ()
            for child in dependency["children"]
        ]
        left_out = [
            f"{attribute_name(key)} of the workflow"
            for key in workflow
            if key not in ("jobs", "jobDependencies", "name")
        ]
        left_out += [
            f"{attribute_name(key)} of jobDependencies"
            for key in {key for dependency in workflow.get("jobDependencies") or () for key in dependency}
            if key not in ("id", "children")
        ]
        own = str(workflow.get("name") or name)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _wrong(file, 1, f"{type(error).__name__}: {str(error)[:80]}", "a workflow of Pegasus") from None
    require_at_most(len(nodes), MOST_NODES, "nodes")
    require_at_most(len(edges), MOST_EDGES, "edges")
    return GivenGraph(own, nodes, edges, left_out=left_out, lists_nodes=True, keys_are_ids=False)


def read_alibaba(text: str, file: str, _name: str) -> list[GivenGraph]:
    """Return the jobs of Alibaba's table batch_task, a graph per job with the dependencies between its tasks.

    A task's name contains its number and the numbers of the tasks that it waits for: R3_1_2 waits for 1 and
    2. Tasks with names without numbers (task_…) have no dependencies. Instances of a task are its
    parallelism. Repeated tasks, which were restarted, dependencies on missing tasks, and stages (R3_1_Stg2)
    are left out.
    """
    again: dict[str, list[str]] = {}
    stages: dict[str, list[str]] = {}
    jobs: dict[str, dict[str, dict[str, Any]]] = {}
    edges: dict[str, list[tuple[str, str]]] = {}
    rows = csv.reader(io.StringIO(text, newline=None))
    before = csv.field_size_limit(131_072)
    count = 0
    try:
        for row in rows:
            if not row or row[0] == ALIBABA_COLUMNS[0]:
                continue
            if len(row) != len(ALIBABA_COLUMNS):
                raise _wrong(file, rows.line_num, f"{len(row)} cells", ", ".join(ALIBABA_COLUMNS))
            task = dict(zip(ALIBABA_COLUMNS, row, strict=True))
            count += 1
            require_at_most(count, MOST_NODES, "tasks")
            numbers = _TASK.match(task["task_name"])
            key = numbers[1] if numbers else task["task_name"]
            own = jobs.setdefault(task["job_name"], {})
            if key in own:
                again.setdefault(task["job_name"], []).append(shorten(task["task_name"], 40))
                continue
            attributes: dict[str, Any] = {"name": task["task_name"]}
            if _INSTANCES.fullmatch(task["instance_num"]):
                attributes["parallelism"] = int(task["instance_num"])
            attributes |= {key: task[key] for key in _ALIBABA_ATTRIBUTES if task[key]}
            if "parallelism" not in attributes and task["instance_num"]:
                attributes["instance_num"] = task["instance_num"]
            own[key] = attributes
            waits = (
                []
                if numbers is None
                else [predecessor for predecessor in numbers[2].split("_") if predecessor]
            )
            if numbers is not None and numbers[3]:
                stages.setdefault(task["job_name"], []).append(shorten(task["task_name"], 40))
            edges.setdefault(task["job_name"], []).extend((predecessor, key) for predecessor in waits)
    except csv.Error as error:
        raise _wrong(file, rows.line_num, str(error), "CSV as of RFC 4180") from None
    finally:
        csv.field_size_limit(before)
    return [
        GivenGraph(
            job,
            [GivenNode(key, attributes) for key, attributes in tasks.items()],
            [GivenEdge(source, target, {}) for source, target in edges[job] if source in tasks],
            left_out=_left_of_job(tasks, edges[job], again.get(job, []), stages.get(job, [])),
            keys_are_ids=False,
        )
        for job, tasks in jobs.items()
    ]


def _left_of_job(
    tasks: dict[str, dict[str, Any]], edges: list[tuple[str, str]], again: list[str], stages: list[str]
) -> list[str]:
    missing = [
        f"{source} of {tasks[target]['name']!r:.40}" for source, target in edges if source not in tasks
    ]
    return [
        f"{label} {first_and_count(listed, most=5)}"
        for label, listed in (
            ("dependencies on missing tasks:", missing),
            ("restarts of", again),
            ("stages of", stages),
        )
        if listed
    ]


def _wrong(file: str, number: int, found: str, allowed: str) -> InputError:
    return InputError(f"{file}, line {number}: found {found}; allowed: {allowed}")
