import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.client.deployment.StandaloneClusterId;
import org.apache.flink.client.deployment.executors.LocalExecutor;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.CachedDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Programs that write a file if their job ever runs. Arguments: what to do, and the file. */
public class Jobs {
    public static void main(String[] arguments) throws Exception {
        String file = arguments[1];
        switch (arguments[0]) {
            case "two-jobs":
                twoJobs(file);
                break;
            case "fails":
                job(new Configuration(), file).execute("before");
                throw new IllegalStateException("no config server");
            case "nothing":
                break;
            case "clusters":
                goOn(() -> runInMiniCluster(file));
                goOn(() -> runInLocalExecutor(file));
                goOn(() -> askCluster());
                break;
            case "own-loaders":
                runInOwnLoader(file, ClassLoader.getPlatformClassLoader());
                runInOwnLoader(file, ClassLoader.getSystemClassLoader());
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Results are read, which are empty; options hold secrets; a second job has the name of the first. */
    private static void twoJobs(String file) throws Exception {
        Configuration secrets = new Configuration();
        secrets.setString("s3.secret-key", "planted-secret-1");
        secrets.setString("pipeline.global-job-parameters", "password:planted-secret-2");
        secrets.setString("execution.checkpointing.interval", "10 s");
        StreamExecutionEnvironment first = job(secrets, file);
        System.out.println("finished: " + first.execute("twice").getAllAccumulatorResults());
        StreamExecutionEnvironment second = StreamExecutionEnvironment.getExecutionEnvironment();
        DataStream<Long> numbers = second.fromSequence(1, 5).map(new Writes(file));
        numbers.executeAndCollect("twice").forEachRemaining(value -> System.out.println("value " + value));
        StreamExecutionEnvironment third = StreamExecutionEnvironment.getExecutionEnvironment();
        third.setRuntimeMode(RuntimeExecutionMode.BATCH);
        CachedDataStream<Long> cached = third.fromSequence(1, 5).map(new Writes(file)).cache();
        cached.map(value -> value + 1).sinkTo(new DiscardingSink<>());
        third.execute("fills-cache");
        cached.map(value -> value + 2).sinkTo(new DiscardingSink<>());
        third.execute("reads-cache");
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void goOn(Action action) {
        try {
            action.run();
            System.out.println("nobody has stopped this");
        } catch (Throwable e) {
            System.out.println("the program goes on after " + e);
        }
    }

    private static void runInMiniCluster(String file) throws Exception {
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().build());
        cluster.start();
        cluster.executeJobBlocking(job(new Configuration(), file).getStreamGraph().getJobGraph());
    }

    private static void runInLocalExecutor(String file) throws Exception {
        Configuration local = new Configuration().set(DeploymentOptions.TARGET, "local");
        local.set(DeploymentOptions.ATTACHED, true);
        LocalExecutor.create(local)
                .execute(job(local, file).getStreamGraph(), local, Jobs.class.getClassLoader())
                .get();
    }

    private static void askCluster() throws Exception {
        Configuration address = new Configuration().set(RestOptions.ADDRESS, "localhost");
        new RestClusterClient<>(address, StandaloneClusterId.getInstance()).close();
    }

    /** As programs in a jar of jars: Flink's classes are in a loader that is not the system's. */
    private static void runInOwnLoader(String file, ClassLoader parent) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String path : System.getProperty("jars.of.own.loader").split(File.pathSeparator)) {
            urls.add(Path.of(path).toUri().toURL());
        }
        try (URLClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), parent)) {
            Thread.currentThread().setContextClassLoader(loader);
            Class.forName("JobInOwnLoader", true, loader)
                    .getDeclaredMethod("run", String.class)
                    .invoke(null, file);
        }
    }

    static StreamExecutionEnvironment job(Configuration configuration, String file) {
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment
                .fromSequence(1, 5)
                .map(new Writes(file))
                .keyBy(new Parity())
                .reduce(new Sum())
                .sinkTo(new DiscardingSink<>());
        return environment;
    }

    static final class Parity implements KeySelector<Long, Long> {
        @Override
        public Long getKey(Long value) {
            return value % 2;
        }
    }

    static final class Sum implements ReduceFunction<Long> {
        @Override
        public Long reduce(Long one, Long other) {
            return one + other;
        }
    }

    /** Makes a file as soon as it is opened or called. */
    static final class Writes implements MapFunction<Long, Long> {
        private final String file;

        Writes(String file) {
            this.file = file;
        }

        @Override
        public Long map(Long value) throws Exception {
            Files.writeString(Path.of(file), "a job ran");
            return value;
        }
    }
}
