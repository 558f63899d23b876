import org.apache.flink.configuration.*;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.runtime.clusterframework.*;
import org.apache.flink.runtime.clusterframework.types.ResourceProfile;
import org.apache.flink.runtime.executiongraph.*;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.consumer.*;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.memory.MemoryManager;
import org.apache.flink.runtime.resourcemanager.WorkerResourceSpec;
import org.apache.flink.runtime.resourcemanager.slotmanager.SlotManagerUtils;
import org.apache.flink.runtime.scheduler.SsgNetworkMemoryCalculationUtils;
import org.apache.flink.runtime.shuffle.*;
import org.apache.flink.runtime.taskmanager.NettyShuffleEnvironmentConfiguration;
import org.apache.flink.runtime.util.config.memory.ManagedMemoryUtils;
import org.apache.flink.streaming.api.graph.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.*;

import java.io.*;
import java.lang.reflect.*;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Function;
import java.util.zip.GZIPOutputStream;

/** Writes what Flink 2.3.0 says about network buffers and memory, as JSON lines (the tests' golden data).
 *  Needs the oracle (FlinkOracle.java, which plans topologies) and its jars; CACHE is where both are:
 *    javac -cp "CACHE/classes-…:CACHE/lib/*" -d OUT FlinkResources.java
 *    java -cp "OUT:CACHE/classes-…:CACHE/lib/*" FlinkResources TOPOLOGIES.jsonl flink_resources.jsonl.gz
 *  The topologies are in the rows of kind "plan". */
public class FlinkResources {
    static final ObjectMapper M = new ObjectMapper();
    static final int[] CHANNELS = {1, 2, 3, 7, 40, 127, 128, 500, 1000, 1001, 10000};
    static final int PAGE = 32768;
    static final ClassLoader CL = FlinkResources.class.getClassLoader();
    static Writer out;

