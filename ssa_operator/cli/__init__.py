"""The command line, one module a command. Commands import expensive modules when they run, so that `--help` is fast."""
