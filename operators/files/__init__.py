"""Reading files: which there are, how they are cut over the subtasks, and what their bytes mean."""
