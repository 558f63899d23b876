"""The Spark side: sessions, running the passes, the plan store and the command line."""
