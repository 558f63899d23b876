package penstock.flink;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.operators.ResourceSpec;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.CustomSinkOperatorUidHashes;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.CheckpointConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphGenerator;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.transformations.LegacySinkTransformation;
import org.apache.flink.streaming.api.transformations.LegacySourceTransformation;
import org.apache.flink.streaming.api.transformations.MultipleInputTransformation;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.api.transformations.PhysicalTransformation;
import org.apache.flink.streaming.api.transformations.SideOutputTransformation;
import org.apache.flink.streaming.api.transformations.SinkTransformation;
import org.apache.flink.streaming.api.transformations.SourceTransformation;
import org.apache.flink.streaming.api.transformations.StreamExchangeMode;
import org.apache.flink.streaming.api.transformations.TwoInputTransformation;
import org.apache.flink.streaming.api.transformations.UnionTransformation;
import org.apache.flink.streaming.runtime.partitioner.BroadcastPartitioner;
import org.apache.flink.streaming.runtime.partitioner.CustomPartitionerWrapper;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;
import org.apache.flink.streaming.runtime.partitioner.GlobalPartitioner;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.partitioner.RebalancePartitioner;
import org.apache.flink.streaming.runtime.partitioner.RescalePartitioner;
import org.apache.flink.streaming.runtime.partitioner.ShufflePartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;
import org.apache.flink.util.OutputTag;

/**
 * Makes the StreamGraph of one topology: creates Flink's transformations, which StreamGraphGenerator translates.
 *
 * <p>Every stream carries longs. Flink counts the ids of transformations in one static counter, so two
 * topologies cannot be translated at once.
 */
final class StreamGraphTranslation {
    private static final TypeInformation<Long> LONG = BasicTypeInfo.LONG_TYPE_INFO;

    private static final AtomicInteger ID_COUNTER = idCounter();

    private final JsonNode topology;
    private final Configuration configuration = new Configuration();
    private final ExecutionConfig executionConfig;

    /** The environment in which sinks of the Sink V2 API create their operators; created for the first sink. */
    private StreamExecutionEnvironment environment;

    /** By id - 1. */
    private final List<Transformation<Long>> transformations = new ArrayList<>();

    /** Transformations that the DataStream API registers: sources and virtual ones are reached through inputs. */
    private final List<Transformation<?>> registered = new ArrayList<>();

    StreamGraphTranslation(JsonNode topology) {
        this.topology = topology;
        topology.path("config")
                .properties()
                .forEach(e -> configuration.setString(e.getKey(), e.getValue().asText()));
        if (!topology.path("chaining").asBoolean(true)) {
            configuration.set(PipelineOptions.OPERATOR_CHAINING, false);
        }
        executionConfig = new ExecutionConfig(configuration);
        executionConfig.setParallelism(topology.path("parallelism").asInt(1));
        given(topology, "max_parallelism", value -> executionConfig.setMaxParallelism(value.asInt()));
    }

    StreamGraph translate() {
        ID_COUNTER.set(0);
        for (JsonNode node : topology.get("transformations")) {
            transformations.add(isVirtual(node) ? virtual(node) : physical(node));
        }
        StreamGraph graph =
                new StreamGraphGenerator(
                                registered, executionConfig, new CheckpointConfig(configuration), configuration)
                        .generate();
        graph.setJobName(topology.path("name").asText());
        return graph;
    }

    private static boolean isVirtual(JsonNode node) {
        return switch (node.get("kind").asText()) {
            case "union", "partition", "side_output" -> true;
            default -> false;
        };
    }

    private Transformation<Long> virtual(JsonNode node) {
        Transformation<Long> input = input(node, 0);
        return switch (node.get("kind").asText()) {
            case "union" -> new UnionTransformation<>(inputs(node));
            case "partition" -> partition(node, input);
            case "side_output" ->
                    new SideOutputTransformation<>(input, new OutputTag<>(node.path("tag").asText(), LONG));
            default -> throw new IllegalArgumentException(node.get("kind").asText());
        };
    }

    private Transformation<Long> physical(JsonNode node) {
        boolean configured = node.has("parallelism");
        int parallelism = configured ? node.get("parallelism").asInt() : executionConfig.getParallelism();
        String name = node.path("name").asText();
        if (node.has("writer")) {
            return sink(node, name, parallelism, configured);
        }
        PhysicalTransformation<Long> transformation = operator(node, name, parallelism, configured);
        configure(transformation, node);
        switch (node.get("kind").asText()) {
            case "source", "legacy_source" -> {}
            default -> registered.add(transformation);
        }
        return transformation;
    }

