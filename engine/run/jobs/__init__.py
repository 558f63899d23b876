"""Jobs of this user, as they are listed while they run and after: a folder for each, written by its driver.

A folder is `state_folder("jobs")/<job id>`. Only the driver writes into it, but for `cancel`:

| file | holds |
|---|---|
| `job.json` | what was submitted (`SubmittedJob`); written once |
| `plan/<table>.arrow` | every table of the plan that runs |
| `runs.arrow`, `executions.arrow` | how it goes, in the schemas of plans.tables; replaced whole |
| `cancel` | somebody asks the driver to cancel the job |
| `log` | standard output and standard error of a detached driver |

Nothing here imports pyspark.
"""
