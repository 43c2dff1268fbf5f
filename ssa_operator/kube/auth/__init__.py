"""Credentials of the operator: kubeconfigs, service accounts, tokens, certificates and proxies."""
