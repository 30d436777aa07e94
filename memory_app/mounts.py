"""Which file system a folder lies on."""

from __future__ import annotations

from pathlib import Path

NETWORK = frozenset(
    {
        "9p", "afs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
        "glusterfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
"""File systems on which neither locks nor memory maps hold across machines (consistency.md §4)."""

TABLE = Path("/proc/self/mounts")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def file_system_of(path: Path) -> str | None:
    """Return the type of the file system that `path`, which need not exist yet, lies on; None if not known."""
    try:
        lines = TABLE.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        for escape, character in _ESCAPES.items():
            point = point.replace(escape, character)
        # The last of several mounts at one point is the one that is seen.
        if path.is_relative_to(point) and (best is None or len(point) >= best[0]):
            best = len(point), kind
    return best[1] if best else None
