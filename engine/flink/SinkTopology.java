package penstock.flink;

import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

import org.apache.flink.api.common.SupportsConcurrentExecutionAttempts;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.connector.sink2.StandardSinkTopologies;
import org.apache.flink.streaming.api.connector.sink2.SupportsPostCommitTopology;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreCommitTopology;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * A sink of the Sink V2 API with the parts that a transformation of kind `sink` names. Each sink implements
 * different interfaces, because SinkTransformationTranslator checks for them.
 */
final class SinkTopology implements InvocationHandler, Serializable {
    /** Adds steps of a sink's own topology to a stream. */
    interface Steps {
        DataStream<?> add(DataStream<?> stream, JsonNode steps);
    }

    private final transient JsonNode node;
    private final transient Steps steps;

    private SinkTopology(JsonNode node, Steps steps) {
        this.node = node;
        this.steps = steps;
    }

    @SuppressWarnings("unchecked")
    static Sink<Long> of(JsonNode node, Steps steps) {
        List<Class<?>> parts = new ArrayList<>(List.of(Sink.class));
        if (node.path("writer").path("supports_concurrent_execution_attempts").asBoolean()) {
            parts.add(SupportsConcurrentExecutionAttempts.class);
        }
        if (node.has("pre_write")) {
            parts.add(SupportsPreWriteTopology.class);
        }
        if (node.has("committer")) {
            parts.add(SupportsCommitter.class);
        }
        if (node.has("pre_commit")) {
            parts.add(SupportsPreCommitTopology.class);
        }
        if (node.path("global_committer").asBoolean() || node.path("post_commit").size() > 0) {
            parts.add(SupportsPostCommitTopology.class);
        }
        Class<?>[] interfaces = parts.toArray(Class<?>[]::new);
        return (Sink<Long>)
                Proxy.newProxyInstance(
                        SinkTopology.class.getClassLoader(), interfaces, new SinkTopology(node, steps));
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) {
        return switch (method.getName()) {
            case "addPreWriteTopology" -> steps.add((DataStream<?>) arguments[0], node.get("pre_write"));
            case "addPreCommitTopology" -> steps.add((DataStream<?>) arguments[0], node.get("pre_commit"));
            case "addPostCommitTopology" -> postCommit((DataStream<?>) arguments[0]);
            case "getCommittableSerializer", "getWriteResultSerializer" -> new NoCommittables();
            case "hashCode" -> System.identityHashCode(proxy);
            case "equals" -> proxy == arguments[0];
            case "toString" -> "a sink that is planned";
            default ->
                    throw new UnsupportedOperationException(
                            method.getName() + ": sinks are planned and not run");
        };
    }

    /** A serializer of committables, which do not occur. */
    static final class NoCommittables implements SimpleVersionedSerializer<Long>, Serializable {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Long committable) {
            return new byte[0];
        }

        @Override
        public Long deserialize(int version, byte[] serialized) {
            return 0L;
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object postCommit(DataStream<?> committed) {
        if (node.path("global_committer").asBoolean()) {
            StandardSinkTopologies.addGlobalCommitter(
                    (DataStream) committed, context -> null, NoCommittables::new);
        } else {
            steps.add(committed, node.get("post_commit"));
        }
        return null;
    }
}
