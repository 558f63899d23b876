"""What a job's author writes and is handed: function classes, contexts, the runtime context, metrics."""
