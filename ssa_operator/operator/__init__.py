"""The process: template folders, the work queue, its workers, HTTP and metrics."""
