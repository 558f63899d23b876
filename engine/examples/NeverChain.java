import java.io.BufferedInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.util.List;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;

/** A planner in Java that chains no operators. It must not print to standard output. */
public class NeverChain {
    public static void main(String[] arguments) throws Exception {
        InputStream in = new BufferedInputStream(new FileInputStream(FileDescriptor.in));
        FileOutputStream out = new FileOutputStream(FileDescriptor.out);
        RootAllocator memory = new RootAllocator();
        out.write("{\"decides\": \"chaining\", \"reads\": [\"stream_edges\"]}\n".getBytes("UTF-8"));
        while (hasMore(in)) { // a batch of topologies: one stream, as one table is read
            ArrowStreamReader edges = new ArrowStreamReader(in, memory);
            VectorSchemaRoot rows = edges.getVectorSchemaRoot();
            BitVector chainable = new BitVector("chainable", memory);
            VectorSchemaRoot answer = new VectorSchemaRoot(List.of(
                    rows.getVector("topology_id"), rows.getVector("target"), rows.getVector("in_index"), chainable));
            ArrowStreamWriter writer = new ArrowStreamWriter(answer, null, Channels.newChannel(out));
            writer.start();
            while (edges.loadNextBatch()) {
                chainable.allocateNew(rows.getRowCount());
                for (int row = 0; row < rows.getRowCount(); row++) {
                    chainable.set(row, 0);
                }
                answer.setRowCount(rows.getRowCount());
                writer.writeBatch();
            }
            writer.end();
            chainable.close();
            edges.close(false); // standard input stays open
        }
    }

    private static boolean hasMore(InputStream in) throws Exception {
        in.mark(1);
        boolean more = in.read() >= 0;
        in.reset();
        return more;
    }
}
