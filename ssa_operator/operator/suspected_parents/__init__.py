"""A parent that held up or ended the process is named, and comes last and alone after a restart."""
