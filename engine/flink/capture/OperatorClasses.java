package penstock.flink;

import java.util.regex.Pattern;

import org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator;
import org.apache.flink.streaming.api.operators.SimpleOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.api.operators.UdfStreamOperatorFactory;

/** Finds the classes of an operator, by names that are the same in every JVM. */
final class OperatorClasses {
    private static final Pattern LAMBDA = Pattern.compile("\\$\\$Lambda[$/].*");
    private static final Pattern PROXY = Pattern.compile("\\$Proxy[0-9]+$");
    private static final Pattern NUMBER_OF_GENERATED = Pattern.compile("\\$[0-9]+$");

    private OperatorClasses() {}

    /** Returns null if it is unknown: nothing is compiled for it. */
    static String operatorClass(StreamOperatorFactory<?> factory, ClassLoader classLoader) {
        if (factory == null) {
            return null;
        }
        try {
            if (factory instanceof SimpleOperatorFactory) {
                return stableName(((SimpleOperatorFactory<?>) factory).getOperator().getClass());
            }
            if (FlinkVersions.has(factory.getClass(), "getGeneratedClass")) {
                Object generated = FlinkVersions.call(factory, factory.getClass(), "getGeneratedClass");
                Object name = generated.getClass().getMethod("getClassName").invoke(generated);
                return NUMBER_OF_GENERATED.matcher((String) name).replaceAll("");
            }
            return stableName(factory.getStreamOperatorClass(classLoader));
        } catch (Exception | LinkageError e) {
            return null;
        }
    }

    /** Returns null if there is no function, or an unknown one. */
    static String functionClass(StreamOperatorFactory<?> factory) {
        Object function = null;
        if (factory instanceof UdfStreamOperatorFactory) {
            function = ((UdfStreamOperatorFactory<?>) factory).getUserFunction();
        } else if (factory instanceof SimpleOperatorFactory) {
            StreamOperator<?> operator = ((SimpleOperatorFactory<?>) factory).getOperator();
            if (operator instanceof AbstractUdfStreamOperator) {
                function = ((AbstractUdfStreamOperator<?, ?>) operator).getUserFunction();
            }
        }
        return function == null ? null : stableName(function.getClass());
    }

    /** The binary name, without the addresses and counters of lambdas and proxies. */
    static String stableName(Class<?> type) {
        String name = LAMBDA.matcher(type.getName()).replaceAll("\\$\\$Lambda");
        return PROXY.matcher(name).replaceAll("\\$Proxy");
    }
}
