"""From events to passes: the queue, the pass itself, and the operator that runs one for every parent."""
