"""Topologies drawn after the jobs of a published trace.

alibaba-2018: the batch jobs of Alibaba's cluster-trace-v2018, by the distributions and the way of connecting
tasks published in H. Tian, Y. Zheng and W. Wang, "Characterizing and Synthesizing Task Dependencies of
Data-Parallel Jobs in Alibaba Cloud" (SoCC 2019; the generator Spår). docs/drawn-fleets.md lists the known
facts, and the assumptions that turn these jobs into streaming jobs.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

from penstock.plans.vocabulary import Kind, Partitioner

TRACES = {"alibaba-2018": "alibaba_2018.json"}
"""Names of traces, and their distributions: shares of 1, 2, … as whole numbers."""

DEFAULT_MOST_PARALLELISM = 64
"""The most subtasks of an operator; 8 in 100 tasks of alibaba-2018 have more instances."""

_EDGES = 3 / 4
"""Readers of a task, as a fraction of the number of tasks in the next level per task of its level."""


def draw_by_trace(
    trace: str, seed: int, number: int, most_parallelism: int = DEFAULT_MOST_PARALLELISM
) -> dict[str, Any]:
    """Draw topology `number` (from 0) of the fleet of a trace and a seed; it depends on nothing else.

    A task is an operator with one subtask per instance of the task, rounded up to a power of two, at most
    `most_parallelism`. It reads other tasks by hash. Tasks without a reader go to a sink.
    """
    random = Random(f"{trace}|{seed}|{number}")
    shares = _shares(trace)
    parents = _connected(_levels(random, shares), random)
    transformations: list[dict[str, Any]] = []

    def add(transformation: Mapping[str, Any]) -> int:
        transformations.append({"id": len(transformations) + 1, **transformation})
        return len(transformations)

    operators: list[int] = []
    sizes: list[int] = []
    for task, read in enumerate(parents, 1):
        size = min(most_parallelism, 2 ** (_drawn(random, shares["instances_up_to_power_of_two"]) - 1))
        inputs = [operators[parent] for parent in read]
        if len(inputs) > 2:
            inputs = [add({"kind": str(Kind.UNION), "inputs": inputs})]
        hashed = {"kind": str(Kind.PARTITION), "partitioner": str(Partitioner.HASH)}
        inputs = [add({**hashed, "inputs": [parent_id]}) for parent_id in inputs]
        kind = (Kind.SOURCE, Kind.ONE_INPUT, Kind.TWO_INPUT)[len(inputs)]
        input_entry = {"inputs": inputs} if inputs else {}
        operators.append(add({"kind": str(kind), "name": f"Task {task}", **input_entry, "parallelism": size}))
        sizes.append(size)
    is_read = {parent for read in parents for parent in read}
    for task, operator in enumerate(operators):
        if task not in is_read:
            sink = {"kind": str(Kind.SINK), "name": f"Result of task {task + 1}", "inputs": [operator]}
            add({**sink, "parallelism": sizes[task]})
    return {"name": f"{trace}-{seed}-{number:06}", "transformations": transformations}


def _levels(random: Random, shares: Mapping[str, Any]) -> list[int]:
    """Return the number of tasks of each level, one on the critical path and the others spread as in the
    trace.
    """
    tasks = _drawn(random, shares["tasks"])
    length = 1
    if tasks > 1:
        paths = shares["critical_path"]
        length = min(tasks, _drawn(random, paths[str(min(tasks, max(map(int, paths))))]))
    beside = shares["level"][str(min(length, len(shares["level"])))]
    levels = Counter(min(length, _drawn(random, beside)) for _ in range(tasks - length))
    return [1 + levels[level] for level in range(1, length + 1)]


def _connected(levels: Sequence[int], random: Random) -> list[list[int]]:
    """Return the tasks that each task reads, all from the previous level; level by level."""
    parents: list[list[int]] = [[] for _ in range(sum(levels))]
    start = 0
    for size, size_of_next in pairwise(levels):
        following = range(start + size, start + size + size_of_next)
        for task in range(start, start + size):
            for reader in sorted(random.sample(following, ceil(size_of_next / size * _EDGES))):
                parents[reader].append(task)
        start += size
    return parents


def _drawn(random: Random, shares: Sequence[int]) -> int:
    return random.choices(range(1, len(shares) + 1), shares)[0]


@cache
def _shares(trace: str) -> dict[str, Any]:
    shares: dict[str, Any] = json.loads((Path(__file__).parent / TRACES[trace]).read_text(encoding="utf-8"))
    return shares
