#!/bin/sh
# Stands in for go: makes files with the right names, and writes the programs of each build to the file $GO_COUNT. With
# $GO_PROGRAMS it copies the programs from that folder. With $GO_GATE the build of a controller waits for that file.
# With $GO_FAILS it fails; if that is `kwok`, only for kwok, after the gate.
make_program() { # the program, its file
  if [ -n "$GO_PROGRAMS" ]; then cp "$GO_PROGRAMS/$1" "$2"; else printf '#!/bin/sh\n' >"$2" && chmod +x "$2"; fi
}
case "$1" in
env) echo "${GO_VERSION:-go1.26.1}" ;;
list)
  [ -z "${GO_FAILS#kwok}" ] || { echo "module lookup disabled" >&2; exit 1; }
  echo "go: downloading k8s.io/api" >&2
  shift 2
  for package; do echo k8s.io/api && echo "$package"; done
  ;;
build)
  mkdir -p "$GOCACHE" && : >"$GOCACHE/compiled"
  while [ "$1" != -o ]; do shift; done
  folder=$2
  shift 2
  echo "$*" >>"$GO_COUNT"
  [ -z "$GO_HANGS" ] || { sleep 1000 & wait; }
  echo k8s.io/api >&2
  for package; do
    case "$package" in
    */v3) make_program etcd "${folder}server" ;;
    */kube-apiserver) make_program kube-apiserver "${folder}kube-apiserver" ;;
    *)
      while [ -n "$GO_GATE" ] && [ ! -e "$GO_GATE" ]; do sleep 0.05; done
      make_program "${package##*/}" "$folder${package##*/}"
      ;;
    esac
    echo "$package" >&2
  done
  ;;
install)
  if [ "$GO_FAILS" = kwok ]; then
    while [ -n "$GO_GATE" ] && [ ! -e "$GO_GATE" ]; do sleep 0.05; done
    echo "no module of kwok" >&2
    exit 1
  fi
  make_program kwok "$GOBIN/kwok"
  ;;
esac
