"""The operator names a parent that held up or ended the process, and reconciles it last and alone after a restart."""
