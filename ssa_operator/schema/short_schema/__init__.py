"""`_schema.yaml`: the API of a template folder in short, and the CRD that it stands for.

Promises:
- A field is `type | marker=value ...`, as in kro's SimpleSchema, or a mapping of fields.
- The status always has the operator's own fields.
- The same text gives the same CRD, in the same order.
- Every mistake is an error with the field of the short schema and what to do; mistakes are reported together.
- Each part of the CRD has the field that declares it, so that an error of the API server names its line, too.
"""
