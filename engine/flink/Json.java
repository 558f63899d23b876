package penstock.flink;

import java.io.ByteArrayOutputStream;
import java.io.IOException;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.io.JsonStringEncoder;

/** Writes JSON text in UTF-8 without building a tree of objects. */
final class Json {
    private static final JsonFactory FACTORY = new JsonFactory();

    private Json() {}

    /** Writes one JSON value. */
    @FunctionalInterface
    interface Value {
        void writeTo(JsonGenerator json) throws IOException;
    }

    static byte[] bytes(Value value) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (JsonGenerator json = FACTORY.createGenerator(out)) {
            value.writeTo(json);
        }
        return out.toByteArray();
    }

    static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
    }
}
