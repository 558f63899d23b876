"""Why a job failed, as one message: what its subtasks reported, else what Spark says."""

from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.runtime.compile_job import CompiledJob
from penstock.engine.runtime.errors import JobExecutionError
from penstock.engine.runtime.job_monitor import Attempt, JobMonitor
from penstock.engine.spark.describe_disk_error import disk_error_of_spark
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.operators.chain.describe_error import shortened
from penstock.plans.vocabulary import ExecutionState

_NAME_CHARACTERS = 200
#: What Spark says where a Python worker has ended in the middle of its work.
_SIGNS_OF_A_DEAD_WORKER = (
    "EOFException",
    "Python worker exited unexpectedly",
    "Connection reset",
    "Broken pipe",
)
_HINT_OF_A_DEAD_WORKER = (
    "a function has ended the process (os._exit), a native library has crashed, or the system has killed it "
    "for lack of memory (see the worker's standard error, and dmesg). If it is memory: give the machine more "
    "of it, run fewer subtasks at a time (a smaller parallelism, spark.executor.cores or local[n]), or keep "
    "less in functions and state (penstock.state.memory-bytes)"
)
#: What it says where that has happened to a worker before this job had it.
_SIGN_OF_WORKERS_DEAD_BEFORE = "IOException: Stream closed"
_WORKERS_DEAD_BEFORE = (
    "the process that Python workers are forked from has been killed, and the workers too; Spark starts "
    "them anew for the next job"
)


def describe_failure(
    name: str, compiled: CompiledJob, monitor: JobMonitor, error: Exception
) -> JobExecutionError:
    """What becomes of `error`, which Spark raised for the job `name`: job, vertex, operator, subtask, record,
    cause and hint. The attempt of a worker that died is marked as failed.
    """
    monitor.catch_up()
    attempt = monitor.first_failure()
    if attempt is not None:
        return _of_report(name, compiled, attempt)
    text = describe_spark_error(error)
    if any(sign in text or sign in str(error) for sign in _SIGNS_OF_A_DEAD_WORKER):
        lost = monitor.first_lost()
        if lost is not None:
            return _of_dead_worker(name, compiled, lost)
    if _SIGN_OF_WORKERS_DEAD_BEFORE in text:
        text = _WORKERS_DEAD_BEFORE
    refused = disk_error_of_spark(error)
    if refused is not None:
        text = refused.message
    return with_exit_code_of_disk(
        JobExecutionError(f"job {name!r} failed: {text}", refused.hint if refused else None)
    )


def _of_report(name: str, compiled: CompiledJob, attempt: Attempt) -> JobExecutionError:
    failure = attempt.failure or {}
    where = "vertex"
    if "operator" in failure:
        where = f"operator {shortened(failure['operator'], _NAME_CHARACTERS)!r} of vertex"
    during = f"{failure['during']}: " if failure.get("during") else ""
    message = (
        f"job {name!r} failed in {where} {_place(compiled, attempt)}: "
        f"{during}{failure.get('cause') or failure.get('error')}"
    )
    if failure.get("frames"):
        message = f"{failure['frames']}\n{message}"
    for label in ("record", "hint"):
        if failure.get(label):
            message += f"\n  {label}: {failure[label]}"
    result = with_exit_code_of_disk(JobExecutionError(message))
    result.add_note(failure.get("traceback", ""))
    return result


def _of_dead_worker(name: str, compiled: CompiledJob, attempt: Attempt) -> JobExecutionError:
    cause = "its Python worker died without a word"
    attempt.failure = {"error": cause}
    attempt.enter(ExecutionState.FAILED, attempt.lost_at)
    return JobExecutionError(
        f"job {name!r} failed in vertex {_place(compiled, attempt)}: {cause}, after "
        f"{attempt.records_in:,} records in and {attempt.records_out:,} out at its last report\n"
        f"  hint: {_HINT_OF_A_DEAD_WORKER}"
    )


def _place(compiled: CompiledJob, attempt: Attempt) -> str:
    chain = next(one.chain for one in compiled.vertices if one.chain.vertex == attempt.vertex)
    return (
        f"{shortened(chain.name, _NAME_CHARACTERS)!r}, subtask {attempt.subtask + 1} of {chain.parallelism}, "
        f"attempt {attempt.attempt_number}"
    )
