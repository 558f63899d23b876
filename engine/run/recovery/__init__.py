"""Finished data sets between vertices, kept where a later run of the same script goes on with them.

Below the folder of `--checkpoint-dir`, a run of a script has a folder by an id of its own:

| file | says |
|---|---|
| `claimed-<n>` | which process works on it; the next may when that one is dead |
| `done-<i>` | job number i of the script, from 0, has finished |
| `job-<i>/plan` | what identifies the plan of that job: its vertices, operators and edges |
| `job-<i>/id-<job id>` | a run of the script has had this job under that id |
| `job-<i>/<vertex id>/…` | blocks that a vertex has put out, a file for each attempt of a subtask |
| `job-<i>/<vertex id>.complete` | all its subtasks have finished: the files that count, and a code of these |

The code is one that only the key of the user's state folder makes: it shows that this user's Penstock has
kept the files, which hold pickles. Files are written once, for this user only, and are on the disk before
anything says that they are there. Nothing here imports pyspark.

Source: org.apache.flink.runtime.io.network.partition (blocking results), and
org.apache.flink.runtime.scheduler.adaptivebatch.BatchJobRecoveryHandler, for what is recovered.
"""
