"""A PostgreSQL cluster of the tests' own, in a temporary folder, reached by a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder with initdb and pg_ctl: on the path, or where Debian puts the newest; None if there is none."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


class PostgresServer:
    """A running cluster. Its user needs no password; nothing is synced to disk, for nothing has to last."""

    def __init__(self, binaries: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has 107 bytes at most
        self._binaries = binaries
        # The server refuses to run as root.
        self._as = USER if os.geteuid() == 0 else None
        if self._as:
            shutil.chown(self.folder, self._as)
        data = self.folder / "data"
        self._run("initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", data, "-w", "-l", self.folder / "log", "-o", options, "start")

    @property
    def settings(self) -> dict[str, str]:
        """What goes into DATABASES."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": USER,
            "HOST": str(self.folder),
        }

    def stop(self) -> None:
        """Stop it and remove everything."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            user=self._as,
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server that pg_ctl leaves behind would keep it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
