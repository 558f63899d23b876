package penstock.flink;

import java.util.Locale;

/** The timed steps: reading, the layers of a plan in order, writing. */
enum Step {
    READ,
    STREAM_GRAPH,
    JOB_GRAPH,
    EXECUTION_GRAPH,
    SLOTS,
    WRITE;

    final String key = name().toLowerCase(Locale.ROOT);

    /** Returns the layer with this key. */
    static Step layer(String key) {
        for (Step step : values()) {
            if (step.key.equals(key) && step != READ && step != WRITE) {
                return step;
            }
        }
        throw new IllegalArgumentException("no layer of a plan: " + key);
    }
}
