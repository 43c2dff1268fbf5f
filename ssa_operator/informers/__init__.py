"""The informers: of parents, of children, of what templates look up, of CRDs."""
