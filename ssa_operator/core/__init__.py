"""The rules of the operator as pure functions over values: no I/O, no clock, no randomness, no logging."""
