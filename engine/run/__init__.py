"""Running jobs, from the calls of a script to tasks on Spark and the records of a run."""
