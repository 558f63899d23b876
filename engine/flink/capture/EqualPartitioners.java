package penstock.flink;

import java.util.List;

import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;

/** Finds edges of a node that Flink considers equally partitioned; such edges share blocking data sets. */
final class EqualPartitioners {
    private static final String FORWARD_FOR_HASH = "ForwardForConsecutiveHashPartitioner";

    private EqualPartitioners() {}

    /** Returns the first of `edges` with a partitioner equal to `edge`'s; `edge` is among them. */
    static StreamEdge first(List<StreamEdge> edges, StreamEdge edge) {
        Object partitioner = compared(edge.getPartitioner());
        for (StreamEdge other : edges) {
            if (other == edge || compared(other.getPartitioner()).equals(partitioner)) {
                return other;
            }
        }
        return edge;
    }

    /** In a dynamic graph Flink replaces a forward partitioner between equal hashes before it shares data sets. */
    private static Object compared(StreamPartitioner<?> partitioner) {
        return partitioner.getClass().getSimpleName().equals(FORWARD_FOR_HASH)
                ? FlinkVersions.field(partitioner, partitioner.getClass(), "hashPartitioner")
                : partitioner;
    }
}
