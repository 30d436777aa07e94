# Two images: `app` for web, worker and beat, `graph` for the SPARQL server that the PyPI package oxigraph ships.

FROM python:3.11.9-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

FROM base AS graph
RUN apt-get update && apt-get install -y --no-install-recommends e2fsprogs && rm -rf /var/lib/apt/lists/*
RUN pip install oxigraph==0.5.13
COPY deploy/oxigraph.sh /usr/local/bin/oxigraph-durable
RUN useradd --uid 10001 graph && install -d -o graph /store
USER graph
VOLUME /store
EXPOSE 7878
CMD ["oxigraph-durable", "/store", "0.0.0.0:7878"]

FROM base AS app
WORKDIR /app
COPY requirements.txt .
RUN pip install -r requirements.txt "psycopg[binary]==3.3.9"
COPY manage.py pyproject.toml ./
COPY charactermemory charactermemory
COPY memory_app memory_app
COPY config config
RUN useradd --uid 10001 --create-home app && install -d -o app data
USER app
EXPOSE 8000
CMD ["gunicorn", "-c", "python:config.gunicorn", "--bind", "0.0.0.0:8000", "config.wsgi"]
