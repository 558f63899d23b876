package penstock.flink;

import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationRequestGateway;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.util.OptionalFailure;

/** The client of a job that was captured: it has finished, without results. */
final class FinishedJob implements JobClient, CoordinationRequestGateway {
    private final JobID id = new JobID();
    private final Map<String, OptionalFailure<Object>> results;

    /** `results` are the values of its accumulators. */
    FinishedJob(Map<String, OptionalFailure<Object>> results) {
        this.results = results;
    }

    @Override
    public JobID getJobID() {
        return id;
    }

    @Override
    public CompletableFuture<JobStatus> getJobStatus() {
        return CompletableFuture.completedFuture(JobStatus.FINISHED);
    }

    @Override
    public CompletableFuture<Void> cancel() {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<String> stopWithSavepoint(
            boolean advanceToEndOfEventTime, String directory, SavepointFormatType format) {
        return noSavepoint();
    }

    @Override
    public CompletableFuture<String> triggerSavepoint(String directory, SavepointFormatType format) {
        return noSavepoint();
    }

    @Override
    public CompletableFuture<Map<String, Object>> getAccumulators() {
        return CompletableFuture.completedFuture(Collections.emptyMap());
    }

    @Override
    public CompletableFuture<JobExecutionResult> getJobExecutionResult() {
        return CompletableFuture.completedFuture(new JobExecutionResult(id, 0, results));
    }

    // Flink up to 1.20 names operators by id, later ones by a string; collecting calls neither for a finished job.

    public CompletableFuture<CoordinationResponse> sendCoordinationRequest(
            OperatorID operator, CoordinationRequest request) {
        return noCoordinator();
    }

    public CompletableFuture<CoordinationResponse> sendCoordinationRequest(
            String operator, CoordinationRequest request) {
        return noCoordinator();
    }

    private static CompletableFuture<String> noSavepoint() {
        return failed("a captured job has no savepoint");
    }

    private static CompletableFuture<CoordinationResponse> noCoordinator() {
        return failed("a captured job has no coordinators");
    }

    private static <T> CompletableFuture<T> failed(String message) {
        CompletableFuture<T> failed = new CompletableFuture<>();
        failed.completeExceptionally(new UnsupportedOperationException(message));
        return failed;
    }
}
