# Images from one file: `docker build --target STAGE .` with STAGE
#   gateway         serves the API and works on runs; no torch
#   services-cpu    the five services on a CPU, with the miniature suite's weights
#   services-cuda   the same with torch for NVIDIA GPUs
#   perturber-vllm  services-cuda and vLLM
# Every package is a file whose hash a lock names, and what they start from has a digest: no build without
#   --build-arg BASE_DIGEST=sha256:...
ARG BASE=python:3.11-slim
ARG BASE_DIGEST
FROM ${BASE}@${BASE_DIGEST} AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/opt/venv/bin:$PATH
# wget: the health checks below and the probes that KubeRay adds to its pods call it.
# Debian removes a version when it mends it, so a pinned one would not build next month.
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
# Who installs is neither root nor who runs: nothing that runs can write what was installed.
RUN useradd --create-home --uid 10001 counterpose && useradd --create-home --uid 10002 builder \
    && install -d -o counterpose /var/lib/counterpose && install -d -o builder /opt/counterpose /opt/venv /opt/vllm /wheels
WORKDIR /opt/counterpose
USER 10002
COPY requirements.lock pyproject.toml tests/locks/extras.py ./
# An older pip takes no hashes from constraints.
RUN python -m venv /opt/venv && sed -n '/^pip==/,/[^\\]$/p' requirements.lock > pip.txt \
    && python -m pip install --require-hashes --only-binary :all: --requirement pip.txt

FROM base AS wheels
RUN pip install --require-hashes --only-binary :all: --constraint requirements.lock hatchling
COPY README.md LICENSE ./
COPY clients clients
COPY gateway gateway
COPY services services
COPY suites suites
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels/gateway . \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /wheels/services . ./suites/miniature

# Dependencies come before the code, so that a change of code does not rebuild their layer.
FROM base AS gateway
RUN python extras.py cli s3 otel gateway exports > gateway.txt \
    && pip install --require-hashes --only-binary :all: --constraint requirements.lock --requirement gateway.txt
COPY --from=wheels /wheels/gateway /wheels
RUN pip install --no-index --no-deps /wheels/*.whl
# By number: Kubernetes cannot tell of a name whether it is root.
USER 10001
ENV COUNTERPOSE_STATE_DIR=/var/lib/counterpose COUNTERPOSE_HOST=0.0.0.0
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["wget", "--quiet", "--tries=1", "--output-document=/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["counterpose-gateway"]
CMD ["serve"]

# With the gateway's packages, because a job's workers run on nodes of Ray.
FROM base AS services-requirements
RUN python extras.py services cli s3 otel gateway exports > services.txt

FROM services-requirements AS services-cpu
# PyTorch's index of builds for CPUs. Without it, torch comes with CUDA: it works, and takes 5 GB more.
ARG CPU_INDEX
RUN pip install ${CPU_INDEX:+--extra-index-url "$CPU_INDEX"} --require-hashes --only-binary :all: --constraint requirements.lock --requirement services.txt
COPY --from=wheels /wheels/services /wheels
RUN pip install --no-index --no-deps /wheels/*.whl
# By number: Kubernetes cannot tell of a name whether it is root.
USER 10001
# It answers the gateway in another container, and nobody without COUNTERPOSE_SECRET.
ENV COUNTERPOSE_STATE_DIR=/var/lib/counterpose COUNTERPOSE_SERVICES_HOST=0.0.0.0 RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
EXPOSE 8101
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m \
    CMD ["wget", "--quiet", "--tries=1", "--output-document=/dev/null", "http://127.0.0.1:8101/-/healthz"]
ENTRYPOINT ["counterpose-services"]
CMD ["up"]

FROM services-requirements AS services-cuda
RUN pip install --require-hashes --only-binary :all: --constraint requirements.lock --requirement services.txt
COPY --from=wheels /wheels/services /wheels
RUN pip install --no-index --no-deps /wheels/*.whl
# By number: Kubernetes cannot tell of a name whether it is root.
USER 10001
ENV COUNTERPOSE_STATE_DIR=/var/lib/counterpose COUNTERPOSE_SERVICES_HOST=0.0.0.0 COUNTERPOSE_SERVICES_DEVICE=cuda \
    RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
EXPOSE 8101
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m \
    CMD ["wget", "--quiet", "--tries=1", "--output-document=/dev/null", "http://127.0.0.1:8101/-/healthz"]
ENTRYPOINT ["counterpose-services"]
CMD ["up"]

# vLLM has its own torch: an environment of its own.
FROM base AS vllm
COPY requirements-vllm.lock ./
RUN python -m venv /opt/vllm && pip --python /opt/vllm/bin/python install --require-hashes --only-binary :all: \
    --constraint requirements-vllm.lock 'vllm==0.32.*'

FROM services-cuda AS perturber-vllm
COPY --from=vllm /opt/vllm /opt/vllm
ENV COUNTERPOSE_SERVICES_VLLM=/opt/vllm/bin/vllm
