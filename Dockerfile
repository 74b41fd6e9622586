# Images from one file: `docker build --target gateway .`, and `services` or, for an engine `vllm`, `services-vllm`.
FROM python:3.11-slim AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# wget: the probes that KubeRay adds to its pods call it.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 faultline && install -d -o faultline /var/lib/faultline
WORKDIR /opt/faultline
COPY requirements.lock pyproject.toml README.md LICENSE ./

# Dependencies come before the code, so that a change of code does not rebuild their layer.
FROM base AS gateway-dependencies
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    extras = p['optional-dependencies']; \
    print(*p['dependencies'], *extras['cli'], *(r for r in extras['gateway'] if not r.startswith('faultline')), sep='\n')" \
    > gateway.txt && pip install --constraint requirements.lock --requirement gateway.txt

FROM base AS services-dependencies
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*p['dependencies'], *p['optional-dependencies']['services'], sep='\n')" \
    > services.txt && pip install --constraint requirements.lock --requirement services.txt

FROM gateway-dependencies AS gateway
COPY clients clients
COPY gateway gateway
COPY services services
RUN pip install --no-deps .
USER faultline
ENV FAULTLINE_STATE_DIR=/var/lib/faultline FAULTLINE_HOST=0.0.0.0
EXPOSE 8080
ENTRYPOINT ["faultline-gateway"]
CMD ["serve"]

# vLLM has its own torch: an environment of its own, which the image `services-vllm` adds to `services`.
FROM base AS vllm
COPY requirements-vllm.lock ./
RUN python -m venv /opt/vllm && /opt/vllm/bin/pip install --constraint requirements-vllm.lock 'vllm==0.32.*'

FROM services-dependencies AS services
COPY clients clients
COPY gateway gateway
COPY services services
# The wheel does not contain the embedded suite's weights; they stay in the copied source folder.
RUN pip install --no-deps .
USER faultline
ENV FAULTLINE_STATE_DIR=/var/lib/faultline RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 \
    FAULTLINE_SUITE_ROOT=/opt/faultline/services/faultline_miniature/suite/weights
EXPOSE 8101
ENTRYPOINT ["faultline-services"]
CMD ["up"]

FROM services AS services-vllm
COPY --from=vllm /opt/vllm /opt/vllm
ENV FAULTLINE_SERVICES_VLLM=/opt/vllm/bin/vllm
