"""What counts as immutable: fields of built-in kinds, and rules of CRDs about the old value."""
