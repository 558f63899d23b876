"""How many tasks, with their inputs, a topology may have: counted by vertices, before any row is made.

Flink keeps an object of a kilobyte or two for each task.
"""

from penstock.plans.topology.error_kinds import ErrorKind

MOST_TASKS = 1 << 26
"""Of one topology: each vertex counts as its parallelism times one more than its inputs."""

TASKS_OF_A_VERTEX = 4_096
"""A topology of many vertices may have this many for each of them."""

TOO_MANY_TASKS = str(ErrorKind.TOO_MANY_TASKS)
ALLOWED_TASKS = (
    f"at most {MOST_TASKS:,} tasks and inputs of tasks in a topology, "
    f"or {TASKS_OF_A_VERTEX:,} for each vertex"
)
HINT_TASKS = "lower the parallelism, or plan with --until job_graph, which has no tasks"

AROUND_FOUND = (": found ", f"; allowed: {ALLOWED_TASKS}; hint: {HINT_TASKS}")
"""What stands, in the message, between the vertex and what was found, and after that; see TopologyError."""

OF_ALL = " tasks and inputs of tasks in the topology, most of them in this vertex: parallelism "
INPUTS_EACH = ", inputs of each task "
"""What stands after the number of all tasks and inputs, and after the parallelism of the largest vertex."""
