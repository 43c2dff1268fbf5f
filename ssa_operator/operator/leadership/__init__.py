"""At most one of several replicas writes, even if a process was stopped and wakes up."""
