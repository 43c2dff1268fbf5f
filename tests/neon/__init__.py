"""The operator of NeonDatabase: its templates, its CRD, and both on a real control plane."""
