"""Of several replicas, at most one writes, even after a process was stopped and wakes up."""
