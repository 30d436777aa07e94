"""What a Django project needs for memory_app: the app, a database, and CHARACTER_MEMORY."""

import os
from pathlib import Path

from memory_app.schedule import CELERY_SETTINGS

DATA = Path(os.environ.get("COMPANION_DATA") or Path(__file__).resolve().parents[1] / "data")
DATA.mkdir(parents=True, exist_ok=True)

DEBUG = True
# For trying out on one's own machine; a deployment has a secret of its own and DEBUG off.
SECRET_KEY = "not-a-secret-for-this-runs-on-your-own-machine-only"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "memory_app",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
ROOT_URLCONF = "companion.urls"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA / "db.sqlite3",
        # The repair thread and the requests write at the same time.
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL",
        },
    }
}

# Everything else has a default: embedded stores, the bundled embedder, repairs by a thread of the process.
CHARACTER_MEMORY = {
    "OXIGRAPH_PATH": DATA / "graph",
    "VECTOR_STORE_PATH": DATA / "vectors",
    "EMBEDDING_PROVIDER": "wordllama",
}

# Only for stores that are servers; then the repairs run in Celery.
globals().update(CELERY_SETTINGS)
CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "redis://127.0.0.1:6379/0")

# The companion. Without a model it answers with what comes to its mind.
COMPANION_NAME = os.environ.get("COMPANION_NAME", "Robin")
COMPANION_MODEL = os.environ.get("COMPANION_MODEL", "")
OPENAI_BASE_URL = os.environ.get("OPENAI_BASE_URL") or None
OPENAI_API_KEY = os.environ.get("OPENAI_API_KEY") or "none"
