package penstock.flink;

import java.lang.instrument.Instrumentation;

/**
 * Captures every job of this JVM instead of running it.
 *
 * <p>Settings are environment variables, which processes that the program starts inherit: see {@link
 * CaptureSettings}. This class and {@link FlinkTransformer} use no classes of Flink, so that they load in any
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
            haltOrWarn(CaptureSettings.observesInEnvironment(), e.getMessage(), e);
        }
    }

    /** Halts; a job that is only observed runs nevertheless, and a message reports that it is not written. */
    static void haltOrWarn(boolean observes, String reason, Throwable cause) {
        if (observes) {
            System.err.println("penstock capture: jobs run, but are not written: " + reason);
        } else {
            halt(reason, cause);
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
