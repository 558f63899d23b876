package penstock.flink;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;

/**
 * Changes the classes through which Flink runs jobs when they are loaded. A class that cannot be changed halts the
 * JVM; if jobs are only observed, it is left unchanged, and they run without being written.
 *
 * <p>The agent's own classes are on the class path of the system. If another loader has Flink's classes (a
 * program in a jar of jars), it gets copies of its own, which see that Flink.
 */
final class FlinkTransformer implements ClassFileTransformer {
    private static final String EMBEDDED = "org/apache/flink/client/deployment/application/executors/";

    /** Classes in which environments look for an executor, for every `execution.target`. */
    private static final Set<String> EXECUTOR_LOADERS =
            Set.of(
                    "org/apache/flink/core/execution/DefaultExecutorServiceLoader",
                    EMBEDDED + "EmbeddedExecutorServiceLoader",
                    EMBEDDED + "WebSubmissionExecutorServiceLoader");

    private static final String STREAM_GRAPH = "org/apache/flink/streaming/api/graph/StreamGraph";

    /** Classes that reach a cluster without executors, or run tasks in this JVM. */
    private static final Set<String> CLUSTERS =
            Set.of(
                    "org/apache/flink/runtime/minicluster/MiniCluster",
                    "org/apache/flink/client/program/rest/RestClusterClient",
                    "org/apache/flink/client/program/MiniClusterClient",
                    "org/apache/flink/client/deployment/application/cli/ApplicationClusterDeployer",
                    "org/apache/flink/yarn/YarnClusterDescriptor",
                    "org/apache/flink/kubernetes/KubernetesClusterDescriptor",
                    "org/apache/flink/runtime/entrypoint/ClusterEntrypoint",
                    "org/apache/flink/runtime/taskexecutor/TaskManagerRunner",
                    "org/apache/flink/runtime/taskmanager/Task");

    private static final String OWN_CLASSES = "/META-INF/penstock/classes";

    private final Instrumentation instrumentation;
    private final CaptureSettings settings;
    private final Set<ClassLoader> loadersWithOwnClasses = Collections.newSetFromMap(new WeakHashMap<>());

    FlinkTransformer(Instrumentation instrumentation, CaptureSettings settings) {
        this.instrumentation = instrumentation;
        this.settings = settings;
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (STREAM_GRAPH.equals(name)) {
            return withOutputTypes(loader, classFile);
        }
        boolean executes = EXECUTOR_LOADERS.contains(name);
        if (!executes && (settings.observes || !CLUSTERS.contains(name))) {
            return null;
        }
        try {
            return patched(loader, executes ? (settings.observes ? "observe" : "capture") : "refuse", classFile);
        } catch (Throwable e) {
            // The JVM ignores exceptions of a transformer, and would load the class unchanged.
            Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
            String reason = "class " + name.replace('/', '.') + " cannot be replaced";
            CaptureAgent.haltOrWarn(settings.observes, reason, cause);
            return null;
        }
    }

    /** Output types are only for users: if this class cannot be changed, they are not written. */
    private byte[] withOutputTypes(ClassLoader loader, byte[] classFile) {
        try {
            return patched(loader, "rememberOutputTypes", classFile);
        } catch (Throwable e) {
            return null;
        }
    }

    private byte[] patched(ClassLoader loader, String patch, byte[] classFile) throws Exception {
        defineOwnClasses(loader);
        Method method =
                Class.forName("penstock.flink.ClassPatches", true, loader).getDeclaredMethod(patch, byte[].class);
        method.setAccessible(true);
        return (byte[]) method.invoke(null, (Object) classFile);
    }

    private synchronized void defineOwnClasses(ClassLoader loader) throws Exception {
        if (loader == null || loader == ClassLoader.getSystemClassLoader() || !loadersWithOwnClasses.add(loader)) {
            return;
        }
        instrumentation.redefineModule(
                Object.class.getModule(),
                Set.of(),
                Map.of(),
                Map.of("java.lang", Set.of(FlinkTransformer.class.getModule())),
                Set.of(),
                Map.of());
        Method define =
                ClassLoader.class.getDeclaredMethod("defineClass", String.class, byte[].class, int.class, int.class);
        define.setAccessible(true);
        String classes = new String(resource(OWN_CLASSES), StandardCharsets.UTF_8);
        for (String name : classes.split("\n")) {
            byte[] bytes = resource("/" + name.replace('.', '/') + ".class");
            define.invoke(loader, name, bytes, 0, bytes.length);
        }
    }

    private static byte[] resource(String path) throws IOException {
        try (InputStream in = FlinkTransformer.class.getResourceAsStream(path)) {
            return in.readAllBytes();
        }
    }
}
