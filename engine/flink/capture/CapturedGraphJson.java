package penstock.flink;

import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.flink.api.common.operators.ResourceSpec;
import org.apache.flink.runtime.clusterframework.types.ResourceProfile;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.SourceOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;

/** Writes the `stream_graph` of topology files (docs/topology-files.md), with everything that planning needs. */
final class CapturedGraphJson {
    private CapturedGraphJson() {}

    static void write(JsonGenerator json, StreamGraph graph, ClassLoader classLoader) throws IOException {
        json.writeStartObject();
        writeIds(json, "sources", graph.getSourceIDs());
        writeIds(json, "sinks", graph.getSinkIDs());
        json.writeStringField("job_type", graph.getJobType().name());
        json.writeBooleanField("dynamic", graph.isDynamic());
        json.writeStringField("global_exchange_mode", graph.getGlobalStreamExchangeMode().name());
        json.writeBooleanField("chaining_enabled", graph.isChainingEnabled());
        json.writeBooleanField(
                "chain_different_max_parallelism", graph.isChainingOfOperatorsWithDifferentMaxParallelismEnabled());
        json.writeBooleanField(
                "all_vertices_in_same_slot_sharing_group", graph.isAllVerticesInSameSlotSharingGroupByDefault());
        json.writeStringField("vertex_description_mode", graph.getVertexDescriptionMode().name());
        json.writeBooleanField("vertex_name_include_index_prefix", graph.isVertexNameIncludeIndexPrefix());
        json.writeBooleanField("checkpointing", graph.getCheckpointConfig().isCheckpointingEnabled());
        json.writeBooleanField("partitioners_compared", true);
        writeGroupResources(json, graph);
        json.writeArrayFieldStart("nodes");
        for (StreamNode node : graph.getStreamNodes()) {
            writeNode(json, graph, node, classLoader);
        }
        json.writeEndArray();
        json.writeArrayFieldStart("edges");
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                writeEdge(json, graph, node, edge);
            }
        }
        json.writeEndArray();
        json.writeEndObject();
    }

    private static void writeIds(JsonGenerator json, String key, Iterable<Integer> ids) throws IOException {
        json.writeArrayFieldStart(key);
        for (int id : ids) {
            json.writeNumber(id);
        }
        json.writeEndArray();
    }

    private static void writeGroupResources(JsonGenerator json, StreamGraph graph) throws IOException {
        Set<String> groups = new LinkedHashSet<>();
        for (StreamNode node : graph.getStreamNodes()) {
            groups.add(node.getSlotSharingGroup());
        }
        boolean written = false;
        for (String group : groups) {
            ResourceProfile profile =
                    group == null ? null : graph.getSlotSharingGroupResource(group).orElse(null);
            if (profile == null || profile.equals(ResourceProfile.UNKNOWN) || profile.equals(ResourceProfile.ANY)) {
                continue;
            }
            if (!written) {
                json.writeObjectFieldStart("slot_sharing_group_resources");
                written = true;
            }
            json.writeObjectFieldStart(group);
            json.writeNumberField("cpu_cores", profile.getCpuCores().getValue());
            json.writeNumberField("task_heap_memory_bytes", profile.getTaskHeapMemory().getBytes());
            json.writeNumberField("task_off_heap_memory_bytes", profile.getTaskOffHeapMemory().getBytes());
            json.writeNumberField("managed_memory_bytes", profile.getManagedMemory().getBytes());
            if (!profile.getExtendedResources().isEmpty()) {
                json.writeObjectFieldStart("external_resources");
                for (Map.Entry<String, ?> resource : new TreeMap<>(profile.getExtendedResources()).entrySet()) {
                    json.writeNumberField(
                            resource.getKey(), profile.getExtendedResources().get(resource.getKey()).getValue());
                }
                json.writeEndObject();
            }
            json.writeEndObject();
        }
        if (written) {
            json.writeEndObject();
        }
    }

    private static void writeNode(JsonGenerator json, StreamGraph graph, StreamNode node, ClassLoader classLoader)
            throws IOException {
        StreamOperatorFactory<?> factory = node.getOperatorFactory();
        json.writeStartObject();
        StreamGraphJson.writeNodeKeys(json, node);
        json.writeBooleanField("parallelism_configured", FlinkVersions.parallelismConfigured(node));
        json.writeBooleanField("source", factory instanceof SourceOperatorFactory);
        json.writeBooleanField("legacy_source", factory != null && factory.isStreamSource() && !(factory instanceof SourceOperatorFactory));
        json.writeBooleanField("yielding", FlinkVersions.isYielding(factory));
        json.writeBooleanField("coordinated", factory instanceof CoordinatedOperatorFactory);
        json.writeStringField("invokable", simpleName(node.getJobVertexClass()));
        json.writeStringField("operator_factory", factory == null ? null : simpleName(factory.getClass()));
        json.writeBooleanField("input_format", node.getInputFormat() != null);
        json.writeBooleanField("output_format", node.getOutputFormat() != null);
        json.writeBooleanField("no_output_until_end_of_input", FlinkVersions.noOutputUntilEndOfInput(node));
        json.writeBooleanField("output_only_after_end_of_stream", node.isOutputOnlyAfterEndOfStream());
        json.writeBooleanField(
                "supports_concurrent_execution_attempts", node.isSupportsConcurrentExecutionAttempts());
        json.writeObjectFieldStart("managed_memory");
        for (Map.Entry<?, Integer> weight :
                new TreeMap<>(node.getManagedMemoryOperatorScopeUseCaseWeights()).entrySet()) {
            json.writeNumberField(weight.getKey().toString(), weight.getValue());
        }
        json.writeEndObject();
        json.writeArrayFieldStart("slot_scope");
        for (Object useCase : new TreeSet<>(node.getManagedMemorySlotScopeUseCases())) {
            json.writeString(useCase.toString());
        }
        json.writeEndArray();
        json.writeObjectFieldStart("input_requirements");
        for (Map.Entry<Integer, ?> requirement : new TreeMap<>(node.getInputRequirements()).entrySet()) {
            json.writeStringField(requirement.getKey().toString(), requirement.getValue().toString());
        }
        json.writeEndObject();
        writeEdgeIds(json, "in_edges", node.getInEdges());
        writeEdgeIds(json, "out_edges", node.getOutEdges());
        writeResources(json, "min_resources", node.getMinResources());
        writeResources(json, "preferred_resources", node.getPreferredResources());
        if (!node.getOperatorDescription().equals(node.getOperatorName())) {
            json.writeStringField("description", node.getOperatorDescription());
        }
        json.writeBooleanField("keyed", node.getStateKeySerializer() != null);
        writeGiven(json, "operator_class", OperatorClasses.operatorClass(factory, classLoader));
        writeGiven(json, "function_class", OperatorClasses.functionClass(factory));
        writeGiven(json, "output_type", OutputTypes.of(graph, node.getId()));
        if (node.getConsumeClusterDatasetId() != null) {
            json.writeStringField("consumes_data_set", node.getConsumeClusterDatasetId().toHexString());
        }
        json.writeEndObject();
    }

    private static void writeEdgeIds(JsonGenerator json, String key, Iterable<StreamEdge> edges) throws IOException {
        json.writeArrayFieldStart(key);
        for (StreamEdge edge : edges) {
            json.writeString(FlinkVersions.edgeId(edge));
        }
        json.writeEndArray();
    }

    private static void writeResources(JsonGenerator json, String key, ResourceSpec resources) throws IOException {
        if (resources.equals(ResourceSpec.UNKNOWN) || resources.getCpuCores().getValue().signum() == 0) {
            return;
        }
        json.writeObjectFieldStart(key);
        json.writeNumberField("cpu_cores", resources.getCpuCores().getValue());
        json.writeNumberField("task_heap_memory_bytes", resources.getTaskHeapMemory().getBytes());
        json.writeNumberField("task_off_heap_memory_bytes", resources.getTaskOffHeapMemory().getBytes());
        json.writeNumberField("managed_memory_bytes", resources.getManagedMemory().getBytes());
        json.writeEndObject();
    }

    private static void writeEdge(JsonGenerator json, StreamGraph graph, StreamNode source, StreamEdge edge)
            throws IOException {
        StreamPartitioner<?> partitioner = edge.getPartitioner();
        json.writeStartObject();
        StreamGraphJson.writeEdgeKeys(json, edge, StreamingJobGraphGenerator.isChainable(edge, graph));
        json.writeStringField("partitioner_class", partitionerClass(partitioner));
        json.writeBooleanField("pointwise", partitioner.isPointwise());
        json.writeBooleanField("broadcast", partitioner.isBroadcast());
        json.writeNumberField("buffer_timeout", edge.getBufferTimeout());
        json.writeBooleanField("unaligned_checkpoints", edge.supportsUnalignedCheckpoints());
        json.writeBooleanField("inter_inputs_keys_correlated", FlinkVersions.interInputsKeysCorrelated(edge));
        json.writeBooleanField("intra_input_key_correlated", FlinkVersions.intraInputKeyCorrelated(edge));
        if (edge.getIntermediateDatasetIdToProduce() != null) {
            json.writeStringField("persistent_data_set", edge.getIntermediateDatasetIdToProduce().toHexString());
        }
        StreamEdge equal = EqualPartitioners.first(source.getOutEdges(), edge);
        if (equal != edge) {
            json.writeStringField("equal_partitioner", FlinkVersions.edgeId(equal));
        }
        json.writeEndObject();
    }

    /** Returns the class that planning uses: Flink's own partitioner for a class that extends it. */
    private static String partitionerClass(StreamPartitioner<?> partitioner) {
        String ofFlink = StreamPartitioner.class.getPackage().getName();
        for (Class<?> type = partitioner.getClass(); type != StreamPartitioner.class; type = type.getSuperclass()) {
            if (type.getPackage() != null && type.getPackage().getName().equals(ofFlink)) {
                return simpleName(type);
            }
        }
        return simpleName(partitioner.getClass());
    }

    private static void writeGiven(JsonGenerator json, String key, String value) throws IOException {
        if (value != null && !value.isEmpty()) {
            json.writeStringField(key, value);
        }
    }

    /** Returns a name like Class.getSimpleName, which is empty for a class without a name. */
    private static String simpleName(Class<?> type) {
        String name = OperatorClasses.stableName(type);
        return type.getSimpleName().isEmpty() ? name.substring(name.lastIndexOf('.') + 1) : type.getSimpleName();
    }
}
