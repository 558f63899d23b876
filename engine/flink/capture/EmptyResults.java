package penstock.flink;

import java.io.IOException;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

import org.apache.flink.api.common.accumulators.SerializedListAccumulator;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.operators.UdfStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.collect.CollectSinkFunction;
import org.apache.flink.util.OptionalFailure;

/** Results that iterators read after a job has finished without any. */
final class EmptyResults {
    private EmptyResults() {}

    /** Returns an empty list for each accumulator of a collecting sink; a missing one would mean a failed job. */
    static Map<String, OptionalFailure<Object>> of(StreamGraph graph) throws IOException {
        Map<String, OptionalFailure<Object>> results = new HashMap<>();
        for (StreamNode node : graph.getStreamNodes()) {
            Object function =
                    node.getOperatorFactory() instanceof UdfStreamOperatorFactory
                            ? ((UdfStreamOperatorFactory<?>) node.getOperatorFactory()).getUserFunction()
                            : null;
            if (function instanceof CollectSinkFunction) {
                Object name = FlinkVersions.field(function, CollectSinkFunction.class, "accumulatorName");
                results.put((String) name, OptionalFailure.of(emptyList()));
            }
        }
        return results;
    }

    private static Object emptyList() throws IOException {
        SerializedListAccumulator<byte[]> list = new SerializedListAccumulator<>();
        list.add(
                CollectSinkFunction.serializeAccumulatorResult(0, "", 0, Collections.emptyList()),
                BytePrimitiveArraySerializer.INSTANCE);
        return list.getLocalValue();
    }
}
