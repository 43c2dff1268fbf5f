"""The Common Expression Language of CRD validation rules.

No package on PyPI evaluates Kubernetes' dialect. cel-python has no optional fields and doesn't compare integers with
doubles; common-expression-language counts the bytes of a string in `size`; cel-expr-python, of 52 MB, takes no values
of other types. None has Kubernetes' libraries (quantities, URLs, IP addresses) or lists
of type set and map. This implementation has no semantic versions, no sets, and no macros with two variables, which
hardly any CRD uses. It reports what it doesn't know, so that no rule refuses an object by mistake.

https://kubernetes.io/docs/reference/using-api/cel/
"""
