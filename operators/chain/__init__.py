"""The operators of one JobVertex inside a subtask, which push records from head to tail."""
