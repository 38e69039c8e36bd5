# docker build -t streamplace .                          commands without Spark
# docker build -t streamplace:spark --target spark .     also sweep, report, trace, replay
# docker run --rm -v "$PWD:/work" streamplace solve cluster.json -o plan.json
#
# Kernels are compiled at first use, for the CPU at hand. Keep them in a volume:
# -e NUMBA_CACHE_DIR=/kernels -v kernels:/kernels

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
RUN pip install --no-cache-dir "hatchling>=1.25,<2"
COPY . .
RUN python -m hatchling build -t wheel -d /dist

FROM python:3.11-slim-bookworm AS base
COPY constraints.txt /dist/
COPY --from=wheel /dist/*.whl /dist/
RUN pip install --no-cache-dir -c /dist/constraints.txt /dist/*.whl \
    && useradd --create-home --uid 1000 user \
    && mkdir /kernels && chown user /kernels
WORKDIR /work
ENTRYPOINT ["streamplace"]
CMD ["--help"]

FROM base AS spark
RUN pip install --no-cache-dir -c /dist/constraints.txt "$(echo /dist/*.whl)[spark]"
USER 1000

FROM base AS slim
USER 1000
