"""Tables of the slots layer: who shares a slot, and what a slot needs."""

from penstock.plans.tables.column_types import DOUBLE, INT, LONG, STR, TOPOLOGY_ID, table

EXECUTION_SLOT_SHARING_GROUPS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "job vertex of the task"),
    ("subtask", INT, "subtask index of the task"),
    ("slot_sharing_group", INT, "slot sharing group of the vertex"),
    (
        "execution_slot_sharing_group",
        INT,
        "the slot: tasks of one number share it; from 0, by creation",
    ),
)

REQUIRED_SLOTS = table(
    TOPOLOGY_ID,
    ("slot_sharing_group", INT, "slot sharing group"),
    ("slots", INT, "slots it needs: its execution slot sharing groups"),
    ("tasks", LONG, "tasks that share them"),
    ("vertices", INT, "job vertices in it"),
    ("largest_vertex", INT, "vertex with most tasks, the first in topological order: it sets the number"),
)

NETWORK_BUFFERS = table(
    TOPOLOGY_ID,
    ("vertex", INT, "job vertex; the figures are those of the task that has most channels here"),
    ("side", STR, "BufferSide: GATE or RESULT_PARTITION"),
    ("index", INT, "input_index of the gate, or output_index of the result partition"),
    ("channels", INT, "input channels of the gate, or subpartitions of the partition"),
    ("exclusive_per_channel", INT, "of a gate: buffers each channel owns; 0 on result partitions"),
    ("required", INT, "least buffers with which it runs"),
    ("target", INT, "buffers it works with if there are enough; null = not bounded", True),
    ("announced", INT, "buffers announced to the resource manager; null = Flink refuses to", True),
    ("overdraft", INT, "of a result partition: buffers above target to finish a record with; 0 on gates"),
)

MANAGED_MEMORY = table(
    TOPOLOGY_ID,
    ("vertex", INT, "its job vertex"),
    ("node", INT, "the operator's stream node"),
    (
        "use_case",
        STR,
        "ManagedMemoryUseCase; OPERATOR bytes add up, those of others are shared by their users in a slot",
    ),
    ("fraction", DOUBLE, "of what the slot sharing group's consumers of the use case get"),
    ("slot_fraction", DOUBLE, "of the slot's managed memory, with the use cases weighed"),
    ("bytes", LONG, "of a slot of the TaskManager planned for"),
)
