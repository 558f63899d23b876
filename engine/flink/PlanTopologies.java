package penstock.flink;

import java.io.BufferedReader;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.runtime.executiongraph.DefaultExecutionGraph;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.scheduler.ExecutionSlotSharingGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;

/**
 * Plans topologies with Flink's own classes.
 *
 * <p>Reads topology JSON lines; writes plan JSON lines and, for each run over them, a line with the time of each
 * step. A topology that Flink refuses, or for which stack or heap are too small, gets a line like the others.
 * With --times-only only refusals are written. --repeat is the number of runs; but there is a third run and more
 * only if all runs after the first take no more seconds than --enough.
 */
final class PlanTopologies {
    private static final String USAGE =
            "usage: PlanTopologies TOPOLOGIES PLANS TIMES"
                    + " [--until stream_graph|job_graph|execution_graph|slots] [--times-only] [--repeat N]"
                    + " [--enough SECONDS]";

    private final Step until;
    private final boolean timesOnly;
    private final RunTimes times = new RunTimes();

    private PlanTopologies(Step until, boolean timesOnly) {
        this.until = until;
        this.timesOnly = timesOnly;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 3) {
            throw new IllegalArgumentException(USAGE);
        }
        Step until = Step.SLOTS;
        boolean timesOnly = false;
        int runs = 1;
        double enough = Double.POSITIVE_INFINITY;
        for (int i = 3; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--until" -> until = Step.layer(arguments[++i]);
                case "--times-only" -> timesOnly = true;
                case "--repeat" -> runs = Integer.parseInt(arguments[++i]);
                case "--enough" -> enough = Double.parseDouble(arguments[++i]);
                default -> throw new IllegalArgumentException(USAGE);
            }
        }
        initializeClasses();
        try (Writer timesOut = Files.newBufferedWriter(Path.of(arguments[2]))) {
            double warm = 0;
            for (int run = 0; run < runs && (run < 2 || warm * run / (run - 1) <= enough); run++) {
                PlanTopologies planner = new PlanTopologies(until, timesOnly);
                planner.planFile(Path.of(arguments[0]), Path.of(arguments[1]));
                planner.times.writeTo(timesOut);
                warm += run > 0 ? planner.times.seconds() : 0;
            }
        }
        System.exit(0);
    }

    /** Initialises classes early: one whose initialiser ran out of stack in a deep topology is unusable forever. */
    private static void initializeClasses() throws Exception {
        PlannedTopology planned = new PlanTopologies(Step.SLOTS, false).plan(EveryKind.LINE, 0);
        if (planned.isRefused()) {
            throw new IllegalStateException("Flink refuses the example: " + planned.refusal());
        }
    }

    private void planFile(Path topologies, Path plans) throws Exception {
        try (BufferedReader in = Files.newBufferedReader(topologies);
                Writer out = Files.newBufferedWriter(plans)) {
            int number = 0;
            for (String line; (line = in.readLine()) != null; ) {
                number++;
                if (line.isBlank()) {
                    continue;
                }
                PlannedTopology planned = plan(line, number);
                times.count(planned.isRefused());
                if (!timesOnly || planned.isRefused()) {
                    times.measure(Step.WRITE, () -> planned.writeTo(out));
                }
            }
        }
    }

    private PlannedTopology plan(String line, int number) {
        PlannedTopology planned = new PlannedTopology("line " + number);
        try {
            planLayers(line, planned);
        } catch (UnplannableTopologyException e) {
            planned.refuse(e.stage, e);
        } catch (Exception | StackOverflowError | OutOfMemoryError e) {
            planned.refuse(planned.stage, e);
        }
        return planned;
    }

    /** Changes a JobGraph like the Dispatcher before it passes the graph to a scheduler. */
    private static JobGraph onCluster(JobGraph jobGraph) {
        Map<String, String> overrides =
                jobGraph.getJobConfiguration().get(PipelineOptions.PARALLELISM_OVERRIDES);
        for (JobVertex vertex : jobGraph.getVertices()) {
            String override = overrides.get(vertex.getID().toHexString());
            if (override != null) {
                vertex.setParallelism(Integer.parseInt(override));
            }
        }
        return jobGraph;
    }

    private void planLayers(String line, PlannedTopology planned) throws Exception {
        JsonNode topology = times.measure(Step.READ, () -> TopologyJson.read(line));
        planned.name = topology.path("name").asText(planned.name);
        times.measure(Step.READ, () -> TopologyJson.check(topology));

        planned.stage = Step.STREAM_GRAPH.key;
        StreamGraph streamGraph =
                times.measure(Step.STREAM_GRAPH, () -> new StreamGraphTranslation(topology).translate());
        // Read before the JobGraph is made, which changes parallelisms of nodes and partitioners of edges.
        keep(planned, () -> StreamGraphJson.of(streamGraph));
        if (until == Step.STREAM_GRAPH) {
            return;
        }

        planned.stage = Step.JOB_GRAPH.key;
        JobGraph jobGraph =
                times.measure(
                        Step.JOB_GRAPH,
                        () -> onCluster(StreamingJobGraphGenerator.createJobGraph(streamGraph)));
        keep(planned, () -> JobGraphJson.of(jobGraph));
        if (until == Step.JOB_GRAPH) {
            return;
        }

        planned.stage = Step.EXECUTION_GRAPH.key;
        DefaultExecutionGraph executionGraph =
                times.measure(Step.EXECUTION_GRAPH, () -> Scheduling.executionGraph(jobGraph));
        keep(planned, () -> SchedulingJson.executionGraph(executionGraph));
        if (until == Step.EXECUTION_GRAPH) {
            return;
        }

        planned.stage = Step.SLOTS.key;
        List<ExecutionSlotSharingGroup> slots =
                times.measure(Step.SLOTS, () -> Scheduling.slots(jobGraph, executionGraph));
        keep(planned, () -> SchedulingJson.slots(slots));
    }

    /** Stores the layer that has just been planned. */
    private void keep(PlannedTopology planned, Callable<byte[]> layer) throws Exception {
        if (!timesOnly) {
            planned.layers.put(planned.stage, times.measure(Step.WRITE, layer));
        }
    }
}
