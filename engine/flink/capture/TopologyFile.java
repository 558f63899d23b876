package penstock.flink;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** A topology file that grows; the names of its lines are unique. */
final class TopologyFile {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final Path file;
    private final Set<String> names = new HashSet<>();

    /** The length of the file up to which `names` is complete. */
    private long seen;

    TopologyFile(Path file) {
        this.file = file;
    }

    /**
     * Appends `object` with a name before its other keys: `name`, or `command#number` if that is null or taken.
     * Returns the name.
     */
    String append(String name, String command, int number, String object) throws IOException {
        return AppendedLines.locked(
                file,
                channel -> {
                    readNames(channel);
                    String free = name;
                    for (int next = number; free == null || names.contains(free); next++) {
                        free = command + "#" + next;
                    }
                    AppendedLines.append(channel, "{\"name\":" + Json.quoted(free) + "," + object.substring(1));
                    return free;
                });
    }

    /** Reads lines appended since; an unfinished line of a killed process is cut off. */
    private void readNames(FileChannel channel) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(Math.toIntExact(channel.size() - seen));
        channel.position(seen);
        while (bytes.hasRemaining() && channel.read(bytes) >= 0) {
            continue;
        }
        int start = 0;
        for (int i = 0; i < bytes.position(); i++) {
            if (bytes.get(i) == '\n') {
                String line = new String(bytes.array(), start, i - start, StandardCharsets.UTF_8);
                if (!line.isBlank()) {
                    names.add(MAPPER.readTree(line).path("name").asText());
                }
                start = i + 1;
            }
        }
        seen += start;
        channel.truncate(seen);
    }
}
