"""What must outlive the process is recorded in annotations of the parent before the object is created."""
