package penstock.flink;

import java.lang.instrument.Instrumentation;

/**
 * Has every job of this JVM captured instead of run.
 *
 * <p>Settings are environment variables, which processes that the program starts inherit: see {@link
 * CaptureSettings}. This class and {@link FlinkTransformer} refer to nothing of Flink's, so that they load in any
 * JVM.
 */
public final class CaptureAgent {
    private static final int STATUS_OF_HALT = 97;

    private CaptureAgent() {}

    public static void premain(String ignored, Instrumentation instrumentation) {
        try {
            CaptureSettings settings = CaptureSettings.ofEnvironment();
            instrumentation.addTransformer(new FlinkTransformer(instrumentation, settings));
        } catch (Throwable e) {
            halt(e.getMessage(), e);
        }
    }

    /** Ends the JVM at once, without its shutdown hooks: it must not get as far as running a job. */
    static void halt(String reason, Throwable cause) {
        System.err.println("penstock capture: stopped, so that nothing runs: " + reason);
        if (cause != null) {
            cause.printStackTrace();
        }
        System.err.flush();
        Runtime.getRuntime().halt(STATUS_OF_HALT);
    }
}
