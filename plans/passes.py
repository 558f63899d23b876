"""All passes from the topology to slots, in order.

A pass is a pure function from tables to one table, over columns (plans/planners/run_passes.py). Blocks
of giants call the same functions, or the parts of them that a block can compute (plans/blocks). The
positional parameters of a pass are named after the tables that it reads; the runner looks the tables up by
these names.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from penstock.plans.layers import layers_until
from penstock.plans.vocabulary import Layer


class Pass(NamedTuple):
    """One step of planning.

    `produces`: the table. `reads`: the tables that determine the result; the implementation may read fewer of
    them, and tables that only the planner has (OF_ITS_OWN). `flink`: the classes and methods of Flink that
    define the rule.
    """

    layer: Layer
    produces: str
    reads: tuple[str, ...]
    guarantees: str
    flink: str


PASSES: tuple[Pass, ...] = (
    Pass(
        Layer.STREAM_GRAPH,
        "expanded_transformations",
        ("transformations", "job_settings"),
        "a sink of the Sink V2 API, or a cache, becomes the operators that Flink expands it to",
        "{Sink,GlobalCommitter,Cache}TransformationTranslator",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "resolved_inputs",
        ("expanded_transformations",),
        "one row per stream edge, numbered at both ends; "
        "each virtual transformation is replaced by the physical ones above it",
        "StreamGraph.addEdgeInternal, TransformationTranslator",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "inherited_groups",
        ("expanded_transformations", "resolved_inputs"),
        "every node has a slot sharing group",
        "StreamGraphGenerator.determineSlotSharingGroup",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_nodes",
        (
            "expanded_transformations",
            "job_settings",
            "resolved_inputs",
            "inherited_groups",
            "given_stream_nodes",
        ),
        "physical transformations are nodes",
        "TransformationTranslator, BatchExecutionUtils",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "edges_with_ends",
        ("resolved_inputs", "stream_nodes", "job_settings", "given_stream_edges"),
        "partitioners are chosen; an edge knows both ends",
        "StreamGraph.createActualEdge",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "marked_edges",
        ("edges_with_ends", "job_settings"),
        "every reason against chaining that an edge and its ends decide, as a bit set",
        "StreamingJobGraphGenerator.isChainable",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "chain_heads",
        ("marked_edges",),
        "a chained node knows its head and its distance; "
        "chains with a yielding operator below a legacy source are cut above it",
        "StreamingJobGraphGenerator.createChain, getHeadOperator, areOperatorsChainable",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_edges",
        ("marked_edges", "chain_heads"),
        "the final verdict on chaining, with all reasons",
        "StreamingJobGraphGenerator.isChainable, StreamGraphGenerator.generate",
    ),
    Pass(
        Layer.STREAM_GRAPH,
        "stream_graph_refusals",
        (
            *("expanded_transformations", "resolved_inputs", "stream_nodes"),
            *("marked_edges", "stream_edges", "job_settings"),
        ),
        "at most one refusal per topology, the first that Flink raises",
        "StreamGraph.createActualEdge, StreamGraphGenerator.validateTransformationUid",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "walked",
        ("stream_nodes", "stream_edges"),
        "operator ids, and the order in which Flink creates operators, chains and vertices",
        "StreamGraphHasherV2, StreamingJobGraphGenerator.setChaining, createChain",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "typed_edges",
        ("stream_edges", "walked", "job_settings"),
        "result partition types of edges between vertices",
        "StreamingJobGraphGenerator.getResultPartitionType",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "operators",
        ("stream_nodes", "stream_edges", "chain_heads", "walked"),
        "every node belongs to a vertex, with its chain index",
        "StreamingJobGraphGenerator.createChain, createSourceChainInfo",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "chain_vertices",
        ("operators",),
        "one vertex per chain: name, resources, task",
        "StreamingJobGraphGenerator.createJobVertex, createChainedName",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "forward_groups",
        ("chain_vertices", "typed_edges", "job_settings"),
        "vertices of dynamic graphs that forward edges connect",
        "ForwardGroupComputeUtil",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "vertices",
        ("chain_vertices", "forward_groups", "job_settings"),
        "final parallelism in dynamic graphs",
        "StreamingJobGraphGenerator.setVertexParallelismsForDynamicGraphIfNecessary",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "shared_edges",
        ("typed_edges", "vertices"),
        "edges that can read the same data set do",
        "StreamingJobGraphGenerator.mayReuseNonChainedOutputs",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "connected_edges",
        ("shared_edges",),
        "job edges numbered at both ends, with their data sets",
        "StreamingJobGraphGenerator.connect, JobVertex.connectNewDataSetAsInput",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "sorted_vertices",
        ("vertices", "connected_edges"),
        "topological order and pipelined regions",
        "JobGraph.getVerticesSortedTopologicallyFromSources, LogicalPipelinedRegionComputeUtil",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "grouped_vertices",
        ("vertices", "sorted_vertices", "job_settings"),
        "slot sharing groups by number; index prefix of names; parallelism on the cluster",
        "StreamingJobGraphGenerator.setSlotSharing, Dispatcher.applyParallelismOverrides",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "job_vertices",
        ("grouped_vertices",),
        "co-location groups by number",
        "StreamingJobGraphGenerator.setCoLocation",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "chained_operators",
        ("operators", "job_vertices"),
        "managed memory fractions, places in operator ids",
        "StreamingJobGraphGenerator.setManagedMemoryFraction",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "intermediate_data_sets",
        ("connected_edges",),
        "data sets with the number of their consumers",
        "StreamingJobGraphGenerator.createOrReuseOutput",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "slot_sharing_groups",
        ("job_vertices",),
        "the slot sharing groups",
        "StreamingJobGraphGenerator.setSlotSharing",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "co_location_groups",
        ("job_vertices",),
        "the co-location groups",
        "StreamingJobGraphGenerator.setCoLocation",
    ),
    Pass(
        Layer.JOB_GRAPH,
        "job_graph_refusals",
        (
            "walked",
            "stream_nodes",
            "stream_edges",
            "operators",
            "vertices",
            "connected_edges",
            "job_vertices",
            "job_settings",
        ),
        "at most one refusal per topology, the first that Flink raises",
        "StreamingJobGraphGenerator.preValidate, connect",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_job_vertices",
        ("job_vertices", "connected_edges"),
        "effective parallelism and max parallelism; rows of tasks stay few",
        "SchedulerBase.computeVertexParallelismStore, computeDefaultMaxParallelism",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "task_regions",
        ("job_vertices", "execution_job_vertices", "connected_edges"),
        "pipelined regions of tasks, one list per vertex",
        "SchedulingPipelinedRegionComputeUtil",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_graph_refusals",
        ("job_vertices", "execution_job_vertices", "connected_edges", "task_regions"),
        "at most one refusal per topology, the first that Flink raises, or that it has too many tasks",
        "DefaultExecutionGraphBuilder, DefaultExecutionTopology",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_vertices",
        ("task_regions",),
        "one row per task",
        "ExecutionVertex",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "intermediate_results",
        ("connected_edges", "execution_job_vertices"),
        "one row per data set, with the number of its partitions",
        "IntermediateResult",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "intermediate_result_partitions",
        ("connected_edges", "execution_job_vertices"),
        "one row per partition, with its subpartitions",
        "IntermediateResultPartition",
    ),
    Pass(
        Layer.EXECUTION_GRAPH,
        "execution_edges",
        ("connected_edges", "execution_job_vertices"),
        "who reads which partitions and subpartitions, as ranges",
        "VertexInputInfoComputationUtils, EdgeManagerBuildUtil",
    ),
    Pass(
        Layer.SLOTS,
        "task_slots",
        ("job_vertices", "execution_job_vertices", "connected_edges"),
        "which tasks share a slot, one list per vertex",
        "LocalInputPreferredSlotSharingStrategy, TaskBalancedPreferredSlotSharingStrategy",
    ),
    Pass(
        Layer.SLOTS,
        "execution_slot_sharing_groups",
        ("task_slots", "job_vertices"),
        "the slot of each task",
        "ExecutionSlotSharingGroup",
    ),
    Pass(
        Layer.SLOTS,
        "required_slots",
        ("task_slots", "job_vertices"),
        "slots by slot sharing group",
        "ExecutionSlotSharingGroup",
    ),
    Pass(
        Layer.SLOTS,
        "network_buffers",
        ("connected_edges", "execution_job_vertices"),
        "buffers of gates and result partitions",
        "InputGateSpecUtils, NettyShuffleUtils",
    ),
    Pass(
        Layer.SLOTS,
        "managed_memory",
        ("chained_operators", "job_settings"),
        "bytes of operators by use case",
        "ManagedMemoryUtils, MemoryManager",
    ),
)
"""Every pass, in planning order."""

GIVEN = ("topologies", "transformations", "job_settings", "given_stream_nodes", "given_stream_edges")
"""The tables of the topology layer, under the names that passes use."""


# Steps of a planner in the order of PASSES, and the tables of each layer.


Step = TypeVar("Step")


def passes_until(until: Layer) -> tuple[Pass, ...]:
    """Return the passes that derive the layers up to and including `until`."""
    layers = layers_until(until)
    return tuple(step for step in PASSES if step.layer in layers)


def in_order(
    implemented: Mapping[str, Step], of_its_own: Mapping[str, tuple[str, Step]], until: Layer
) -> list[tuple[str, Step]]:
    """Return (table, step) for all layers up to and including `until`, in planning order.

    `implemented`: the planner's step for the table of each pass. `of_its_own`: tables that only this planner
    has, each with the pass that it precedes and its step.
    """
    listed: list[tuple[str, Step]] = []
    for entry in passes_until(until):
        own = [(name, step) for name, (before, step) in of_its_own.items() if before == entry.produces]
        listed += [*own, (entry.produces, implemented[entry.produces])]
    return listed


def produced_by_layer(of_its_own: Iterable[tuple[str, str]] = ()) -> dict[Layer, tuple[str, ...]]:
    """Return the derived tables of each layer.

    `of_its_own`: tables that only one planner has, each with the pass that it precedes.
    """
    layers = {entry.produces: entry.layer for entry in PASSES}
    layers |= {name: layers[before] for name, before in of_its_own}
    return {layer: tuple(name for name in layers if layers[name] is layer) for layer in list(Layer)[1:]}
