package penstock.flink.measured;

import java.io.BufferedWriter;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;

import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Runs each job of a file for a while on a MiniCluster, and writes its sources' records and its threads' processor time.
 *
 * <p>Arguments: jobs (JSON lines), results (JSON lines, one written as soon as its job has run), TaskManagers, slots of
 * each, bytes of a network buffer.
 */
public final class RunJobs {
    private static final Pattern TASK = Pattern.compile("(.*) \\(\\d+/\\d+\\)#\\d+");
    private static final long START_MILLIS = 60_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private RunJobs() {}

    /** Processor nanoseconds of tasks, of their subtasks, of threads that move data between TaskManagers, and of all. */
    private static Map<String, Long> processorTimes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        Map<String, Long> times = new HashMap<>();
        for (long id : threads.getAllThreadIds()) {
            ThreadInfo thread = threads.getThreadInfo(id);
            long spent = threads.getThreadCpuTime(id);
            if (thread == null || spent < 0) {
                continue;
            }
            Matcher task = TASK.matcher(thread.getThreadName());
            String name = task.matches() ? "task " + task.group(1)
                    : thread.getThreadName().startsWith("Flink Netty") ? "network" : "others";
            times.merge(name, spent, Long::sum);
            if (task.matches()) {
                times.put("subtask " + thread.getThreadName(), spent);
            }
        }
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        times.put("process", system.getProcessCpuTime());
        return times;
    }

    private static boolean allSourcesEmit() {
        return !Work.EMITTED.isEmpty() && Work.EMITTED.values().stream().allMatch(count -> count.get() > 0);
    }

    private static Map<Integer, Long> emitted() {
        Map<Integer, Long> records = new TreeMap<>();
        Work.EMITTED.forEach((subtask, count) -> records.merge(subtask.operator, count.get(), Long::sum));
        return records;
    }

    private static ObjectNode measure(MiniCluster cluster, JsonNode job) throws Exception {
        Work.EMITTED.clear();
        JobGraph graph = JobOfOperators.jobGraph(job);
        JobID id = cluster.submitJob(graph).get(START_MILLIS, TimeUnit.MILLISECONDS).getJobID();
        long until = System.currentTimeMillis() + START_MILLIS;
        while (!allSourcesEmit()) {
            if (System.currentTimeMillis() > until || cluster.getJobStatus(id).get().isTerminalState()) {
                throw new IllegalStateException("the job does not start: " + cluster.getJobStatus(id).get());
            }
            Thread.sleep(20);
        }
        Thread.sleep((long) (1000 * job.get("warm_up_seconds").asDouble()));
        Map<String, Long> timesBefore = processorTimes();
        Map<Integer, Long> before = emitted();
        long started = System.nanoTime();
        Thread.sleep((long) (1000 * job.get("seconds").asDouble()));
        Map<Integer, Long> after = emitted();
        double seconds = (System.nanoTime() - started) / 1e9;
        Map<String, Long> timesAfter = processorTimes();
        cluster.cancelJob(id).get(START_MILLIS, TimeUnit.MILLISECONDS);
        cluster.requestJobResult(id).get(START_MILLIS, TimeUnit.MILLISECONDS);

        ObjectNode result = JSON.createObjectNode();
        result.put("name", job.get("name").asText()).put("seconds", seconds);
        ObjectNode sources = result.putObject("records");
        after.forEach((source, records) -> sources.put("" + source, records - before.getOrDefault(source, 0L)));
        ObjectNode times = result.putObject("processor_seconds");
        new TreeMap<>(timesAfter).forEach((name, spent) -> times.put(name, (spent - timesBefore.getOrDefault(name, 0L)) / 1e9));
        return result;
    }

    private static Configuration configuration(int taskManagers, int slots, String segment) {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.BIND_PORT, "0");
        configuration.set(TaskManagerOptions.NUM_TASK_SLOTS, slots);
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.parse("256m"));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.parse("256m"));
        configuration.set(TaskManagerOptions.MEMORY_SEGMENT_SIZE, MemorySize.parse(segment));
        return configuration;
    }

    public static void main(String[] arguments) throws Exception {
        int taskManagers = Integer.parseInt(arguments[2]);
        int slots = Integer.parseInt(arguments[3]);
        MiniClusterConfiguration cluster = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration(taskManagers, slots, arguments[4]))
                .setNumTaskManagers(taskManagers)
                .setNumSlotsPerTaskManager(slots)
                .setRpcServiceSharing(RpcServiceSharing.SHARED)
                .build();
        double perNanosecond = Work.iterationsPerNanosecond();
        try (MiniCluster running = new MiniCluster(cluster);
                BufferedWriter results = Files.newBufferedWriter(Path.of(arguments[1]), StandardCharsets.UTF_8)) {
            running.start();
            for (String line : Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
                JsonNode job = JSON.readTree(line);
                ObjectNode result;
                try {
                    result = measure(running, job);
                } catch (Exception error) {
                    result = JSON.createObjectNode();
                    result.put("name", job.get("name").asText()).put("error", String.valueOf(error));
                }
                results.write(result.put("iterations_per_nanosecond", perNanosecond).toString());
                results.newLine();
                results.flush();
            }
        }
        System.exit(0);
    }
}
