"""Shows and changes the rollouts of template folders: what `ssa-operator rollout` is made of."""
