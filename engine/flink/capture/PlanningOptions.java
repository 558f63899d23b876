package penstock.flink;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** The options of a job that planning reads; no other leaves the JVM, for any may hold a secret. */
final class PlanningOptions {
    private static final String KEYS = "META-INF/penstock/configuration_keys.txt";

    private PlanningOptions() {}

    /** By key, in order: what the job sets, before what its environment and the cluster set. */
    static Map<String, String> of(StreamGraph graph, Configuration configuration) throws IOException {
        Map<String, String> all = new TreeMap<>(configuration.toMap());
        all.putAll(graph.getJobConfiguration().toMap());
        all.putAll(graph.getCheckpointConfig().toConfiguration().toMap());
        all.keySet().retainAll(keys());
        return all;
    }

    /** From the agent's jar, which is on the class path of the system, whichever loader has this class. */
    private static Set<String> keys() throws IOException {
        try (BufferedReader lines =
                new BufferedReader(
                        new InputStreamReader(
                                ClassLoader.getSystemResourceAsStream(KEYS), StandardCharsets.UTF_8))) {
            return lines.lines().collect(Collectors.toSet());
        }
    }
}
