"""How the API server knows us: kubeconfigs, service accounts, tokens, certificates, proxies."""
