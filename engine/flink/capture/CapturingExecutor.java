package penstock.flink;

import java.util.Collections;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CacheSupportedPipelineExecutor;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.util.AbstractID;

/** Writes each job's graph and reports the job as finished; data sets of earlier jobs count as cached. */
final class CapturingExecutor implements CacheSupportedPipelineExecutor {
    private final CapturedJobs jobs;

    CapturingExecutor(CapturedJobs jobs) {
        this.jobs = jobs;
    }

    @Override
    public CompletableFuture<JobClient> execute(
            Pipeline pipeline, Configuration configuration, ClassLoader userCodeClassLoader) {
        return CompletableFuture.completedFuture(
                new FinishedJob(jobs.capture(pipeline, configuration, userCodeClassLoader)));
    }

    @Override
    public CompletableFuture<Set<AbstractID>> listCompletedClusterDatasetIds(
            Configuration configuration, ClassLoader userCodeClassLoader) {
        return CompletableFuture.completedFuture(Collections.unmodifiableSet(jobs.cachedDataSets()));
    }

    @Override
    public CompletableFuture<Void> invalidateClusterDataset(
            AbstractID dataSet, Configuration configuration, ClassLoader userCodeClassLoader) {
        jobs.forgetDataSet(dataSet);
        return CompletableFuture.completedFuture(null);
    }
}
