"""Parents of files, rendered and judged without a cluster."""
