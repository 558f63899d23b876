"""Running jobs: from the calls of a script to tasks on Spark, and what is kept of a run."""
