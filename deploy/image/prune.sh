#!/bin/sh
# Removes the parts of the official Kubernetes client that ssa-operator does not use from an environment: the models and calls of
# every API group, which the client loads on demand, and its asyncio half; 74 of its 75 MB. The rest renews the tokens of a
# kubeconfig's auth-provider (ssa_operator/kube/auth/credential_plugins.py).
#
# Usage: prune.sh SITE_PACKAGES
set -eu
package=${1:?usage: prune.sh SITE_PACKAGES}/kubernetes
[ -f "$package/config/kube_config.py" ] || { echo "prune.sh: $package is not the official Kubernetes client" >&2; exit 1; }
rm -r "$package/aio"
find "$package/client/api" "$package/client/models" -type f ! -name __init__.py -delete
find "$package" -type f ! -name '*.py' -delete
find "$package" -name '*_test.py' -delete
find "$package" -depth -type d -empty -delete
