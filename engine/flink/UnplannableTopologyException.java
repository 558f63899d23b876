package penstock.flink;

/** A topology that Flink cannot plan: the line is not a topology ("input"), or Flink 2.3 has no API for it ("unsupported"). */
final class UnplannableTopologyException extends Exception {
    static final String INPUT = "input";
    static final String UNSUPPORTED = "unsupported";

    final String stage;

    UnplannableTopologyException(String stage, String message) {
        super(message);
        this.stage = stage;
    }
}
