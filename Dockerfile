# One image for watcher, worker and Flower, from the packages that the lock files name, by hash.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.lock pyproject.toml LICENSE ./
# The tools of development build the wheel, and are left behind in this stage.
RUN python -m venv /build && /build/bin/pip install --quiet --no-deps --require-hashes -r requirements.lock
COPY deploy/requirements.lock deploy/
RUN python -m venv /opt/foldahead \
    && /opt/foldahead/bin/pip install --quiet --no-deps --require-hashes -r deploy/requirements.lock
COPY shared shared
COPY worker worker
RUN /build/bin/python -m build --wheel --no-isolation --outdir /wheels . \
    && /opt/foldahead/bin/pip install --quiet --no-deps --no-index /wheels/*.whl

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin foldahead
COPY --from=build /opt/foldahead /opt/foldahead
COPY deploy/entrypoint.sh /usr/local/bin/entrypoint
ENV PATH=/opt/foldahead/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["entrypoint"]
CMD ["foldahead", "--help"]
