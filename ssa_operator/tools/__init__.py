"""The parts of the commands, a room for each purpose."""
