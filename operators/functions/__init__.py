"""The API for a job's author, with function classes, contexts, the runtime context and metrics."""
