"""Facts that must outlive the process are recorded in annotations of the parent before the object is created."""
