#!/bin/sh
# Takes the parts of the official Kubernetes client out of an environment that ssa-operator does not import: all but the
# reading of kubeconfigs, 74 of its 75 MB. ssa_operator/kube/official.py says what is imported, and how.
#
# Usage: prune.sh SITE_PACKAGES
set -eu
package=${1:?usage: prune.sh SITE_PACKAGES}/kubernetes
[ -f "$package/aio/config/kube_config.py" ] || { echo "prune.sh: $package is not the official Kubernetes client" >&2; exit 1; }
find "$package" -type f ! -path "$package/__init__.py" ! -path "$package/aio/config/*.py" -delete
find "$package/aio/config" -name '*_test.py' -delete
find "$package" -depth -type d -empty -delete
