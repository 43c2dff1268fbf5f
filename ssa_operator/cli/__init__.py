"""The command line: one module a command. Heavy imports stay inside the commands, so that `--help` is instant."""
