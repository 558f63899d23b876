"""The metrics of one job, typed."""

from dataclasses import dataclass


@dataclass(slots=True)
class JobMetrics:
    """The metrics of one job, those of plan_metrics.METRICS (units and meanings stand there)."""

    operators: int
    vertices: int
    mean_chain_length: float
    longest_chain: int
    tasks: int
    execution_edges: int
    channels: int
    slots: int
    task_managers: int
    network_buffers: int
    network_bytes: int
    managed_bytes_per_slot: int
    tasks_of_fullest_slot: int
    slot_imbalance: float
    critical_path: int
    exchanged_bytes_per_second: float
    shuffled_bytes_per_second: float
    remote_bytes_per_second: float
    cpu_load: float
    exchange_cpu_load: float
    utilisation: float
    slot_utilisation: float
    network_utilisation: float
    bottleneck: str | None
    source_records_per_second: float
    delivered_records_per_second: float
    sustained_records_per_second: float | None
    sustained_per_slot: float | None
    needed_tasks: int
