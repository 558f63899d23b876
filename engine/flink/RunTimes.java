package penstock.flink;

import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.stream.LongStream;

/** Nanoseconds by step of one run over all topologies; a step that fails counts as well. */
final class RunTimes {
    private static final Path PROCESS_STATUS = Path.of("/proc/self/status");

    private final long[] nanoseconds = new long[Step.values().length];
    private int topologies;
    private int refused;

    <T> T measure(Step step, Callable<T> action) throws Exception {
        long started = System.nanoTime();
        try {
            return action.call();
        } finally {
            nanoseconds[step.ordinal()] += System.nanoTime() - started;
        }
    }

    void count(boolean isRefused) {
        topologies++;
        refused += isRefused ? 1 : 0;
    }

    double seconds() {
        return LongStream.of(nanoseconds).sum() / 1e9;
    }

    /** Returns one line; without the peak of resident memory if the system does not report it. */
    void writeTo(Writer out) throws IOException {
        long peak = peakResidentBytes();
        byte[] line =
                Json.bytes(
                        json -> {
                            json.writeStartObject();
                            json.writeNumberField("topologies", topologies);
                            json.writeNumberField("refused", refused);
                            json.writeObjectFieldStart("nanoseconds");
                            for (Step step : Step.values()) {
                                json.writeNumberField(step.key, nanoseconds[step.ordinal()]);
                            }
                            json.writeEndObject();
                            if (peak > 0) {
                                json.writeNumberField("peak_resident_bytes", peak);
                            }
                            json.writeEndObject();
                        });
        out.write(new String(line, StandardCharsets.UTF_8));
        out.write('\n');
    }

    private static long peakResidentBytes() throws IOException {
        if (!Files.isReadable(PROCESS_STATUS)) {
            return 0;
        }
        for (String line : Files.readAllLines(PROCESS_STATUS)) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        return 0;
    }
}
