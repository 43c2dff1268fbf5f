"""The informers: of parents, of children, of what templates look up, and of CRDs."""
