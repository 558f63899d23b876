"""The run of a script that `--resume` and `penstock clean` name by the id of one of its jobs."""

from penstock.engine.run.jobs.job_records import JobRecord, find_job, list_jobs
from penstock.engine.run.recovery.kept_script import KeptScript, scripts_in
from penstock.plans.errors import InputError


def find_kept(prefix: str, checkpoint_dir: str | None) -> tuple[KeptScript, JobRecord | None]:
    """The run of the script of the job whose id begins with `prefix`, and the job if it is listed.

    Jobs are looked for in the list and, with `checkpoint_dir`, there. InputError where there is none, where
    several have such ids, or where nothing of it is kept.
    """
    if checkpoint_dir is not None and prefix.strip():
        kept = {
            script.folder
            for script in scripts_in(checkpoint_dir)
            for _, job in script.jobs()
            if any(job_id.startswith(prefix.strip().lower()) for job_id in job.ids())
        }
        if len(kept) > 1:
            raise InputError(f"{checkpoint_dir} keeps several jobs whose ids begin with {prefix!r}")
        if kept:
            listed = [
                listed_job
                for listed_job in list_jobs()
                if listed_job.job_id.startswith(prefix.strip().lower())
            ]
            return KeptScript(kept.pop()), listed[0] if len(listed) == 1 else None
    record = find_job(prefix)
    if record.submitted.kept_in is None:
        raise InputError(
            f"job {record.job_id} keeps nothing to go on with",
            "`penstock run --checkpoint-dir DIR` keeps what its vertices have finished",
        )
    script = KeptScript(record.submitted.kept_in)
    if not any(record.job_id in job.ids() for _, job in script.jobs()):
        why = "it is FINISHED" if record.state == "FINISHED" else "it was removed"
        raise InputError(f"nothing is kept of job {record.job_id}: {why}")
    return script, record
