package penstock.flink;

import java.nio.file.Path;
import java.nio.file.Paths;

/** The agent's settings; `penstock capture` and `penstock capture --agent` set these variables. */
final class CaptureSettings {
    static final String FILE = "PENSTOCK_CAPTURE_FILE";
    static final String NAME = "PENSTOCK_CAPTURE_NAME";
    static final String MODE = "PENSTOCK_CAPTURE_MODE";
    static final String PLANS = "PENSTOCK_CAPTURE_PLANS";
    static final String REFUSALS = "PENSTOCK_CAPTURE_REFUSALS";

    /** Topology lines are appended to it. */
    final Path file;

    /** The base of names for jobs whose own name is taken; null: the name of the JVM's main class. */
    final String name;

    /** Jobs are submitted as usual after they are written. */
    final boolean observes;

    /** Flink's plan JSON of the jobs is appended to it; null: none is made. */
    final Path plans;

    /** Gets a line for each refused job or cluster; null: they are only reported on standard error. */
    final Path refusals;

    private CaptureSettings(Path file, String name, boolean observes, Path plans, Path refusals) {
        this.file = file;
        this.name = name;
        this.observes = observes;
        this.plans = plans;
        this.refusals = refusals;
    }

    static CaptureSettings ofEnvironment() {
        String mode = System.getenv().getOrDefault(MODE, "capture");
        if (!mode.equals("capture") && !mode.equals("observe")) {
            throw new IllegalArgumentException(MODE + ": found " + mode + ", allowed capture or observe");
        }
        Path file = path(FILE);
        if (file == null) {
            throw new IllegalArgumentException(FILE + " has to name the file that jobs are written to");
        }
        Path plans = path(PLANS);
        boolean observes = mode.equals("observe");
        if (observes && plans != null) {
            throw new IllegalArgumentException(
                    PLANS + " does not go with " + MODE + "=observe: planning a graph changes it");
        }
        return new CaptureSettings(file, System.getenv(NAME), observes, plans, path(REFUSALS));
    }

    /** Returns whether the environment requests observing, even if other settings are wrong. */
    static boolean observesInEnvironment() {
        return "observe".equals(System.getenv(MODE));
    }

    private static Path path(String variable) {
        String value = System.getenv(variable);
        return value == null || value.isEmpty() ? null : Paths.get(value).toAbsolutePath();
    }
}
