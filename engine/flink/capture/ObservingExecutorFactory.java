package penstock.flink;

import java.util.Set;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CacheSupportedPipelineExecutor;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.util.AbstractID;

/** Returns executors of `factory` that write each job's graph before they submit it. */
final class ObservingExecutorFactory implements PipelineExecutorFactory {
    private final PipelineExecutorFactory factory;
    private final CapturedJobs jobs;

    ObservingExecutorFactory(PipelineExecutorFactory factory, CapturedJobs jobs) {
        this.factory = factory;
        this.jobs = jobs;
    }

    @Override
    public String getName() {
        return factory.getName();
    }

    @Override
    public boolean isCompatibleWith(Configuration configuration) {
        return factory.isCompatibleWith(configuration);
    }

    @Override
    public PipelineExecutor getExecutor(Configuration configuration) {
        PipelineExecutor executor = factory.getExecutor(configuration);
        return executor instanceof CacheSupportedPipelineExecutor
                ? new ObservingExecutorWithCache((CacheSupportedPipelineExecutor) executor)
                : new ObservingExecutor(executor);
    }

    private class ObservingExecutor implements PipelineExecutor {
        private final PipelineExecutor executor;

        ObservingExecutor(PipelineExecutor executor) {
            this.executor = executor;
        }

        @Override
        public CompletableFuture<JobClient> execute(
                Pipeline pipeline, Configuration configuration, ClassLoader userCodeClassLoader) throws Exception {
            jobs.observe(pipeline, configuration, userCodeClassLoader);
            return executor.execute(pipeline, configuration, userCodeClassLoader);
        }
    }

    private final class ObservingExecutorWithCache extends ObservingExecutor implements CacheSupportedPipelineExecutor {
        private final CacheSupportedPipelineExecutor executor;

        ObservingExecutorWithCache(CacheSupportedPipelineExecutor executor) {
            super(executor);
            this.executor = executor;
        }

        @Override
        public CompletableFuture<Set<AbstractID>> listCompletedClusterDatasetIds(
                Configuration configuration, ClassLoader userCodeClassLoader) throws Exception {
            return executor.listCompletedClusterDatasetIds(configuration, userCodeClassLoader);
        }

        @Override
        public CompletableFuture<Void> invalidateClusterDataset(
                AbstractID dataSet, Configuration configuration, ClassLoader userCodeClassLoader) throws Exception {
            return executor.invalidateClusterDataset(dataSet, configuration, userCodeClassLoader);
        }
    }
}
