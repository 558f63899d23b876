package penstock.flink;

import java.io.IOException;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;

/** Writes the `stream_graph` of plan JSON. */
final class StreamGraphJson {
    private StreamGraphJson() {}

    static byte[] of(StreamGraph graph) throws IOException {
        return Json.bytes(
                json -> {
                    json.writeStartObject();
                    json.writeArrayFieldStart("nodes");
                    for (StreamNode node : graph.getStreamNodes()) {
                        writeStreamNode(json, node);
                    }
                    json.writeEndArray();
                    json.writeArrayFieldStart("edges");
                    for (StreamNode node : graph.getStreamNodes()) {
                        for (StreamEdge edge : node.getOutEdges()) {
                            writeStreamEdge(json, edge, StreamingJobGraphGenerator.isChainable(edge, graph));
                        }
                    }
                    json.writeEndArray();
                    json.writeEndObject();
                });
    }

    private static void writeStreamNode(JsonGenerator json, StreamNode node) throws IOException {
        json.writeStartObject();
        writeNodeKeys(json, node);
        json.writeEndObject();
    }

    /** Writes the keys of a node that plan JSON and topology files share. */
    static void writeNodeKeys(JsonGenerator json, StreamNode node) throws IOException {
        json.writeNumberField("id", node.getId());
        json.writeStringField("name", node.getOperatorName());
        json.writeNumberField("parallelism", node.getParallelism());
        json.writeNumberField("max_parallelism", FlinkVersions.maxParallelism(node));
        json.writeStringField("slot_sharing_group", node.getSlotSharingGroup());
        json.writeStringField("co_location_group", node.getCoLocationGroup());
        json.writeStringField("uid", node.getTransformationUID());
        json.writeStringField("uid_hash", node.getUserHash());
        json.writeNumberField("buffer_timeout", node.getBufferTimeout());
        json.writeStringField(
                "chaining",
                node.getOperatorFactory() == null ? null : node.getOperatorFactory().getChainingStrategy().name());
    }

    private static void writeStreamEdge(JsonGenerator json, StreamEdge edge, boolean chainable) throws IOException {
        json.writeStartObject();
        writeEdgeKeys(json, edge, chainable);
        json.writeEndObject();
    }

    /** Writes the keys of an edge that plan JSON and topology files share. */
    static void writeEdgeKeys(JsonGenerator json, StreamEdge edge, boolean chainable) throws IOException {
        json.writeNumberField("source", edge.getSourceId());
        json.writeNumberField("target", edge.getTargetId());
        json.writeNumberField("type_number", edge.getTypeNumber());
        json.writeStringField("partitioner", edge.getPartitioner().toString());
        json.writeStringField("exchange_mode", edge.getExchangeMode().name());
        json.writeStringField("output_tag", edge.getOutputTag() == null ? null : edge.getOutputTag().getId());
        json.writeStringField("edge_id", FlinkVersions.edgeId(edge));
        json.writeBooleanField("chainable", chainable);
    }
}
