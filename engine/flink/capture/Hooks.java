package penstock.flink;

import org.apache.flink.core.execution.PipelineExecutorFactory;

/** Methods that the changed classes of Flink call. */
public final class Hooks {
    private static final CapturedJobs JOBS = new CapturedJobs(CaptureSettings.ofEnvironment());

    private Hooks() {}

    public static PipelineExecutorFactory capturingFactory() {
        return new CapturingExecutorFactory(new CapturingExecutor(JOBS));
    }

    public static PipelineExecutorFactory observingFactory(PipelineExecutorFactory factory) {
        return factory == null ? null : new ObservingExecutorFactory(factory, JOBS);
    }

    public static Error refuseCluster(String className) {
        String reason = "the program uses " + className + " itself, which would run jobs";
        JOBS.refuse(className, reason);
        return new CaptureRefusal(reason + ": refused, nothing ran");
    }
}
