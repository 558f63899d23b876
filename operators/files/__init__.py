"""Files, local and remote: found, cut over the subtasks, opened, read by lines, forced to disk."""