    private PhysicalTransformation<Long> operator(JsonNode node, String name, int parallelism, boolean configured) {
        switch (node.get("kind").asText()) {
            case "source":
                return new SourceTransformation<>(
                        name,
                        new NumberSequenceSource(0, 9),
                        WatermarkStrategy.noWatermarks(),
                        LONG,
                        parallelism,
                        configured);
            case "legacy_source":
                return new LegacySourceTransformation<>(
                        name,
                        Operators.legacySource(),
                        LONG,
                        parallelism,
                        Boundedness.CONTINUOUS_UNBOUNDED,
                        configured);
            case "one_input":
                OneInputTransformation<Long, Long> one =
                        new OneInputTransformation<>(
                                input(node, 0), name, Operators.map(), LONG, parallelism, configured);
                key(one, input(node, 0));
                return one;
            case "async":
                return new OneInputTransformation<>(
                        input(node, 0), name, Operators.asyncWait(), LONG, parallelism, configured);
            case "two_input":
                return new TwoInputTransformation<>(
                        input(node, 0), input(node, 1), name, Operators.coMap(), LONG, parallelism, configured);
            case "multi_input":
                MultipleInputTransformation<Long> several =
                        new MultipleInputTransformation<>(
                                name, new Operators.SeveralInputsFactory(), LONG, parallelism, configured);
                inputs(node).forEach(several::addInput);
                return several;
            case "sink":
                return new LegacySinkTransformation<>(
                        input(node, 0), name, Operators.discard(), parallelism, configured);
            default:
                throw new IllegalArgumentException(node.get("kind").asText());
        }
    }

