# The operator with the templates and CRDs of this repository:   docker build -t ssa-operator .
# One that starts again when its code changes, for Tilt:         docker build -t ssa-operator --target dev .
# The classic builder suffices (DOCKER_BUILDKIT=0). BASE is any image that has Python 3.11 or later as `python`.
ARG BASE=python:3.13-slim


FROM ${BASE} AS environment
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# What changes seldom comes first: the layer with the dependencies is kept until the constraints change.
COPY constraints/build.txt constraints/runtime.txt constraints/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-compile --require-hashes --requirement constraints/build.txt \
 && python -m venv --without-pip /opt/venv \
 && /opt/build/bin/pip --python /opt/venv install --no-compile --only-binary :all: --require-hashes \
    --requirement constraints/runtime.txt
COPY deploy/image/prune.sh deploy/image/
RUN sh deploy/image/prune.sh "$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
COPY pyproject.toml README.md LICENSE ./
COPY ssa_operator ssa_operator
# Compiled here, and never compared with the source again: the root file system is read-only where this runs.
RUN /opt/build/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/build/bin/pip --python /opt/venv install --no-compile --no-index --no-deps dist/*.whl \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv


FROM ${BASE} AS base
COPY --from=environment /opt/venv /opt/venv
# A numeric user, so that the kubelet can check runAsNonRoot. It has no home and writes nothing but, with a kubeconfig,
# temporary files of its client certificate. Its entry gives it its group: the kubelet takes no more than the number of the
# user from an image, and a user without an entry would be in root's group.
RUN echo 'ssa-operator:x:65532:65532::/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'ssa-operator:x:65532:' >>/etc/group
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
EXPOSE 8080
USER 65532:65532


FROM base AS dev
# The code in /app goes before the installed one. All of /app belongs to the user: Tilt writes what changes into it.
ENV PYTHONPATH=/app
COPY --chown=65532:65532 ssa_operator ssa_operator
COPY --chown=65532:65532 crds crds
COPY --chown=65532:65532 templates templates
# Changed code starts the operator again; changed templates it takes by itself.
ENTRYPOINT ["watchfiles", "--filter", "python", "ssa-operator run", "/app/ssa_operator"]


# The last stage is what is built where none is named.
FROM base
COPY crds crds
COPY templates templates
ENTRYPOINT ["ssa-operator"]
CMD ["run"]
