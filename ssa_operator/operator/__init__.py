"""The controllers: informers, the work queue, the reconcile of a parent, and the operator that runs them."""
