package penstock.flink;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Collection;

import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.jobgraph.InputOutputFormatContainer;
import org.apache.flink.runtime.jobgraph.InputOutputFormatVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.operators.util.TaskConfig;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;

/** Flink's own plan of a captured graph, as plan JSON. Planning changes the graph, so it comes last. */
final class JobPlans {
    private JobPlans() {}

    static byte[] plan(String name, StreamGraph graph, ClassLoader classLoader) throws IOException {
        PlannedTopology planned = new PlannedTopology(name);
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(classLoader);
        try {
            planLayers(planned, graph, classLoader);
        } catch (Exception | StackOverflowError | OutOfMemoryError e) {
            planned.refuse(planned.stage, e);
        } finally {
            thread.setContextClassLoader(before);
        }
        StringWriter line = new StringWriter();
        planned.writeTo(line);
        return line.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void planLayers(PlannedTopology planned, StreamGraph graph, ClassLoader classLoader)
            throws Exception {
        planned.stage = Step.STREAM_GRAPH.key;
        planned.layers.put(planned.stage, StreamGraphJson.of(graph));
        planned.stage = Step.JOB_GRAPH.key;
        JobGraph jobGraph = StreamingJobGraphGenerator.createJobGraph(graph);
        planned.layers.put(planned.stage, JobGraphJson.of(jobGraph));
        for (JobVertex vertex : jobGraph.getVertices()) {
            leaveOutUserCode(vertex, classLoader);
        }
        try {
            planTasks(planned, jobGraph, classLoader);
        } catch (LinkageError e) {
            // A version other than 2.3, whose scheduler has other classes: only the layers so far are compared.
            planned.stage = Step.JOB_GRAPH.key;
        }
    }

    private static void planTasks(PlannedTopology planned, JobGraph jobGraph, ClassLoader classLoader)
            throws Exception {
        planned.stage = Step.EXECUTION_GRAPH.key;
        DefaultExecutionGraph executionGraph = Scheduling.executionGraph(jobGraph, classLoader);
        planned.layers.put(planned.stage, SchedulingJson.executionGraph(executionGraph));
        planned.stage = Step.SLOTS.key;
        planned.layers.put(planned.stage, SchedulingJson.slots(Scheduling.slots(jobGraph, executionGraph)));
    }

    /** Removes hooks that building an ExecutionGraph calls: formats create files and folders, coordinators threads. */
    private static void leaveOutUserCode(JobVertex vertex, ClassLoader classLoader) {
        if (vertex instanceof InputOutputFormatVertex) {
            new InputOutputFormatContainer(classLoader).write(new TaskConfig(vertex.getConfiguration()));
        }
        vertex.setInputSplitSource(null);
        ((Collection<?>) FlinkVersions.field(vertex, JobVertex.class, "operatorCoordinators")).clear();
    }
}
