"""Everything that a Spark task has to know to be a subtask: made on the driver, sent with the function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.operators.task.chain_spec import ChainSpec


@dataclass(frozen=True, kw_only=True)
class ReportAddress:
    """The socket of the driver to which a task reports its states."""

    host: str
    port: int
    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ResultsAddress:
    """The address for records that the driver reads while the job runs, and the vertices that send them."""

    host: str
    port: int
    token: str = field(repr=False)
    vertices: frozenset[int]  #: those that have any
    edges: frozenset[int]
    here: int | None  #: the vertex that the driver itself is
    attempts: bool = False  #: which attempts have sent them is told to Spark, too


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The same for all tasks of a job."""

    job_id: str
    job_name: str
    batch: bool
    seed: int = 0
    block_bytes: int = 1 << 20
    sort_memory_bytes: int = 64 << 20
    state_memory_bytes: int = 256 << 20
    auto_watermark_interval_milliseconds: int = 200
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)  #: name to its name among Spark's files
    reports: ReportAddress | None = None
    results: ResultsAddress | None = None
    observed: bool = False  #: what functions measure goes the way of the records, to an Observation of Spark
    #: By vertex, of a job that was started again: what the numbers of each subtask's attempts begin with.
    first_attempts: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One JobVertex of one job."""

    chain: ChainSpec
    settings: TaskSettings
