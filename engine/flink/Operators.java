package penstock.flink;

import java.util.List;

import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.Partitioner;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.co.CoMapFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.ParallelSourceFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorV2;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.Input;
import org.apache.flink.streaming.api.operators.MultipleInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamMap;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.StreamSink;
import org.apache.flink.streaming.api.operators.StreamSource;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperatorFactory;
import org.apache.flink.streaming.api.operators.co.CoStreamMap;

/**
 * An operator for every kind of transformation. They never run: the planner reads their classes and
 * defaults, and serialises them. (They are classes because lambdas take several times as long to serialise.)
 */
final class Operators {
    private static final long ASYNC_TIMEOUT_MILLISECONDS = 1000;
    private static final int ASYNC_CAPACITY = 10;

    private Operators() {}

    static StreamSource<Long, NoRecords> legacySource() {
        return new StreamSource<>(new NoRecords());
    }

    static StreamMap<Long, Long> map() {
        return new StreamMap<>(new Identity());
    }

    static CoStreamMap<Long, Long, Long> coMap() {
        return new CoStreamMap<>(new CoIdentity());
    }

    static AsyncWaitOperatorFactory<Long, Long> asyncWait() {
        return new AsyncWaitOperatorFactory<>(
                new NoAnswer(), ASYNC_TIMEOUT_MILLISECONDS, ASYNC_CAPACITY, AsyncDataStream.OutputMode.ORDERED);
    }

    static StreamSink<Long> discard() {
        return new StreamSink<>(new DiscardingSink<>());
    }

    static final class NoRecords implements ParallelSourceFunction<Long> {
        @Override
        public void run(SourceContext<Long> context) {}

        @Override
        public void cancel() {}
    }

    static final class Identity implements MapFunction<Long, Long> {
        @Override
        public Long map(Long value) {
            return value;
        }
    }

    static final class CoIdentity implements CoMapFunction<Long, Long, Long> {
        @Override
        public Long map1(Long value) {
            return value;
        }

        @Override
        public Long map2(Long value) {
            return value;
        }
    }

    static final class NoAnswer implements AsyncFunction<Long, Long> {
        @Override
        public void asyncInvoke(Long input, ResultFuture<Long> result) {}
    }

    static final class Key implements KeySelector<Long, Long> {
        @Override
        public Long getKey(Long value) {
            return value;
        }
    }

    static final class Modulo implements Partitioner<Long> {
        @Override
        public int partition(Long key, int partitions) {
            return (int) (key % partitions);
        }
    }

    /** Makes operators that chain with the sources before them. */
    static final class SeveralInputsFactory extends AbstractStreamOperatorFactory<Long> {
        SeveralInputsFactory() {
            chainingStrategy = ChainingStrategy.HEAD_WITH_SOURCES;
        }

        @Override
        public <T extends StreamOperator<Long>> T createStreamOperator(StreamOperatorParameters<Long> parameters) {
            throw new UnsupportedOperationException("operators are planned and not run");
        }

        @Override
        @SuppressWarnings("rawtypes")
        public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
            return SeveralInputs.class;
        }
    }

    abstract static class SeveralInputs extends AbstractStreamOperatorV2<Long>
            implements MultipleInputStreamOperator<Long> {
        SeveralInputs(StreamOperatorParameters<Long> parameters, int inputs) {
            super(parameters, inputs);
        }

        @Override
        @SuppressWarnings("rawtypes")
        public List<Input> getInputs() {
            return List.of();
        }
    }
}
