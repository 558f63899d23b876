"""The API for a job's author: function classes, contexts, the runtime context, metrics."""
