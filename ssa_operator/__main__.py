"""`python -m ssa_operator`."""

from ssa_operator.cli.main import main

main()
