"""Local and remote files, which are found, cut over the subtasks, opened, read by lines, forced to disk."""
