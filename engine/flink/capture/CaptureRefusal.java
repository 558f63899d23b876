package penstock.flink;

/** What the program wants cannot be captured, and is not done either. */
final class CaptureRefusal extends Error {
    private static final long serialVersionUID = 1L;

    CaptureRefusal(String message) {
        super(message);
    }

    CaptureRefusal(String message, Throwable cause) {
        super(message, cause);
    }
}
