"""What the files of an index hold is read when it is opened, and no more of them is mapped than is used."""

import os
import random
import re
import sys
from pathlib import Path

import pytest

from charactermemory.adapters.qdrant import page_cache
from charactermemory.adapters.qdrant.page_cache import LARGE, read_through
from charactermemory.testing.vector_samples import EVERY_TYPE, record

MIB = 1 << 20


@pytest.fixture
def reads(monkeypatch):
    """What is read: by the file's name, the bytes without zeros."""
    found = {}
    extents = page_cache._extents

    def noted(file):
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        for start, end in extents(file):
            found.setdefault(path.name, []).append((start, end))
            yield start, end

    monkeypatch.setattr(page_cache, "_extents", noted)
    return found


def sparse_file(path, *places, size=8 * LARGE):
    """Make a file of `size` bytes that holds 64 KiB at each place and nothing else."""
    with path.open("wb") as file:
        file.truncate(size)
        for place in places:
            file.seek(place)
            file.write(b"x" * 65536)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
class TestReading:
    def test_data_is_read_and_holes_are_not(self, tmp_path, reads):
        (tmp_path / "deep").mkdir()
        sparse_file(tmp_path / "deep" / "chunk", 0, 4 * LARGE)
        read_through(tmp_path)
        covered = reads["chunk"]
        assert all(any(start <= place < end for start, end in covered) for place in (0, 4 * LARGE))
        assert sum(end - start for start, end in covered) < MIB

    def test_a_long_stretch_is_read_to_its_end(self, tmp_path, reads):
        path = tmp_path / "chunk"
        path.write_bytes(b"x" * (LARGE + MIB // 2))
        before = bytes_read()
        read_through(tmp_path)
        assert bytes_read() - before >= path.stat().st_size

    def test_small_files_are_left_to_the_engine(self, tmp_path, reads):
        sparse_file(tmp_path / "small", 0, size=LARGE - 1)
        sparse_file(tmp_path / "large", 0, size=LARGE)
        read_through(tmp_path)
        assert reads.keys() == {"large"}

    def test_a_file_of_nothing_but_a_hole(self, tmp_path, reads):
        sparse_file(tmp_path / "hole")
        read_through(tmp_path)
        assert "hole" not in reads

    def test_everything_is_read_where_holes_are_not_told(self, tmp_path, reads, monkeypatch):
        monkeypatch.setattr(page_cache, "_CAN_SKIP_HOLES", False)
        sparse_file(tmp_path / "chunk", 0)
        read_through(tmp_path)
        assert reads["chunk"] == [(0, 8 * LARGE)]

    def test_what_cannot_be_read_is_passed_over(self, tmp_path, reads):
        (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
        sparse_file(tmp_path / "there", 0)
        read_through(tmp_path)
        read_through(tmp_path / "nowhere")
        assert reads.keys() == {"there"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_small_index_takes_little_memory(open_edge, root, reads):
    """The engine's files are 32 MiB each; mapped whole, they were 96 MiB of a process's memory."""
    rng = random.Random(1)
    index = open_edge()
    index.write([record(n, [rng.gauss(0, 1) for _ in range(4)], "text") for n in range(100)], [], 1)
    index.close()
    index = open_edge()
    assert {"chunk_0.mmap", "page_0.dat"} <= reads.keys(), "vectors and payloads are read at opening"
    assert len(index.search([1.0, 0, 0, 0], "text", 10, EVERY_TYPE).dense.candidates) == 10
    assert mapped(root) < 8 * MIB


def bytes_read():
    """Return how much this process has read so far, from the disk or not."""
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])


def mapped(folder):
    """Return the bytes of files under `folder` that are in this process's memory."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = str(folder) in line
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total
