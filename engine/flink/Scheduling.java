package penstock.flink;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.blob.VoidBlobWriter;
import org.apache.flink.runtime.checkpoint.CheckpointsCleaner;
import org.apache.flink.runtime.checkpoint.NoOpCheckpointStatsTracker;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.PartitionLocationConstraint;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraphBuilder;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.executiongraph.ExecutionJobVertex;
import org.apache.flink.runtime.io.network.partition.JobMasterPartitionTrackerImpl;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.executiongraph.DefaultVertexAttemptNumberStore;
import org.apache.flink.runtime.executiongraph.ExecutionDeploymentListener;
import org.apache.flink.runtime.scheduler.ExecutionSlotSharingGroup;
import org.apache.flink.runtime.scheduler.LocalInputPreferredSlotSharingStrategy;
import org.apache.flink.runtime.scheduler.SchedulerBase;
import org.apache.flink.runtime.scheduler.adaptivebatch.NonAdaptiveExecutionPlanSchedulingContext;
import org.apache.flink.runtime.shuffle.NettyShuffleMaster;
import org.apache.flink.runtime.shuffle.ShuffleMaster;
import org.apache.flink.runtime.shuffle.ShuffleMasterContextImpl;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Schedules a JobGraph like a JobMaster with Flink's default configuration, without deploying tasks. */
final class Scheduling {
    private static final Logger LOG = LoggerFactory.getLogger(Scheduling.class);
    private static final Duration RPC_TIMEOUT = Duration.ofSeconds(10);

    private static final ScheduledExecutorService EXECUTOR =
            Executors.newScheduledThreadPool(
                    1,
                    task -> {
                        Thread thread = new Thread(task);
                        thread.setDaemon(true);
                        return thread;
                    });

    private static final ShuffleMaster<?> SHUFFLE_MASTER =
            new NettyShuffleMaster(new ShuffleMasterContextImpl(new Configuration(), error -> {}));

    private static final ExecutionDeploymentListener NO_DEPLOYMENTS =
            new ExecutionDeploymentListener() {
                @Override
                public void onStartedDeployment(ExecutionAttemptID attempt, ResourceID host) {}

                @Override
                public void onCompletedDeployment(ExecutionAttemptID attempt) {}
            };

    private Scheduling() {}

    /** Returns the attached ExecutionGraph, without checkpointing, whose coordinator would need a running cluster. */
    static DefaultExecutionGraph executionGraph(JobGraph jobGraph) throws Exception {
        return executionGraph(jobGraph, Scheduling.class.getClassLoader());
    }

    static DefaultExecutionGraph executionGraph(JobGraph jobGraph, ClassLoader userCodeClassLoader) throws Exception {
        jobGraph.setSnapshotSettings(null);
        return DefaultExecutionGraphBuilder.buildGraph(
                jobGraph,
                new Configuration(),
                EXECUTOR,
                EXECUTOR,
                userCodeClassLoader,
                null, // completed checkpoints
                new CheckpointsCleaner(),
                null, // checkpoint ids
                RPC_TIMEOUT,
                VoidBlobWriter.getInstance(),
                LOG,
                SHUFFLE_MASTER,
                new JobMasterPartitionTrackerImpl(jobGraph.getJobID(), SHUFFLE_MASTER, host -> Optional.empty()),
                PartitionLocationConstraint.CAN_BE_UNKNOWN,
                NO_DEPLOYMENTS,
                (execution, before, after) -> {},
                0L,
                new DefaultVertexAttemptNumberStore(),
                SchedulerBase.computeVertexParallelismStore(jobGraph),
                NoOpCheckpointStatsTracker.INSTANCE,
                false, // every parallelism is known
                new ExecutionJobVertex.Factory(),
                resultType -> true,
                false,
                UnregisteredMetricGroups.createUnregisteredJobManagerJobMetricGroup(),
                NonAdaptiveExecutionPlanSchedulingContext.INSTANCE);
    }

    /** Returns which tasks share a slot, by the default strategy. */
    static List<ExecutionSlotSharingGroup> slots(JobGraph jobGraph, DefaultExecutionGraph executionGraph) {
        return new ArrayList<>(
                new LocalInputPreferredSlotSharingStrategy.Factory()
                        .create(
                                executionGraph.getSchedulingTopology(),
                                new LinkedHashSet<>(jobGraph.getSlotSharingGroups()),
                                new LinkedHashSet<>(jobGraph.getCoLocationGroups()))
                        .getExecutionSlotSharingGroups());
    }
}
