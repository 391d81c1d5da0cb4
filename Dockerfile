# docker build -t calipers .        docker run --rm -v "$PWD:/work" calipers score records.jsonl
FROM python:3.13-slim AS build
ARG EXTRAS=report
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY native native
COPY src src
# hadolint ignore=DL3013  # installs this folder, whose bounds are in pyproject.toml
RUN pip install --no-cache-dir --no-compile --prefix=/install ".[${EXTRAS}]"

FROM python:3.13-slim
COPY --from=build /install /usr/local
RUN useradd --uid 1000 --create-home calipers
USER 1000
WORKDIR /work
ENTRYPOINT ["calipers"]
CMD ["--help"]
