package penstock.flink.measured;

import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** Functions that use the processor for a known time for each record. */
final class Work {
    /** Records that each subtask of a source has emitted in the job that runs. */
    static final Map<Subtask, AtomicLong> EMITTED = new ConcurrentHashMap<>();

    private static final double ITERATIONS_PER_NANOSECOND = calibrate();

    private Work() {}

    static double iterationsPerNanosecond() {
        return ITERATIONS_PER_NANOSECOND;
    }

    /** One subtask of an operator. */
    static final class Subtask {
        final int operator;

        Subtask(int operator) {
            this.operator = operator;
        }
    }

    static long spin(long state, int iterations) {
        for (int i = 0; i < iterations; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        return state;
    }

    /** Works for a time measured by this thread's processor time, which other threads do not affect. */
    private static double calibrate() {
        long state = 88172645463325252L;
        double best = 0;
        for (int round = 0; round < 20; round++) {
            long started = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            for (int i = 0; i < 20_000; i++) {
                state = spin(state, 1_000);
            }
            long spent = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - started;
            best = Math.max(best, 20e6 / spent);
        }
        return state == 0 ? 1 : best;
    }

    private static int iterations(double nanoseconds) {
        return (int) Math.round(nanoseconds * ITERATIONS_PER_NANOSECOND);
    }

    /** Processes a record in operators of all kinds. */
    abstract static class Costly implements Serializable {
        private static final long serialVersionUID = 1;
        private final double nanoseconds;
        private final int payload;
        private transient int loops;
        private transient byte[] bytes;
        private long state = 88172645463325252L;

        Costly(double nanoseconds, int recordBytes) {
            this.nanoseconds = nanoseconds;
            // A long and the length of the array precede it.
            this.payload = Math.max(0, recordBytes - 12);
        }

        void work() {
            if (bytes == null) {
                loops = iterations(nanoseconds);
                bytes = new byte[payload];
            }
            state = spin(state, loops);
        }

        Tuple2<Long, byte[]> record(long key) {
            return Tuple2.of(key, bytes);
        }
    }

    /** A source's records: its number and bytes. */
    static final class Generate extends Costly implements GeneratorFunction<Long, Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1;
        private final int operator;
        private transient AtomicLong count;
        private transient long emitted;

        Generate(int operator, double nanoseconds, int recordBytes) {
            super(nanoseconds, recordBytes);
            this.operator = operator;
        }

        @Override
        public void open(SourceReaderContext context) {
            count = new AtomicLong();
            EMITTED.put(new Subtask(operator), count);
        }

        @Override
        public Tuple2<Long, byte[]> map(Long number) {
            work();
            count.lazySet(++emitted);
            return record(number);
        }
    }

    /** Emits `selectivity` records on average for each record, to its outputs in turn. */
    static final class Process extends ProcessFunction<Tuple2<Long, byte[]>, Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1;
        private final Inner inner;
        private final double selectivity;
        private final OutputTag<Tuple2<Long, byte[]>>[] tags;
        private double due;
        private int turn;

        /** `tags`: its outputs; null is the main one. */
        Process(double nanoseconds, int recordBytes, double selectivity, OutputTag<Tuple2<Long, byte[]>>[] tags) {
            this.inner = new Inner(nanoseconds, recordBytes);
            this.selectivity = selectivity;
            this.tags = tags;
        }

        @Override
        public void processElement(Tuple2<Long, byte[]> value, Context context, Collector<Tuple2<Long, byte[]>> out) {
            inner.work();
            for (due += selectivity; due >= 1; due--) {
                OutputTag<Tuple2<Long, byte[]>> tag = tags[turn];
                turn = turn + 1 == tags.length ? 0 : turn + 1;
                if (tag == null) {
                    out.collect(inner.record(value.f0));
                } else {
                    context.output(tag, inner.record(value.f0));
                }
            }
        }
    }

    /** Only works. */
    static final class Drop implements SinkFunction<Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1;
        private final Inner inner;

        Drop(double nanoseconds) {
            this.inner = new Inner(nanoseconds, 0);
        }

        @Override
        public void invoke(Tuple2<Long, byte[]> value, Context context) {
            inner.work();
        }
    }

    /** The work of a function that extends one of Flink's classes. */
    private static final class Inner extends Costly {
        private static final long serialVersionUID = 1;

        Inner(double nanoseconds, int recordBytes) {
            super(nanoseconds, recordBytes);
        }
    }
}
