# The image of the job: glibc, nothing that compiles, nobody's root. At most 174 MB compressed: 45 the base (as registries show
# it), 24.5 git and what it needs, 104 ours; the last two are measured by `make image-test`, which runs the build stage's commands
# (before openssh-client, about 1 MB, and cryptography, about 5 MB, were added).
# The digest is the one of the index for all platforms that many public Dockerfiles pin for this tag, of Docker Hub and of its
# mirror public.ecr.aws; it was not asked of a registry. `docker buildx imagetools inspect python:3.13-slim-bookworm` says it.
FROM python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
COPY .github/requirements .github/requirements
RUN python -m venv /opt/reconciler \
    && /opt/reconciler/bin/pip install --require-hashes --only-binary :all: -r .github/requirements/run.txt \
    && pip install --require-hashes --only-binary :all: -r .github/requirements/build.txt
COPY . .
RUN python -m build --wheel --no-isolation --outdir /wheel \
    && /opt/reconciler/bin/pip install --no-index --no-deps /wheel/*.whl \
    && /opt/reconciler/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb
# A version of Debian's would stop building when its security team replaces it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/reconciler /opt/reconciler
# ssh and ssh-keygen refuse a user without an entry.
RUN echo 'reconciler:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
# The root may be read-only: whatever is written goes to /tmp.
ENV PATH=/opt/reconciler/bin:$PATH HOME=/tmp TMPDIR=/tmp PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["reconciler"]
CMD ["--help"]
