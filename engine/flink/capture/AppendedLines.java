package penstock.flink;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** A file of lines to which several processes append. */
final class AppendedLines {
    /** A JVM can lock a file only once: threads, and copies of this class in other loaders, wait for each other here. */
    private static final Object THREADS = AppendedLines.class.getName().intern();

    private AppendedLines() {}

    /** Work on the file while no one else writes to it. */
    @FunctionalInterface
    interface Action<T> {
        T apply(FileChannel channel) throws IOException;
    }

    static void append(Path file, byte[] line) throws IOException {
        locked(
                file,
                channel -> {
                    append(channel, new String(line, StandardCharsets.UTF_8));
                    return null;
                });
    }

    static <T> T locked(Path file, Action<T> action) throws IOException {
        synchronized (THREADS) {
            try (FileChannel channel =
                            FileChannel.open(
                                    file,
                                    StandardOpenOption.CREATE,
                                    StandardOpenOption.READ,
                                    StandardOpenOption.WRITE);
                    FileLock lock = channel.lock()) {
                return action.apply(channel);
            }
        }
    }

    /** Appends a line, durably; the caller has locked the file. */
    static void append(FileChannel channel, String line) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap((line.stripTrailing() + "\n").getBytes(StandardCharsets.UTF_8));
        channel.position(channel.size());
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
        channel.force(true);
    }
}
