"""Task graphs of scheduling research as graphs: STG, DAX of Pegasus, Alibaba's batch tasks.

Sources: the Standard Task Graph Set (Tobita, Kasahara: A standard task graph set for fair evaluation of
multiprocessor scheduling algorithms, Journal of Scheduling 5, 2002); Pegasus's DAX schema 3.6 and workflows
in YAML, 5.0; Alibaba's cluster-trace-v2018, table batch_task.
"""

import csv
import io
import re
from typing import Any
from xml.parsers import expat

import yaml

from penstock.plans.bounds import (
    DEEPEST,
    MOST_BYTES_OF_YAML,
    MOST_EDGES,
    MOST_NODES,
    require_at_most,
)
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode

_TASK = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)$")
ALIBABA_COLUMNS = (
    *("task_name", "instance_num", "job_name", "task_type", "status"),
    *("start_time", "end_time", "plan_cpu", "plan_mem"),
)


def read_stg(text: str, file: str, name: str) -> GivenGraph:
    """A task graph: how many tasks, then for each its number, processing time, and those before it.

    Graphs of the Standard Task Graph Set have two more than they say, of time 0: an entry and an exit.
    Raises InputError with the line.
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
            allowed = "number, processing time, how many tasks are before it, and these"
            raise _wrong(file, number, " ".join(map(str, cells))[:60], allowed)
        edges += [GivenEdge(str(predecessor), str(cells[0]), {}) for predecessor in before]
    nodes = [GivenNode(str(cells[0]), {"name": f"task {cells[0]}", "processing_time": cells[1]})
             for _, cells in tasks]  # fmt: skip
    return GivenGraph(name, nodes, edges)


def read_dax(text: bytes, file: str, name: str) -> GivenGraph:
    """A workflow of Pegasus in XML: jobs, and for each child its parents. Entities are refused.

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
    return GivenGraph(dax.name or name, dax.nodes, dax.edges)


class _Dax:
    """Parser state; a handler raises the error that stops the parser."""

    def __init__(self) -> None:
        self.name = ""
        self.nodes: list[GivenNode] = []
        self.edges: list[GivenEdge] = []
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
                key = attributes["id"]
                own = attributes.get("name", key)
                plain = {k: v for k, v in attributes.items() if k not in ("id", "name", "namespace")}
                self.nodes.append(GivenNode(key, {"name": f"{own}_{key}", **plain}))
                require_at_most(len(self.nodes), MOST_NODES, "nodes")
            case "child":
                self._child = attributes["ref"]
            case "parent":
                self.edges.append(GivenEdge(attributes["ref"], self._child, {}))
                require_at_most(len(self.edges), MOST_EDGES, "edges")

    def end(self, tag: str) -> None:
        self._depth -= 1


def read_pegasus(text: str, file: str, name: str) -> GivenGraph:
    """A workflow of Pegasus 5 in YAML: jobs and jobDependencies. Raises InputError."""
    require_at_most(len(text), MOST_BYTES_OF_YAML, "bytes of YAML")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise _wrong(file, 1, "an alias", "values written out")
        workflow = yaml.safe_load(text)
        nodes = [
            GivenNode(str(job["id"]), {"name": f"{job.get('name') or job.get('file') or 'job'}_{job['id']}"})
            for job in workflow["jobs"]
        ]
        edges = [
            GivenEdge(str(dependency["id"]), str(child), {})
            for dependency in workflow.get("jobDependencies") or ()
            for child in dependency["children"]
        ]
        own = str(workflow.get("name") or name)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _wrong(file, 1, f"{type(error).__name__}: {str(error)[:80]}", "a workflow of Pegasus") from None
    require_at_most(len(nodes), MOST_NODES, "nodes")
    require_at_most(len(edges), MOST_EDGES, "edges")
    return GivenGraph(own, nodes, edges)


def read_alibaba(text: str, file: str) -> list[GivenGraph]:
    """Jobs of Alibaba's table batch_task: a graph for each job with a dependency between its tasks.

    A task's name holds its number and those of the tasks that it waits for: R3_1_2 waits for 1 and 2. Names
    without numbers (task_…) depend on nothing. Instances of a task are its parallelism.
    """
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
                continue  # a restarted task
            attributes: dict[str, Any] = {"name": task["task_name"]}
            if task["instance_num"].isdigit() and int(task["instance_num"]) > 0:
                attributes["parallelism"] = int(task["instance_num"])
            attributes |= {k: task[k] for k in ("plan_cpu", "plan_mem", "task_type") if task[k]}
            own[key] = attributes
            waits = (
                []
                if numbers is None
                else [predecessor for predecessor in numbers[2].split("_") if predecessor]
            )
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
        )
        for job, tasks in jobs.items()
    ]


def _wrong(file: str, number: int, found: str, allowed: str) -> InputError:
    return InputError(f"{file}, line {number}: found {found}; allowed: {allowed}")
