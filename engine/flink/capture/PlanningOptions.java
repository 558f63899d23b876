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

/** The options of a job that planning reads; no others leave the JVM, because any may contain a secret. */
final class PlanningOptions {
    private static final String KEYS = "META-INF/penstock/configuration_keys.txt";

    private PlanningOptions() {}

    /** Returns options by key, in order; the job's win over those of its environment and the cluster. */
    static Map<String, String> of(StreamGraph graph, Configuration configuration) throws IOException {
        Map<String, String> all = new TreeMap<>(configuration.toMap());
        all.putAll(graph.getJobConfiguration().toMap());
        all.putAll(graph.getCheckpointConfig().toConfiguration().toMap());
        all.keySet().retainAll(keys());
        return all;
    }

    /** Reads from the agent's jar, which is on the system's class path, for any loader of this class. */
    private static Set<String> keys() throws IOException {
        try (BufferedReader lines =
                new BufferedReader(
                        new InputStreamReader(
                                ClassLoader.getSystemResourceAsStream(KEYS), StandardCharsets.UTF_8))) {
            return lines.lines().collect(Collectors.toSet());
        }
    }
}
