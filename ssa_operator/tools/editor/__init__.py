"""What `ssa-operator lsp` answers an editor: pure rules over a loaded project, a text and a place in it.

Promises:
- Every rule answers for every place of every text, however broken: with nothing, if there is nothing to say.
- No rule reads a cluster, and none shows a Secret's content.
- Only `server` and `protocol_values` know the protocol. The others know texts, lines and columns.
"""
