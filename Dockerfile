# The operator alone:                                           docker build -t ssa-operator .
# The operator with the templates and CRDs of this repository:  docker build -t ssa-operator --target examples .
# An image that restarts when its code changes, for Tilt:       docker build -t ssa-operator --target dev .
# The classic builder is enough (DOCKER_BUILDKIT=0). BASE is any image with glibc that has Python 3.11 or later as `python`.
ARG BASE=python:3.13-slim


FROM ${BASE} AS environment
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# Layers that rarely change come first: the layer with the dependencies is kept until the constraints change.
COPY deploy/constraints deploy/constraints
RUN python -m venv /opt/build \
 && sed '/^# A release/,$d' deploy/constraints/dev.txt >/opt/build/build.txt \
 && /opt/build/bin/pip install --no-compile --only-binary :all: --require-hashes --requirement /opt/build/build.txt \
 && python -m venv --without-pip /opt/venv \
 && /opt/build/bin/pip --python /opt/venv install --no-compile --only-binary :all: --require-hashes \
    --requirement deploy/constraints/runtime.txt
COPY deploy/image/prune.sh deploy/image/
RUN sh deploy/image/prune.sh "$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
COPY pyproject.toml README.md LICENSE ./
RUN /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
    --output-file /opt/venv/sbom.cdx.json /opt/venv/bin/python
COPY ssa_operator ssa_operator
# The build compiles the modules, and Python never checks them against the source: the root file system is read-only at run time.
RUN /opt/build/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/build/bin/pip --python /opt/venv install --no-compile --no-index --no-deps dist/*.whl \
 && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv


FROM environment AS root
COPY deploy/image/root.py deploy/image/
RUN /opt/venv/bin/python -I deploy/image/root.py /opt/venv /root-of-the-image


FROM ${BASE} AS dev
COPY --from=environment /opt/venv /opt/venv
# A numeric user, so that the kubelet can check runAsNonRoot. Its entry in /etc/passwd sets its group: the kubelet reads only the
# number of the user from an image, and a user without an entry would be in root's group.
RUN echo 'ssa-operator:x:65532:65532::/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'ssa-operator:x:65532:' >>/etc/group
# The code in /app takes precedence over the installed one. The user owns all of /app, because Tilt writes changed files there.
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONPATH=/app
WORKDIR /app
EXPOSE 8080
USER 65532:65532
COPY --chown=65532:65532 ssa_operator ssa_operator
COPY --chown=65532:65532 crds crds
COPY --chown=65532:65532 templates templates
# Changed code restarts the operator. The operator reloads changed templates itself.
ENTRYPOINT ["watchfiles", "--filter", "python", "ssa-operator run", "/app/ssa_operator"]


# No shell and no package manager: Python, the operator and its dependencies. It writes only temporary files of a client
# certificate, if it has a kubeconfig. Templates and CRDs come as volumes, or with an image FROM this one.
FROM scratch AS alone
COPY --from=root /root-of-the-image /
ENV PATH=/opt/venv/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
EXPOSE 8080
USER 65532:65532
ENTRYPOINT ["ssa-operator"]
CMD ["run"]


FROM alone AS examples
COPY crds crds
COPY templates templates


# Docker builds the last stage if the command names none.
FROM alone
