"""The number of replicas that others set stays: during a recreation, a crash, and after a template stops writing it."""
