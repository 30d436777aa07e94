"""The tests. They leave nothing in the work tree: the reference project's data goes to a temporary folder."""

import os
import tempfile

_data = tempfile.TemporaryDirectory(prefix="character-memory-tests-")
os.environ["DATA_DIR"] = _data.name
os.environ["DJANGO_SECRET_KEY"] = "only-for-tests"
