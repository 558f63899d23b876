package penstock.flink;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;

/** Returns the capturing executor for every configuration. */
final class CapturingExecutorFactory implements PipelineExecutorFactory {
    private final CapturingExecutor executor;

    CapturingExecutorFactory(CapturingExecutor executor) {
        this.executor = executor;
    }

    @Override
    public String getName() {
        return "penstock-capture";
    }

    @Override
    public boolean isCompatibleWith(Configuration configuration) {
        return true;
    }

    @Override
    public PipelineExecutor getExecutor(Configuration configuration) {
        return executor;
    }
}
