package penstock.flink;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.executiongraph.ExecutionJobVertex;
import org.apache.flink.runtime.executiongraph.ExecutionVertex;
import org.apache.flink.runtime.executiongraph.IndexRange;
import org.apache.flink.runtime.executiongraph.IntermediateResult;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.runtime.scheduler.ExecutionSlotSharingGroup;
import org.apache.flink.runtime.scheduler.strategy.ConsumedPartitionGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;

/** Writes the `execution_graph` and `slots` of plan JSON. */
final class SchedulingJson {
    private SchedulingJson() {}

    static byte[] executionGraph(DefaultExecutionGraph graph) throws IOException {
        return Json.bytes(
                json -> {
                    json.writeStartObject();
                    json.writeArrayFieldStart("vertices");
                    for (ExecutionJobVertex vertex : graph.getVerticesTopologically()) {
                        json.writeStartObject();
                        json.writeStringField("id", vertex.getJobVertexId().toHexString());
                        json.writeNumberField("parallelism", vertex.getParallelism());
                        json.writeNumberField("max_parallelism", vertex.getMaxParallelism());
                        json.writeArrayFieldStart("inputs");
                        for (int input = 0; input < vertex.getInputs().size(); input++) {
                            writeExecutionEdges(json, vertex, input);
                        }
                        json.writeEndArray();
                        json.writeEndObject();
                    }
                    json.writeEndArray();
                    json.writeEndObject();
                });
    }

    private static void writeExecutionEdges(JsonGenerator json, ExecutionJobVertex vertex, int input)
            throws IOException {
        IntermediateResult result = vertex.getInputs().get(input);
        json.writeStartObject();
        json.writeStringField("data_set", result.getId().toHexString());
        json.writeArrayFieldStart("partitions_by_subtask");
        for (ExecutionVertex subtask : vertex.getTaskVertices()) {
            writePartitions(json, subtask.getConsumedPartitionGroup(input));
        }
        json.writeEndArray();
        json.writeArrayFieldStart("subpartitions_by_subtask");
        for (ExecutionVertex subtask : vertex.getTaskVertices()) {
            json.writeStartArray();
            for (IndexRange range :
                    subtask.getExecutionVertexInputInfo(result.getId()).getConsumedSubpartitionGroups().values()) {
                writeRange(json, range.getStartIndex(), range.getEndIndex());
            }
            json.writeEndArray();
        }
        json.writeEndArray();
        json.writeEndObject();
    }

    /** Writes the partitions of a group as ranges of consecutive partitions. */
    private static void writePartitions(JsonGenerator json, ConsumedPartitionGroup group) throws IOException {
        int first = group.getFirst().getPartitionNumber();
        int last = first - 1;
        json.writeStartArray();
        for (IntermediateResultPartitionID partition : group) {
            int number = partition.getPartitionNumber();
            if (number != last + 1) {
                writeRange(json, first, last);
                first = number;
            }
            last = number;
        }
        writeRange(json, first, last);
        json.writeEndArray();
    }

    private static void writeRange(JsonGenerator json, int first, int last) throws IOException {
        json.writeStartArray();
        json.writeNumber(first);
        json.writeNumber(last);
        json.writeEndArray();
    }

    static byte[] slots(List<ExecutionSlotSharingGroup> groups) throws IOException {
        List<String> slots = new ArrayList<>();
        for (ExecutionSlotSharingGroup group : groups) {
            List<String> tasks = new ArrayList<>();
            group.getExecutionVertexIds()
                    .forEach(task -> tasks.add(task.getJobVertexId().toHexString() + "_" + task.getSubtaskIndex()));
            Collections.sort(tasks);
            slots.add(String.join(" ", tasks));
        }
        Collections.sort(slots);
        return Json.bytes(
                json -> {
                    json.writeStartArray();
                    for (String slot : slots) {
                        json.writeString(slot);
                    }
                    json.writeEndArray();
                });
    }
}
