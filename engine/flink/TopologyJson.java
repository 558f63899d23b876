package penstock.flink;

import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Parses topology lines, and checks them for features that Flink has no API for. */
final class TopologyJson {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private static final Set<String> TOPOLOGY_KEYS =
            Set.of("name", "transformations", "parallelism", "max_parallelism", "chaining", "config");

    private static final Set<String> COMMON_KEYS = Set.of("id", "kind", "inputs", "name");
    private static final Set<String> PHYSICAL_KEYS =
            Set.of(
                    "parallelism",
                    "max_parallelism",
                    "uid",
                    "uid_hash",
                    "slot_sharing_group",
                    "co_location_group",
                    "buffer_timeout",
                    "chaining",
                    "managed_memory",
                    "slot_scope",
                    "min_resources",
                    "preferred_resources");
    private static final Set<String> SINK_KEYS =
            Set.of("writer", "committer", "global_committer", "pre_write", "pre_commit", "post_commit");
    private static final Map<String, Set<String>> VIRTUAL_KEYS =
            Map.of(
                    "union", Set.of(),
                    "partition", Set.of("partitioner", "exchange_mode"),
                    "side_output", Set.of("tag"));

    private static final Set<String> PHYSICAL_KINDS =
            Set.of("source", "legacy_source", "one_input", "async", "two_input", "multi_input", "sink");
    private static final Set<String> ANY_NUMBER_OF_INPUTS = Set.of("multi_input", "union");

    /** The kinds whose number of inputs is not exactly one. */
    private static final Map<String, Integer> NUMBERS_OF_INPUTS =
            Map.of("source", 0, "legacy_source", 0, "two_input", 2);

    private TopologyJson() {}

    static JsonNode read(String line) throws UnplannableTopologyException {
        try {
            return MAPPER.readTree(line);
        } catch (JsonProcessingException e) {
            throw input("not JSON: " + e.getOriginalMessage());
        }
    }

    /** Returns the topology, if all keys and kinds can be translated, and all inputs exist. */
    static JsonNode check(JsonNode topology) throws UnplannableTopologyException {
        if (!topology.isObject()) {
            throw input("not a JSON object");
        }
        if (topology.has("stream_graph")) {
            throw unsupported("stream_graph: Flink plans what a program says, not a StreamGraph that is given");
        }
        requireKeys("topology", topology, TOPOLOGY_KEYS, Set.of());
        if (!topology.path("transformations").isArray()) {
            throw input("transformations: a list is required");
        }
        int id = 0;
        for (JsonNode transformation : topology.get("transformations")) {
            checkTransformation(transformation, ++id);
        }
        return topology;
    }

    private static void checkTransformation(JsonNode transformation, int id) throws UnplannableTopologyException {
        String where = "transformation " + id;
        String kind = transformation.path("kind").asText();
        if (kind.equals("select")) {
            throw unsupported(where + ": Flink has had no select since 1.12");
        }
        boolean physical = PHYSICAL_KINDS.contains(kind);
        if (!physical && !VIRTUAL_KEYS.containsKey(kind)) {
            throw input(where + ": unknown kind '" + kind + "'");
        }
        if (transformation.path("id").asInt() != id) {
            throw input(where + ": has id " + transformation.path("id") + ", ids are 1..n in creation order");
        }
        Set<String> common = new HashSet<>(COMMON_KEYS);
        if (kind.equals("sink")) {
            common.addAll(SINK_KEYS);
        }
        requireKeys(where, transformation, common, physical ? PHYSICAL_KEYS : VIRTUAL_KEYS.get(kind));
        JsonNode inputs = transformation.path("inputs");
        for (JsonNode input : inputs) {
            if (!input.isInt() || input.asInt() < 1 || input.asInt() >= id) {
                throw input(where + ": input " + input + " is no earlier transformation");
            }
        }
        boolean fits =
                ANY_NUMBER_OF_INPUTS.contains(kind)
                        ? inputs.size() > 0
                        : inputs.size() == NUMBERS_OF_INPUTS.getOrDefault(kind, 1);
        if (!fits) {
            throw input(where + ": " + inputs.size() + " inputs on kind " + kind);
        }
    }

    private static void requireKeys(String where, JsonNode node, Set<String> common, Set<String> others)
            throws UnplannableTopologyException {
        for (Iterator<String> keys = node.fieldNames(); keys.hasNext(); ) {
            String key = keys.next();
            if (!common.contains(key) && !others.contains(key)) {
                throw unsupported(where + ": key " + key);
            }
        }
    }

    private static UnplannableTopologyException input(String message) {
        return new UnplannableTopologyException(UnplannableTopologyException.INPUT, message);
    }

    private static UnplannableTopologyException unsupported(String message) {
        return new UnplannableTopologyException(UnplannableTopologyException.UNSUPPORTED, message);
    }
}
