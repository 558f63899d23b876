package penstock.flink;

import java.io.IOException;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.jobgraph.IntermediateDataSet;
import org.apache.flink.runtime.jobgraph.JobEdge;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.streaming.api.graph.StreamConfig;

/** Writes the `job_graph` of plan JSON. */
final class JobGraphJson {
    private static final String MANAGED_MEMORY_FRACTION = "managedMemFraction.";

    private JobGraphJson() {}

    static byte[] of(JobGraph graph) throws IOException {
        return Json.bytes(
                json -> {
                    // Groups have no number in Flink; they are numbered in order of appearance.
                    Map<Object, Integer> slotSharingGroups = new IdentityHashMap<>();
                    Map<Object, Integer> coLocationGroups = new IdentityHashMap<>();
                    json.writeStartObject();
                    json.writeArrayFieldStart("vertices");
                    for (JobVertex vertex : graph.getVertices()) {
                        json.writeStartObject();
                        writeJobVertex(json, vertex);
                        writeGroup(json, "slot_sharing_group", vertex.getSlotSharingGroup(), slotSharingGroups);
                        writeGroup(json, "co_location_group", vertex.getCoLocationGroup(), coLocationGroups);
                        json.writeEndObject();
                    }
                    json.writeEndArray();
                    json.writeArrayFieldStart("topological_order");
                    for (JobVertex vertex : graph.getVerticesSortedTopologicallyFromSources()) {
                        json.writeString(vertex.getID().toHexString());
                    }
                    json.writeEndArray();
                    json.writeEndObject();
                });
    }

    private static void writeGroup(JsonGenerator json, String key, Object group, Map<Object, Integer> numbers)
            throws IOException {
        if (group != null) {
            json.writeNumberField(key, numbers.computeIfAbsent(group, unseen -> numbers.size()));
        }
    }

    private static void writeJobVertex(JsonGenerator json, JobVertex vertex) throws IOException {
        String invokable = vertex.getInvokableClassName();
        json.writeStringField("id", vertex.getID().toHexString());
        json.writeStringField("name", vertex.getName());
        json.writeNumberField("parallelism", vertex.getParallelism());
        json.writeNumberField("max_parallelism", vertex.getMaxParallelism());
        json.writeStringField("invokable", invokable.substring(invokable.lastIndexOf('.') + 1));
        json.writeArrayFieldStart("operator_ids");
        for (OperatorIDPair ids : vertex.getOperatorIDs()) {
            json.writeStartArray();
            json.writeString(ids.getGeneratedOperatorID().toHexString());
            if (ids.getUserDefinedOperatorID().isPresent()) {
                json.writeString(ids.getUserDefinedOperatorID().get().toHexString());
            }
            json.writeEndArray();
        }
        json.writeEndArray();
        json.writeArrayFieldStart("operators");
        StreamConfig head = new StreamConfig(vertex.getConfiguration());
        writeOperator(json, head);
        ClassLoader classLoader = JobGraphJson.class.getClassLoader();
        for (StreamConfig chained : new TreeMap<>(head.getTransitiveChainedTaskConfigs(classLoader)).values()) {
            writeOperator(json, chained);
        }
        json.writeEndArray();
        json.writeArrayFieldStart("outputs");
        for (IntermediateDataSet dataSet : vertex.getProducedDataSets()) {
            writeDataSet(json, dataSet);
        }
        json.writeEndArray();
        json.writeArrayFieldStart("inputs");
        for (JobEdge edge : vertex.getInputs()) {
            writeJobEdge(json, edge);
        }
        json.writeEndArray();
    }

    private static void writeOperator(JsonGenerator json, StreamConfig operator) throws IOException {
        json.writeStartObject();
        json.writeNumberField("node", operator.getVertexID());
        json.writeStringField("operator_id", operator.getOperatorID().toHexString());
        json.writeStringField("name", operator.getOperatorName());
        json.writeNumberField("chain_index", operator.getChainIndex());
        json.writeObjectFieldStart("managed_memory_fraction");
        // StreamConfig returns one use case at a time and needs the cluster's weights for it.
        // Not toMap, which converts all values to text, serialized functions included.
        Configuration configuration = operator.getConfiguration();
        for (String key : new TreeSet<>(configuration.keySet())) {
            if (key.startsWith(MANAGED_MEMORY_FRACTION)) {
                String useCase = key.substring(MANAGED_MEMORY_FRACTION.length());
                double fraction = configuration.get(ConfigOptions.key(key).doubleType().noDefaultValue());
                json.writeNumberField(useCase, fraction);
            }
        }
        json.writeEndObject();
        json.writeEndObject();
    }

    private static void writeDataSet(JsonGenerator json, IntermediateDataSet dataSet) throws IOException {
        json.writeStartObject();
        json.writeStringField("id", dataSet.getId().toHexString());
        json.writeStringField("type", dataSet.getResultType().name());
        json.writeStringField("distribution", dataSet.getDistributionPattern().name());
        json.writeBooleanField("broadcast", dataSet.isBroadcast());
        json.writeNumberField("consumers", dataSet.getConsumers().size());
        json.writeEndObject();
    }

    private static void writeJobEdge(JsonGenerator json, JobEdge edge) throws IOException {
        json.writeStartObject();
        json.writeStringField("source", edge.getSource().getProducer().getID().toHexString());
        json.writeStringField("data_set", edge.getSourceId().toHexString());
        json.writeStringField("distribution", edge.getDistributionPattern().name());
        json.writeStringField("ship_strategy", edge.getShipStrategyName());
        json.writeNumberField("type_number", FlinkVersions.typeNumber(edge));
        json.writeBooleanField("forward", edge.isForward());
        json.writeBooleanField("broadcast", edge.isBroadcast());
        json.writeEndObject();
    }
}
