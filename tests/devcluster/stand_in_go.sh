#!/bin/sh
# Stands in for go: makes files with the right names, and counts its builds in the file $GO_COUNT.
case "$1" in
env) echo "${GO_VERSION:-go1.26.1}" ;;
build)
  echo "$$" >>"$GO_COUNT"
  [ -z "$GO_HANGS" ] || { sleep 1000 & wait; }
  [ -z "$GO_FAILS" ] || { echo "module lookup disabled" >&2; exit 1; }
  mkdir -p "$GOCACHE" && : >"$GOCACHE/compiled"
  while [ "$1" != -o ]; do shift; done
  echo k8s.io/api >&2
  for name in server kube-apiserver kube-controller-manager kube-scheduler; do
    printf '#!/bin/sh\n' >"$2$name" && chmod +x "$2$name"
  done
  ;;
install) printf '#!/bin/sh\n' >"$GOBIN/kwok" && chmod +x "$GOBIN/kwok" ;;
esac