    /** A sink of the Sink V2 API, which SinkTransformationTranslator expands. */
    private Transformation<Long> sink(JsonNode node, String name, int parallelism, boolean configured) {
        if (environment == null) {
            // Without the configuration: an environment refuses some settings, such as a checkpoint interval below
            // 10 ms, which a topology without such a sink may have, because it has no environment.
            environment = new StreamExecutionEnvironment(new Configuration());
            environment.setParallelism(executionConfig.getParallelism());
        }
        CustomSinkOperatorUidHashes.SinkOperatorUidHashesBuilder hashes = CustomSinkOperatorUidHashes.builder();
        given(node.path("writer"), "uid_hash", value -> hashes.setWriterUidHash(value.asText()));
        given(node.path("committer"), "uid_hash", value -> hashes.setCommitterUidHash(value.asText()));
        SinkTransformation<Long, Long> sink =
                new SinkTransformation<>(
                        stream(input(node, 0)),
                        SinkTopology.of(node, this::addSteps),
                        LONG,
                        name,
                        parallelism,
                        configured,
                        hashes.build());
        configureAny(sink, node);
        given(node, "chaining", value -> sink.setChainingStrategy(ChainingStrategy.valueOf(value.asText())));
        registered.add(sink);
        return sink;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private DataStream<?> addSteps(DataStream<?> stream, JsonNode steps) {
        DataStream<?> last = stream;
        for (JsonNode step : steps) {
            Transformation<Long> input = (Transformation<Long>) (Transformation) last.getTransformation();
            if (step.get("kind").asText().equals("partition")) {
                last = stream(partition(step, input));
                continue;
            }
            SingleOutputStreamOperator<Long> operator =
                    ((DataStream<Long>) last).transform(step.path("name").asText(), LONG, Operators.map());
            OneInputTransformation<Long, Long> one =
                    (OneInputTransformation<Long, Long>) operator.getTransformation();
            given(step, "parallelism", value -> one.setParallelism(value.asInt()));
            configure(one, step);
            last = operator;
        }
        return last;
    }

    /** Returns a keyed stream, like keyBy, if the transformation is a hash partition: its readers are keyed. */
    @SuppressWarnings("unchecked")
    private DataStream<Long> stream(Transformation<Long> transformation) {
        DataStream<Long> stream = new DataStream<>(environment, transformation);
        if (!isHashPartition(transformation)) {
            return stream;
        }
        try {
            Constructor<?> keyed =
                    KeyedStream.class.getDeclaredConstructor(
                            DataStream.class,
                            PartitionTransformation.class,
                            KeySelector.class,
                            TypeInformation.class);
            keyed.setAccessible(true);
            return (DataStream<Long>) keyed.newInstance(stream, transformation, new Operators.Key(), LONG);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("not the KeyedStream class of Flink 2.3", e);
        }
    }

    private static PartitionTransformation<Long> partition(JsonNode node, Transformation<Long> input) {
        return new PartitionTransformation<>(
                input,
                partitioner(node.path("partitioner").asText()),
                StreamExchangeMode.valueOf(node.path("exchange_mode").asText("UNDEFINED")));
    }

    private static void key(OneInputTransformation<Long, Long> one, Transformation<Long> input) {
        if (isHashPartition(input)) {
            one.setStateKeySelector(new Operators.Key());
            one.setStateKeyType(LONG);
        }
    }

    private static void configureAny(Transformation<Long> to, JsonNode node) {
        given(node, "max_parallelism", value -> to.setMaxParallelism(value.asInt()));
        given(node, "slot_sharing_group", value -> to.setSlotSharingGroup(value.asText()));
        given(node, "co_location_group", value -> to.setCoLocationGroupKey(value.asText()));
        given(node, "uid", value -> to.setUid(value.asText()));
    }

    private static void configure(PhysicalTransformation<Long> to, JsonNode node) {
        configureAny(to, node);
        given(node, "uid_hash", value -> to.setUidHash(value.asText()));
        given(node, "buffer_timeout", value -> to.setBufferTimeout(value.asLong()));
        given(node, "chaining", value -> to.setChainingStrategy(ChainingStrategy.valueOf(value.asText())));
        node.path("managed_memory")
                .properties()
                .forEach(
                        e ->
                                to.declareManagedMemoryUseCaseAtOperatorScope(
                                        ManagedMemoryUseCase.valueOf(e.getKey()), e.getValue().asInt()));
        node.path("slot_scope")
                .forEach(e -> to.declareManagedMemoryUseCaseAtSlotScope(ManagedMemoryUseCase.valueOf(e.asText())));
        given(
                node,
                "min_resources",
                least -> to.setResources(resources(least), resources(node.path("preferred_resources"))));
    }

    private static ResourceSpec resources(JsonNode node) {
        return ResourceSpec.newBuilder(node.path("cpu_cores").asDouble(), bytes(node, "task_heap_memory_bytes"))
                .setTaskOffHeapMemory(bytes(node, "task_off_heap_memory_bytes"))
                .setManagedMemory(bytes(node, "managed_memory_bytes"))
                .build();
    }

    private static MemorySize bytes(JsonNode node, String key) {
        return new MemorySize(node.path(key).asLong());
    }

    private static StreamPartitioner<Long> partitioner(String name) {
        return switch (name) {
            case "forward" -> new ForwardPartitioner<>();
            case "rebalance" -> new RebalancePartitioner<>();
            case "rescale" -> new RescalePartitioner<>();
            case "shuffle" -> new ShufflePartitioner<>();
            case "broadcast" -> new BroadcastPartitioner<>();
            case "global" -> new GlobalPartitioner<>();
            case "hash" ->
                    new KeyGroupStreamPartitioner<>(
                            new Operators.Key(), StreamGraphGenerator.DEFAULT_LOWER_BOUND_MAX_PARALLELISM);
            case "custom" -> new CustomPartitionerWrapper<>(new Operators.Modulo(), new Operators.Key());
            default -> throw new IllegalArgumentException("partitioner " + name);
        };
    }

    private static boolean isHashPartition(Transformation<Long> input) {
        return input instanceof PartitionTransformation<Long> partition
                && partition.getPartitioner() instanceof KeyGroupStreamPartitioner;
    }

    private List<Transformation<Long>> inputs(JsonNode node) {
        List<Transformation<Long>> inputs = new ArrayList<>();
        for (JsonNode id : node.path("inputs")) {
            inputs.add(transformations.get(id.asInt() - 1));
        }
        return inputs;
    }

    private Transformation<Long> input(JsonNode node, int index) {
        return transformations.get(node.get("inputs").get(index).asInt() - 1);
    }

    private static void given(JsonNode node, String key, Consumer<JsonNode> set) {
        JsonNode value = node.get(key);
        if (value != null) {
            set.accept(value);
        }
    }

    /** Resets ids to 1 for every topology, as in a program of its own; Flink has no method for that. */
    private static AtomicInteger idCounter() {
        try {
            Field field = Transformation.class.getDeclaredField("ID_COUNTER");
            field.setAccessible(true);
            return (AtomicInteger) field.get(null);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("not the Transformation class of Flink 2.3", e);
        }
    }
}
