import org.apache.flink.configuration.Configuration;

/** A job whose program, with Flink, is in a loader of its own. */
public class JobInOwnLoader {
    public static void run(String file) throws Exception {
        Jobs.job(new Configuration(), file).execute("own-loader");
    }
}
