package penstock.flink.measured;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.OutputTag;

/**
 * A job of busy operators. In: JSON with object_reuse, operators (id, parallelism, nanoseconds, selectivity, bytes,
 * group, new_chain) in topological order, each with its inputs (source, partitioner, tag).
 */
final class JobOfOperators {
    private static final TypeInformation<Tuple2<Long, byte[]>> RECORD =
            Types.TUPLE(Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE));

    private final StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment();
    private final Map<Integer, SingleOutputStreamOperator<Tuple2<Long, byte[]>>> made = new HashMap<>();
    private final Map<Integer, Map<String, OutputTag<Tuple2<Long, byte[]>>>> outputs = new HashMap<>();

    private JobOfOperators() {}

    static JobGraph jobGraph(JsonNode job) {
        JobOfOperators all = new JobOfOperators();
        if (job.get("object_reuse").asBoolean()) {
            all.environment.getConfig().enableObjectReuse();
        }
        for (JsonNode operator : job.get("operators")) {
            for (JsonNode input : operator.get("inputs")) {
                String tag = input.get("tag").asText();
                all.outputs.computeIfAbsent(input.get("source").asInt(), source -> new LinkedHashMap<>())
                        .put(tag, tag.isEmpty() ? null : new OutputTag<>(tag, RECORD));
            }
        }
        job.get("operators").forEach(all::add);
        return all.environment.getStreamGraph().getJobGraph();
    }

    private void add(JsonNode operator) {
        int id = operator.get("id").asInt();
        double nanoseconds = operator.get("nanoseconds").asDouble();
        int bytes = operator.get("bytes").asInt();
        int parallelism = operator.get("parallelism").asInt();
        String name = "operator " + id;
        String group = operator.get("group").asText();
        if (operator.get("inputs").isEmpty()) {
            DataGeneratorSource<Tuple2<Long, byte[]>> source =
                    new DataGeneratorSource<>(new Work.Generate(id, nanoseconds, bytes), Long.MAX_VALUE, RECORD);
            SingleOutputStreamOperator<Tuple2<Long, byte[]>> stream =
                    environment.fromSource(source, WatermarkStrategy.noWatermarks(), name);
            made.put(id, stream.setParallelism(parallelism).slotSharingGroup(group));
            return;
        }
        DataStream<Tuple2<Long, byte[]>> input = input(operator.get("inputs"));
        if (!outputs.containsKey(id)) {
            DataStreamSink<Tuple2<Long, byte[]>> sink = input.addSink(new Work.Drop(nanoseconds)).name(name);
            sink.setParallelism(parallelism).slotSharingGroup(group);
            if (operator.get("new_chain").asBoolean()) {
                sink.disableChaining();
            }
            return;
        }
        @SuppressWarnings("unchecked")
        OutputTag<Tuple2<Long, byte[]>>[] tags = outputs.get(id).values().toArray(new OutputTag[0]);
        Work.Process process = new Work.Process(nanoseconds, bytes, operator.get("selectivity").asDouble(), tags);
        SingleOutputStreamOperator<Tuple2<Long, byte[]>> stream = input.process(process, RECORD).name(name);
        stream.setParallelism(parallelism).slotSharingGroup(group);
        made.put(id, operator.get("new_chain").asBoolean() ? stream.startNewChain() : stream);
    }

    private DataStream<Tuple2<Long, byte[]>> input(JsonNode inputs) {
        List<DataStream<Tuple2<Long, byte[]>>> streams = new ArrayList<>();
        for (JsonNode input : inputs) {
            int source = input.get("source").asInt();
            OutputTag<Tuple2<Long, byte[]>> tag = outputs.get(source).get(input.get("tag").asText());
            DataStream<Tuple2<Long, byte[]>> stream = made.get(source);
            stream = tag == null ? stream : made.get(source).getSideOutput(tag);
            streams.add(partitioned(stream, input.get("partitioner").asText()));
        }
        DataStream<Tuple2<Long, byte[]>> first = streams.remove(0);
        return streams.isEmpty() ? first : first.union(streams.toArray(DataStream[]::new));
    }

    private static DataStream<Tuple2<Long, byte[]>> partitioned(DataStream<Tuple2<Long, byte[]>> stream, String partitioner) {
        switch (partitioner) {
            case "FORWARD":
                return stream.forward();
            case "HASH":
                return stream.keyBy(record -> record.f0, Types.LONG);
            case "BROADCAST":
                return stream.broadcast();
            case "GLOBAL":
                return stream.global();
            case "RESCALE":
                return stream.rescale();
            case "SHUFFLE":
                return stream.shuffle();
            default:
                return stream.rebalance();
        }
    }
}
