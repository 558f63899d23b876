package penstock.flink;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.regex.Pattern;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** The type information of operators' outputs, of which a StreamGraph stores only serializers. */
public final class OutputTypes {
    private static final Pattern IDENTITY = Pattern.compile("@[0-9a-f]{1,16}\\b");
    private static final Pattern LAMBDA = Pattern.compile("\\$\\$Lambda(/0x[0-9a-f]+|\\$[0-9]+/(0x)?[0-9a-f]+)");

    private static final Map<StreamGraph, Map<Integer, TypeInformation<?>>> TYPES =
            Collections.synchronizedMap(new WeakHashMap<>());

    private OutputTypes() {}

    /** The changed StreamGraph calls this for each operator; it never fails. */
    public static void remember(StreamGraph graph, Integer node, TypeInformation<?> type) {
        try {
            if (type != null) {
                TYPES.computeIfAbsent(graph, key -> new HashMap<>()).put(node, type);
            }
        } catch (Throwable e) {
            // Then it is not written.
        }
    }

    /** Returns the type as Flink prints it, without addresses of objects; null if it is unknown. */
    static String of(StreamGraph graph, int node) {
        try {
            String text = TYPES.getOrDefault(graph, Map.of()).get(node).toString();
            return IDENTITY.matcher(LAMBDA.matcher(text).replaceAll("\\$\\$Lambda")).replaceAll("");
        } catch (Exception | LinkageError | StackOverflowError e) {
            return null;
        }
    }
}
