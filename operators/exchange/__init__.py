"""How records get from a subtask to the subtasks that read it: partitioners, blocks of bytes, gates."""
