package penstock.flink;

/** A request of the program that cannot be captured, and is not executed either. */
final class CaptureRefusal extends Error {
    private static final long serialVersionUID = 1L;

    CaptureRefusal(String message) {
        super(message);
    }

    CaptureRefusal(String message, Throwable cause) {
        super(message, cause);
    }
}
