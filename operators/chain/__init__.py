"""The operators of one JobVertex as they run inside a subtask: records pushed from head to tail."""
