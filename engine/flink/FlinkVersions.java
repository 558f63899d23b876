package penstock.flink;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;

import org.apache.flink.runtime.jobgraph.JobEdge;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.runtime.partitioner.ForwardForUnspecifiedPartitioner;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;
import org.apache.flink.streaming.runtime.partitioner.RebalancePartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;

/** Access to members that Flink 1.20 hides, or does not have yet. */
final class FlinkVersions {
    private static final Method MAX_PARALLELISM = method(StreamNode.class, "getMaxParallelism");
    private static final Field EDGE_ID = field(StreamEdge.class, "edgeId");

    private FlinkVersions() {}

    static String running() {
        return EnvironmentInformation.getVersion();
    }

    static int maxParallelism(StreamNode node) {
        return (int) call(node, MAX_PARALLELISM);
    }

    static boolean parallelismConfigured(StreamNode node) {
        return (boolean) call(node, StreamNode.class, "isParallelismConfigured");
    }

    static String edgeId(StreamEdge edge) {
        return (String) value(edge, EDGE_ID);
    }

    /** Flink 1.20 does not have such operators. */
    static boolean noOutputUntilEndOfInput(StreamNode node) {
        if (!has(StreamNode.class, "getAttribute")) {
            return false;
        }
        Object attribute = call(node, StreamNode.class, "getAttribute");
        return (boolean) call(attribute, attribute.getClass(), "isNoOutputUntilEndOfInput");
    }

    /** Whether keys of different inputs are correlated, as in later versions; Flink 1.20 lacks this property. */
    static boolean interInputsKeysCorrelated(StreamEdge edge) {
        if (has(StreamEdge.class, "areInterInputsKeysCorrelated")) {
            return (boolean) call(edge, StreamEdge.class, "areInterInputsKeysCorrelated");
        }
        StreamPartitioner<?> partitioner = edge.getPartitioner();
        return !partitioner.isPointwise() && !(partitioner instanceof RebalancePartitioner);
    }

    /** The same for keys within an input. */
    static boolean intraInputKeyCorrelated(StreamEdge edge) {
        if (has(StreamEdge.class, "isIntraInputKeyCorrelated")) {
            return (boolean) call(edge, StreamEdge.class, "isIntraInputKeyCorrelated");
        }
        StreamPartitioner<?> partitioner = edge.getPartitioner();
        return partitioner.isPointwise()
                ? partitioner instanceof ForwardPartitioner
                        && !(partitioner instanceof ForwardForUnspecifiedPartitioner)
                : !(partitioner instanceof RebalancePartitioner);
    }

    /** Flink 1.20 stores it not at an edge between vertices, but at the edge before the chain's head. */
    static int typeNumber(JobEdge edge) {
        if (has(JobEdge.class, "getTypeNumber")) {
            return (int) call(edge, JobEdge.class, "getTypeNumber");
        }
        JobVertex target = edge.getTarget();
        StreamConfig config = new StreamConfig(target.getConfiguration());
        ClassLoader classLoader = Thread.currentThread().getContextClassLoader();
        return config.getInPhysicalEdges(classLoader).get(target.getInputs().indexOf(edge)).getTypeNumber();
    }

    /** A graph's data about its nodes while chains are formed; empty before. */
    static Map<?, ?> headOperators(StreamGraph graph) {
        return (Map<?, ?>) field(graph, StreamGraph.class, "nodeToHeadOperatorCache");
    }

    /** The interface is in another package since 2.0. */
    static boolean isYielding(StreamOperatorFactory<?> factory) {
        return factory != null && isOrExtends(factory.getClass(), "YieldingOperatorFactory");
    }

    private static boolean isOrExtends(Class<?> type, String simpleName) {
        if (type == null || type.getSimpleName().equals(simpleName)) {
            return type != null;
        }
        for (Class<?> implemented : type.getInterfaces()) {
            if (isOrExtends(implemented, simpleName)) {
                return true;
            }
        }
        return isOrExtends(type.getSuperclass(), simpleName);
    }

    static boolean has(Class<?> owner, String method) {
        try {
            owner.getDeclaredMethod(method);
            return true;
        } catch (NoSuchMethodException e) {
            return false;
        }
    }

    static Object call(Object object, Class<?> owner, String method) {
        return call(object, method(owner, method));
    }

    static Object field(Object object, Class<?> owner, String name) {
        return value(object, field(owner, name));
    }

    private static Object call(Object object, Method method) {
        try {
            return method.invoke(object);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(method + " fails", e);
        }
    }

    private static Object value(Object object, Field field) {
        try {
            return field.get(object);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(field + " cannot be read", e);
        }
    }

    private static Method method(Class<?> owner, String name) {
        try {
            Method found = owner.getDeclaredMethod(name);
            found.setAccessible(true);
            return found;
        } catch (NoSuchMethodException e) {
            throw new IllegalStateException(notThatFlink(owner, name), e);
        }
    }

    private static Field field(Class<?> owner, String name) {
        try {
            Field found = owner.getDeclaredField(name);
            found.setAccessible(true);
            return found;
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException(notThatFlink(owner, name), e);
        }
    }

    private static String notThatFlink(Class<?> owner, String member) {
        return owner.getName() + "." + member + ": not as in Flink 1.20 to 2.3";
    }
}
