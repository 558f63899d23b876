package penstock.flink;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.util.AbstractID;
import org.apache.flink.util.OptionalFailure;

/** The jobs of this JVM, in the order in which the program submits them. */
final class CapturedJobs {
    private final CaptureSettings settings;
    private final TopologyFile file;
    private final Set<AbstractID> cachedDataSets = new HashSet<>();
    private int count;

    CapturedJobs(CaptureSettings settings) {
        this.settings = settings;
        this.file = new TopologyFile(settings.file);
    }

    /**
     * Writes the job's graph, and returns the accumulators of an empty result. Throws CaptureRefusal if
     * there is no graph, or it cannot be written.
     */
    synchronized Map<String, OptionalFailure<Object>> capture(
            Pipeline pipeline, Configuration configuration, ClassLoader classLoader) {
        count++;
        if (!(pipeline instanceof StreamGraph)) {
            String what = pipeline.getClass().getName();
            String reason = "job " + count + " is a program of the DataSet API (" + what + "), which has no StreamGraph";
            refuse(what, reason);
            throw new CaptureRefusal(reason + ": refused, it did not run");
        }
        StreamGraph graph = (StreamGraph) pipeline;
        try {
            String name = write(graph, configuration, classLoader);
            rememberDataSets(graph);
            Map<String, OptionalFailure<Object>> results = EmptyResults.of(graph);
            if (settings.plans != null) {
                AppendedLines.append(settings.plans, JobPlans.plan(name, graph, classLoader));
            }
            return results;
        } catch (Throwable e) {
            String reason = "job " + count + " cannot be captured: " + e;
            refuse(graph.getJobName(), reason);
            throw new CaptureRefusal(reason, e);
        }
    }

    /** Writes the graph of a job that will run; failures are reported and do not stop the job. */
    synchronized void observe(Pipeline pipeline, Configuration configuration, ClassLoader classLoader) {
        count++;
        try {
            if (pipeline instanceof StreamGraph) {
                // The graph caches decisions about chaining, which would be submitted with it.
                Map<?, ?> remembered = FlinkVersions.headOperators((StreamGraph) pipeline);
                Set<Object> before = new HashSet<>(remembered.keySet());
                try {
                    write((StreamGraph) pipeline, configuration, classLoader);
                } finally {
                    remembered.keySet().retainAll(before);
                }
            } else {
                refuse(pipeline.getClass().getName(), "job " + count + " has no StreamGraph: not written");
            }
        } catch (Throwable e) {
            refuse(pipeline.getClass().getName(), "job " + count + " could not be written, and is submitted: " + e);
        }
    }

    /** Reports an unfulfilled request on standard error and in the file of refusals. */
    void refuse(String what, String reason) {
        System.err.println("penstock capture: " + reason);
        if (settings.refusals == null) {
            return;
        }
        try {
            AppendedLines.append(
                    settings.refusals,
                    Json.bytes(
                            json -> {
                                json.writeStartObject();
                                json.writeStringField("what", what);
                                json.writeStringField("reason", reason);
                                json.writeEndObject();
                            }));
        } catch (IOException e) {
            CaptureAgent.haltOrWarn(settings.observes, settings.refusals + " cannot be written", e);
        }
    }

    Set<AbstractID> cachedDataSets() {
        return cachedDataSets;
    }

    synchronized void forgetDataSet(AbstractID dataSet) {
        cachedDataSets.remove(dataSet);
    }

    private String write(StreamGraph graph, Configuration configuration, ClassLoader classLoader) throws IOException {
        Map<String, String> config = PlanningOptions.of(graph, configuration);
        config.put("penstock.capture.flink-version", FlinkVersions.running());
        config.put("penstock.capture.command", commandName());
        config.put("penstock.capture.job-number", String.valueOf(count));
        byte[] rest =
                Json.bytes(
                        json -> {
                            json.writeStartObject();
                            int parallelism = graph.getExecutionConfig().getParallelism();
                            if (parallelism > 0) {
                                json.writeNumberField("parallelism", parallelism);
                            }
                            int maxParallelism = graph.getExecutionConfig().getMaxParallelism();
                            if (maxParallelism > 0) {
                                json.writeNumberField("max_parallelism", maxParallelism);
                            }
                            json.writeObjectFieldStart("config");
                            for (Map.Entry<String, String> option : config.entrySet()) {
                                json.writeStringField(option.getKey(), option.getValue());
                            }
                            json.writeEndObject();
                            json.writeFieldName("stream_graph");
                            CapturedGraphJson.write(json, graph, classLoader);
                            json.writeEndObject();
                        });
        String name = graph.getJobName() == null || graph.getJobName().isEmpty() ? null : graph.getJobName();
        return file.append(name, commandName(), count, new String(rest, StandardCharsets.UTF_8));
    }

    private void rememberDataSets(StreamGraph graph) {
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                if (edge.getIntermediateDatasetIdToProduce() != null) {
                    cachedDataSets.add(new AbstractID(edge.getIntermediateDatasetIdToProduce()));
                }
            }
        }
    }

    /** Returns the requested name, else the main class; never arguments, which may contain secrets. */
    private String commandName() {
        if (settings.name != null && !settings.name.isEmpty()) {
            return settings.name;
        }
        String main = System.getProperty("sun.java.command", "job").split(" ", 2)[0];
        Path fileName = main.endsWith(".jar") ? Path.of(main).getFileName() : null;
        return fileName == null ? main : fileName.toString();
    }
}