    public static void main(String[] args) throws Exception {
        try (BufferedReader topologies = new BufferedReader(new InputStreamReader(new FileInputStream(args[0]), StandardCharsets.UTF_8));
             Writer w = new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(args[1])), StandardCharsets.UTF_8)) {
            out = w;
            defaults();
            // buffers per channel, floating, required per gate at most (0: not set), sort-shuffle: parallelism, buffers
            for (int[] o : new int[][] {{2, 8, 0, 1, 512}, {0, 8, 0, 1, 512}, {0, 1, 0, 128, 64}, {1, 1, 100, 128, 512}, {2, 8, 1, 1001, 2048},
                                        {3, 5, 37, 20000, 512}, {10, 64, 1000000, 41, 7}}) {
                for (ResultPartitionType type : ResultPartitionType.values())
                    for (int n : CHANNELS) { gate(o, type, n); partition(o, type, n); }
                tasks(o);
            }
            taskManagers();
            managed();
            for (String line; (line = topologies.readLine()) != null; ) plan(M.readTree(line));
        }
        System.exit(0);
    }

    static ObjectNode row(String kind) { return M.createObjectNode().put("kind", kind); }
    static void write(ObjectNode row) throws IOException { out.write(M.writeValueAsString(row)); out.write('\n'); }
    static void failed(ObjectNode row, Throwable e) {
        Throwable t = e instanceof InvocationTargetException ? e.getCause() : e;
        row.put("error", t.getClass().getSimpleName()).put("message", t.getMessage());
    }
    static Optional<Integer> maxRequired(int[] o) { return o[2] == 0 ? Optional.empty() : Optional.of(o[2]); }
    static ObjectNode options(ObjectNode row, int[] o) {
        ObjectNode x = row.putObject("options").put("buffers_per_channel", o[0]).put("floating_buffers_per_gate", o[1]);
        if (o[2] > 0) x.put("max_required_buffers_per_gate", o[2]);
        x.put("sort_shuffle_min_parallelism", o[3]).put("sort_shuffle_min_buffers", o[4]);
        return row;
    }
    static Object call(Class<?> c, String name, Object target, Object... args) throws Exception {
        for (Method m : c.getDeclaredMethods())
            if (m.getName().equals(name) && m.getParameterCount() == args.length) { m.setAccessible(true); return m.invoke(target, args); }
        throw new NoSuchMethodException(name);
    }
    static Object field(Object o, String name) throws Exception { Field f = o.getClass().getDeclaredField(name); f.setAccessible(true); return f.get(o); }
    static Integer bounded(int n) { return n == Integer.MAX_VALUE ? null : (Integer) n; }

    static void defaults() throws Exception {
        NettyShuffleMaster m = new NettyShuffleMaster(new ShuffleMasterContextImpl(new Configuration(), t -> {}));
        NettyShuffleEnvironmentConfiguration c = NettyShuffleEnvironmentConfiguration.fromConfiguration(
            new Configuration(), MemorySize.ofMebiBytes(64), true, InetAddress.getLoopbackAddress());
        write(row("defaults").put("buffers_per_channel", (Integer) field(m, "buffersPerInputChannel"))
            .put("floating_buffers_per_gate", (Integer) field(m, "floatingBuffersPerGate"))
            .put("max_required_buffers_per_gate", (Integer) ((Optional<?>) field(m, "maxRequiredBuffersPerGate")).orElse(null))
            .put("sort_shuffle_min_parallelism", (Integer) field(m, "sortShuffleMinParallelism"))
            .put("sort_shuffle_min_buffers", (Integer) field(m, "sortShuffleMinBuffers"))
            .put("max_overdraft_buffers_per_gate", c.getMaxOverdraftBuffersPerGate())
            .put("segment_size_bytes", (Integer) field(m, "networkBufferSize")));
    }

    static void gate(int[] o, ResultPartitionType type, int n) throws Exception {
        GateBuffersSpec s = InputGateSpecUtils.createGateBuffersSpec(maxRequired(o), o[0], o[1], type, n, false);
        int exclusive = (Integer) call(GateBuffersSpec.class, "getEffectiveExclusiveBuffersPerChannel", s);
        int floating = (Integer) call(GateBuffersSpec.class, "getRequiredFloatingBuffers", s);
        write(options(row("gate"), o).put("type", type.name()).put("channels", n).put("exclusive_per_channel", exclusive)
            .put("required", exclusive * n + floating).put("target", s.targetTotalBuffersPerGate())
            .put("announced", (Integer) call(NettyShuffleUtils.class, "getNumBuffersToAnnounceForInputGate", null, type, o[0], o[1], maxRequired(o), n)));
    }

    static void partition(int[] o, ResultPartitionType type, int n) throws Exception {
        var p = NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition(o[0], o[1], o[3], o[4], n, false, 0, type);
        ObjectNode r = options(row("partition"), o).put("type", type.name()).put("channels", n).put("required", p.getLeft()).put("target", bounded(p.getRight()));
        try { r.put("announced", (Integer) call(NettyShuffleUtils.class, "getNumBuffersToAnnounceForResultPartition", null, type, o[0], o[1], o[3], o[4], n)); }
        catch (InvocationTargetException e) { r.putNull("announced"); failed(r, e); r.remove("message"); }
        r.put("overdraft", (Boolean) call(org.apache.flink.runtime.io.network.partition.ResultPartitionFactory.class, "isOverdraftBufferNeeded", null, type));
        write(r);
    }

    /** Tasks with several gates and partitions; of the first, one data set is read twice. */
    static void tasks(int[] o) throws Exception {
        ResultPartitionType B = ResultPartitionType.BLOCKING, P = ResultPartitionType.PIPELINED_BOUNDED, A = ResultPartitionType.PIPELINED_APPROXIMATE,
            S = ResultPartitionType.BLOCKING_PERSISTENT, H = ResultPartitionType.HYBRID_FULL, U = ResultPartitionType.PIPELINED;
        Object[][][][] tasks = {
            {{{P, 40, 2}, {P, 3, 1}, {B, 700, 1}}, {{P, 128}, {B, 1}, {S, 2000}}}, {{{A, 1000, 1}}, {{A, 7}}}, {{{U, 9, 1}, {H, 600, 3}}, {}},
            {{}, {{P, 10000}}}, {{{H, 2, 1}}, {{H, 2}}}, {{}, {{U, 4}, {P, 4}}}, {{}, {}}};
        for (Object[][][] task : tasks) {
            Map<IntermediateDataSetID, Integer> channels = new HashMap<>(), reuse = new HashMap<>(), subpartitions = new HashMap<>();
            Map<IntermediateDataSetID, ResultPartitionType> in = new HashMap<>(), produced = new HashMap<>();
            ObjectNode r = options(row("task"), o);
            ArrayNode inputs = r.putArray("inputs"), outputs = r.putArray("outputs");
            for (Object[] g : task[0]) {
                IntermediateDataSetID id = new IntermediateDataSetID();
                channels.put(id, (Integer) g[1]); reuse.put(id, (Integer) g[2]); in.put(id, (ResultPartitionType) g[0]);
                for (int i = 0; i < (Integer) g[2]; i++) inputs.addArray().add(g[0].toString()).add((Integer) g[1]);
            }
            for (Object[] p : task[1]) {
                IntermediateDataSetID id = new IntermediateDataSetID();
                subpartitions.put(id, (Integer) p[1]); produced.put(id, (ResultPartitionType) p[0]);
                outputs.addArray().add(p[0].toString()).add((Integer) p[1]);
            }
            try { r.put("announced", NettyShuffleUtils.computeNetworkBuffersForAnnouncing(o[0], o[1], maxRequired(o), o[3], o[4], channels, reuse, subpartitions, in, produced)); }
            catch (IllegalArgumentException e) { r.putNull("announced"); }
            write(r);
        }
    }

    static void taskManagers() throws Exception {
        String[] sizes = {"0", "1", "100m", "300m", "448m", "449m", "600m", "728m", "940m", "955m", "956m", "957m", "1g", "1000000000", "1200 mb", "1728m", "1999999999b",
            "2147483647", "2g", "3333333333", "4g", "10240m", "10241m", "16g", "64g", "1t", "1.5g", "4 gigs", "-1g", "many", ""};
        for (String size : sizes) for (int slots : new int[] {1, 3, 8}) taskManager(size, slots, Map.of());
        for (int slots : new int[] {0, -1, -2, 1000}) taskManager("4g", slots, Map.of());
        String[][] options = {
            {"taskmanager.memory.managed.fraction", "0"}, {"taskmanager.memory.managed.fraction", "0.75"}, {"taskmanager.memory.managed.fraction", "0.9"},
            {"taskmanager.memory.managed.fraction", "1"}, {"taskmanager.memory.managed.fraction", "0.33"}, {"taskmanager.memory.managed.fraction", "-0.1"},
            {"taskmanager.memory.network.max", "128m"}, {"taskmanager.memory.network.min", "1g"}, {"taskmanager.memory.network.max", "63m"},
            {"taskmanager.memory.network.fraction", "0.007"}, {"taskmanager.memory.network.fraction", "0.6"}, {"taskmanager.memory.jvm-metaspace.size", "96m"},
            {"taskmanager.memory.jvm-metaspace.size", "5g"}, {"taskmanager.memory.jvm-overhead.max", "200m"}, {"taskmanager.memory.jvm-overhead.min", "3g"},
            {"taskmanager.memory.jvm-overhead.min", "1g"}, {"taskmanager.memory.jvm-overhead.fraction", "0.3"}, {"taskmanager.memory.framework.heap.size", "77m"},
            {"taskmanager.memory.framework.off-heap.size", "1m"}, {"taskmanager.memory.task.off-heap.size", "300m"}};
        for (String[] o : options) for (String size : new String[] {"1728m", "4g", "30g"}) taskManager(size, 2, Map.of(o[0], o[1]));
        // Sizes of parts: each may be missing, and so may the process's.
        String[] process = {null, "1728m", "4g"}, flink = {null, "1280m", "3g", "200m"}, managed = {null, "0", "512m", "1100m"}, heap = {null, "25m", "384m", "2g"};
        for (String p : process) for (String f : flink) for (String m : managed) for (String h : heap) taskManager(p, 2, parts(f, m, h, Map.of()));
        List<Map<String, String>> beside = List.of(Map.of("taskmanager.memory.network.fraction", "0.37"), Map.of("taskmanager.memory.network.max", "100m"),
            Map.of("taskmanager.memory.jvm-overhead.fraction", "0.61", "taskmanager.memory.jvm-overhead.max", "8g"), Map.of("taskmanager.memory.network.min", "0"),
            Map.of("taskmanager.memory.managed.fraction", "0.123", "taskmanager.memory.framework.heap.size", "17m"));
        for (Map<String, String> b : beside) for (String p : new String[] {null, "3g"}) for (String f : new String[] {null, "1111111111", "2g"})
            for (String m : new String[] {null, "123456789"}) for (String h : new String[] {null, "987654321"}) taskManager(p, 3, parts(f, m, h, b));
    }

    static Map<String, String> parts(String flink, String managed, String heap, Map<String, String> beside) {
        Map<String, String> found = new TreeMap<>(beside);
        if (flink != null) found.put("taskmanager.memory.flink.size", flink);
        if (managed != null) found.put("taskmanager.memory.managed.size", managed);
        if (heap != null) found.put("taskmanager.memory.task.heap.size", heap);
        return found;
    }

    static void taskManager(String size, int slots, Map<String, String> options) throws Exception {
        ObjectNode r = row("task_manager").put("process_size", size).put("slots", slots);
        ObjectNode given = r.putObject("options");
        options.forEach(given::put);
        try {
            Configuration c = Configuration.fromMap(options);
            if (size != null) c.setString("taskmanager.memory.process.size", size);
            c.set(TaskManagerOptions.NUM_TASK_SLOTS, slots);
            TaskExecutorProcessSpec s = TaskExecutorProcessUtils.processSpecFromConfig(c);
            ResourceProfile slot = SlotManagerUtils.generateDefaultSlotResourceProfile(WorkerResourceSpec.fromTaskExecutorProcessSpec(s), slots);
            ObjectNode x = r.putObject("memory");
            x.put("process_bytes", s.getTotalProcessMemorySize().getBytes()).put("flink_bytes", s.getTotalFlinkMemorySize().getBytes());
            x.put("jvm_metaspace_bytes", s.getJvmMetaspaceSize().getBytes()).put("jvm_overhead_bytes", s.getJvmOverheadSize().getBytes());
            x.put("framework_heap_bytes", s.getFlinkMemory().getFrameworkHeap().getBytes()).put("framework_off_heap_bytes", s.getFlinkMemory().getFrameworkOffHeap().getBytes());
            x.put("task_heap_bytes", s.getTaskHeapSize().getBytes()).put("task_off_heap_bytes", s.getTaskOffHeapSize().getBytes());
            x.put("network_bytes", s.getNetworkMemSize().getBytes()).put("managed_bytes", s.getManagedMemorySize().getBytes());
            x.put("managed_bytes_per_slot", slot.getManagedMemory().getBytes()).put("network_bytes_per_slot", slot.getNetworkMemory().getBytes());
            r.put("network_buffers", NettyShuffleEnvironmentConfiguration.fromConfiguration(c, s.getNetworkMemSize(), true, InetAddress.getLoopbackAddress()).numNetworkBuffers());
        } catch (Exception e) { r.remove("memory"); failed(r, e); }
        write(r);
    }

    static void managed() throws Exception {
        List<List<String>> present = List.of(List.of("OPERATOR"), List.of("STATE_BACKEND"), List.of("PYTHON"), List.of("OPERATOR", "STATE_BACKEND"),
            List.of("OPERATOR", "PYTHON"), List.of("STATE_BACKEND", "PYTHON"), List.of("OPERATOR", "STATE_BACKEND", "PYTHON"));
        String[] weights = {null, "OPERATOR:70,STATE_BACKEND:70", "OPERATOR:1,STATE_BACKEND:2,PYTHON:4", "OPERATOR:0,STATE_BACKEND:1,PYTHON:0", "PYTHON:7"};
        for (List<String> all : present) for (String weight : weights) for (String backend : new String[] {"hashmap", "rocksdb"}) for (String useCase : all)
            for (double fraction : useCase.equals("OPERATOR") ? new double[] {0.3333333333333333, 1.0} : new double[] {1.0})
                managed(useCase, fraction, all, weight, Map.of("state.backend.type", backend), null, null, "1728m", 1);
        List<String> all = List.of("OPERATOR", "STATE_BACKEND", "PYTHON");
        String[] backends = {"HashMap", "ROCKSDB", "forst", "jobmanager", "filesystem", "nobody.Knows", "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
            "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory", ""};
        for (String backend : backends) managed("STATE_BACKEND", 1.0, all, null, Map.of("state.backend.type", backend), null, null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of(), null, null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of(), "rocksdb", null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of("state.backend", "rocksdb"), null, null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of("state.backend", "rocksdb"), "hashmap", null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of("state.backend.type", "hashmap"), "rocksdb", null, "4g", 2);
        managed("STATE_BACKEND", 1.0, all, null, Map.of("state.backend.type", "rocksdb", "taskmanager.memory.managed.consumer-weights", "OPERATOR:9"), null, null, "4g", 2);
        for (String useCase : all) managed(useCase, 1.0, all, null, Map.of("state.backend.type", "rocksdb"), null, false, "4g", 2);
        String[][] sizes = {{"1728m", "1000000000"}, {"1728m", "100000007"}, {"1g", "7"}, {"2147483647", "3"}, {"16g", "5"}, {"10000g", "1"}, {"160t", "1"}};
        for (String[] size : sizes) for (double fraction : new double[] {0.1, 0.0123456789012345, 0.9999999999999999, 0.5})
            managed("OPERATOR", fraction, all, null, Map.of("state.backend.type", "rocksdb"), null, null, size[0], Integer.parseInt(size[1]));
    }

    static void managed(String useCase, double fraction, List<String> all, String weights, Map<String, String> job, String cluster, Boolean application, String size, int slots) throws Exception {
        ObjectNode r = row("managed").put("process_size", size).put("slots", slots).put("use_case", useCase).put("fraction", fraction);
        ArrayNode present = r.putArray("use_cases");
        all.forEach(present::add);
        ObjectNode config = r.put("weights", weights).put("cluster_state_backend", cluster).put("application_uses_managed", application).putObject("job_config");
        job.forEach(config::put);
        Set<ManagedMemoryUseCase> set = new HashSet<>();
        all.forEach(u -> set.add(ManagedMemoryUseCase.valueOf(u)));
        Configuration c = new Configuration();
        if (weights != null) c.setString("taskmanager.memory.managed.consumer-weights", weights);
        if (cluster != null) c.setString("state.backend.type", cluster);
        double slot = ManagedMemoryUtils.convertToFractionOfSlot(ManagedMemoryUseCase.valueOf(useCase), fraction, set, Configuration.fromMap(job), c, Optional.ofNullable(application), CL);
        write(bytes(r.put("slot_fraction", slot), slot, managedOfSlot(size, slots)));
    }

    static ObjectNode bytes(ObjectNode r, double slotFraction, long managed) {
        MemoryManager m = MemoryManager.create(managed, PAGE);
        try { r.put("bytes", m.computeMemorySize(slotFraction)); }
        catch (IllegalArgumentException e) { r.putNull("bytes"); }
        return r;
    }

    @SuppressWarnings("unchecked")
    static void plan(JsonNode topology) throws Exception {
        ObjectNode r = row("plan");
        r.set("topology", topology);
        JobGraph jg = StreamingJobGraphGenerator.createJobGraph(FlinkOracle.streamGraph(topology));
        DefaultExecutionGraph eg = FlinkOracle.executionGraph(jg);
        NettyShuffleMaster master = new NettyShuffleMaster(new ShuffleMasterContextImpl(new Configuration(), t -> {}));
        ObjectNode tasks = r.putObject("tasks");
        for (JobVertex v : jg.getVertices()) {
            ExecutionJobVertex ejv = eg.getJobVertex(v.getID());
            Function<JobVertexID, ExecutionJobVertex> find = eg::getJobVertex;
            TaskInputsOutputsDescriptor d = (TaskInputsOutputsDescriptor) call(SsgNetworkMemoryCalculationUtils.class, "buildTaskInputsOutputsDescriptor", null, ejv, find);
            ObjectNode t = tasks.putObject(v.getID().toHexString());
            ArrayNode gates = t.putArray("gates"), partitions = t.putArray("result_partitions");
            for (IntermediateResult i : ejv.getInputs()) gates.add(d.getInputChannelNums().get(i.getId()));
            for (IntermediateDataSet p : v.getProducedDataSets()) partitions.add(d.getSubpartitionNums().get(p.getId()));
            try { t.put("announced_bytes", master.computeShuffleMemorySizeForTask(d).getBytes()); }
            catch (IllegalArgumentException e) { t.putNull("announced_bytes"); }
        }
        long slot = managedOfSlot("1728m", 1);
        ArrayNode managed = r.putArray("managed");
        for (JobVertex v : jg.getVertices()) {
            StreamConfig head = new StreamConfig(v.getConfiguration());
            List<StreamConfig> configs = new ArrayList<>(List.of(head));
            configs.addAll(new TreeMap<>(head.getTransitiveChainedTaskConfigs(CL)).values());
            for (StreamConfig c : configs) for (ManagedMemoryUseCase u : ManagedMemoryUseCase.values()) {
                Object fraction = c.getConfiguration().toMap().get("managedMemFraction." + u);
                if (fraction == null || Double.parseDouble(fraction.toString()) == 0) continue;
                double f = c.getManagedMemoryFractionOperatorUseCaseOfSlot(u, jg.getJobConfiguration(), new Configuration(), CL);
                managed.add(bytes(M.createObjectNode().put("node", c.getVertexID()).put("use_case", u.name()).put("fraction", Double.parseDouble(fraction.toString())).put("slot_fraction", f), f, slot));
            }
        }
        write(r);
    }

    static long managedOfSlot(String size, int slots) {
        Configuration c = new Configuration();
        c.setString("taskmanager.memory.process.size", size);
        c.set(TaskManagerOptions.NUM_TASK_SLOTS, slots);
        return SlotManagerUtils.generateDefaultSlotResourceProfile(WorkerResourceSpec.fromTaskExecutorProcessSpec(TaskExecutorProcessUtils.processSpecFromConfig(c)), slots).getManagedMemory().getBytes();
    }
}
