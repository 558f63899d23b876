"""The list of this user's jobs, running and ended, with a folder for each job, written by its driver.

A folder is `state_folder("jobs")/<job id>`. Only the driver writes into it, except for `cancel`:

| file | content |
|---|---|
| `job.json` | the submission (`SubmittedJob`); written once |
| `plan/<table>.arrow` | every table of the plan that runs |
| `runs.arrow`, `executions.arrow` | the state of the job, in the schemas of plans.tables; replaced whole |
| `cancel` | a request to the driver to cancel the job |
| `log` | standard output and standard error of a detached driver |

Nothing here imports pyspark.
"""
