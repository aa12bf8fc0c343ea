# `xmtc serve` as an image: small, not root, and nothing to compile or to write when it starts.
#
#   docker build -t xmtc .
#   docker run --read-only -p 8000:8000 -v "$PWD/tagger:/models/tagger:ro" xmtc
#
# For networks: --build-arg EXTRAS=serve,neural. `tools/check_image.py` runs these steps where there is no Docker.
FROM python:3.12-slim AS build
ARG EXTRAS=serve
COPY . /build
RUN python -m venv /app/venv
RUN /app/venv/bin/pip install --no-cache-dir --constraint /build/constraints.txt "/build[$EXTRAS]"
# The libraries' own tests, and pip, are nothing that a server needs: 130 MB.
RUN find /app/venv -type d -name tests -prune -exec rm -r {} + && /app/venv/bin/python -m pip uninstall --yes pip
# Compiled for every processor of this architecture, not for the one that builds the image.
ENV NUMBA_CPU_NAME=generic
RUN /app/venv/bin/xmtc warm --cache /app/cache

FROM python:3.12-slim
COPY --from=build /app /app
ENV PATH=/app/venv/bin:$PATH NUMBA_CACHE_DIR=/app/cache NUMBA_CPU_NAME=generic
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65534:65534
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=3)"]
ENTRYPOINT ["xmtc"]
CMD ["serve", "/models/tagger", "--host", "0.0.0.0"]
