package penstock.flink;

import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** The result for one topology: the layers of its plan as JSON, or the refusal. */
final class PlannedTopology {
    final Map<String, byte[]> layers = new LinkedHashMap<>();
    String name;
    String stage = UnplannableTopologyException.INPUT;
    private String errorStage;
    private String error;
    private String message;

    PlannedTopology(String name) {
        this.name = name;
    }

    void refuse(String stage, Throwable reason) {
        layers.clear();
        errorStage = stage;
        error = reason.getClass().getSimpleName();
        message = reason.getMessage();
        if (message == null && reason instanceof StackOverflowError) {
            message = "Flink's recursion is deeper than the stack of its thread (-Xss)";
        }
    }

    boolean isRefused() {
        return errorStage != null;
    }

    String refusal() {
        return errorStage + ": " + error + ": " + message;
    }

    /** Returns one line of plan JSON; stored layers are written without parsing them again. */
    Void writeTo(Writer out) throws IOException {
        out.write("{\"name\":" + Json.quoted(name));
        if (isRefused()) {
            out.write(",\"error_stage\":" + Json.quoted(errorStage));
            out.write(",\"error\":" + Json.quoted(error));
            out.write(",\"message\":" + Json.quoted(String.valueOf(message)));
        } else {
            for (Map.Entry<String, byte[]> layer : layers.entrySet()) {
                out.write(",\"" + layer.getKey() + "\":");
                out.write(new String(layer.getValue(), StandardCharsets.UTF_8));
            }
        }
        out.write("}\n");
        return null;
    }
}
