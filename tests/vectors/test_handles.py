"""The owner's lock and the registry of shared handles."""

import json
import os
import threading
import time

import pytest

from charactermemory.adapters import handles
from charactermemory.adapters.handles import HandleRegistry, OwnerLock
from charactermemory.errors import StoreClosedError, StoreInUse, StoreUnavailable


class Handle:
    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


def test_the_lock_names_its_holder_after_it_is_held(tmp_path):
    (tmp_path / "owner.lock").write_text("x" * 5000)
    lock = OwnerLock.acquire(tmp_path, "test store")
    note = json.loads((tmp_path / "owner.lock").read_text())
    assert note.keys() == {"pid", "host", "since", "command"}
    assert note["pid"] == os.getpid()
    lock.release()


def test_a_held_lock_refuses_within_about_a_second(tmp_path):
    lock = OwnerLock.acquire(tmp_path, "test store")
    before = time.monotonic()
    with pytest.raises(StoreInUse, match=f"pid {os.getpid()} on ") as caught:
        OwnerLock.acquire(tmp_path, "test store")
    assert 0.9 < time.monotonic() - before < 5
    assert caught.value.store == "test store"
    lock.release()
    OwnerLock.acquire(tmp_path, "test store").release()


def test_a_lock_freed_meanwhile_is_taken(tmp_path):
    lock = OwnerLock.acquire(tmp_path, "test store")
    timer = threading.Timer(0.2, lock.release)
    timer.start()
    OwnerLock.acquire(tmp_path, "test store").release()
    timer.join()


def test_an_unreadable_note_still_refuses(tmp_path):
    lock = OwnerLock.acquire(tmp_path, "test store")
    (tmp_path / "owner.lock").write_text("[]")
    with pytest.raises(StoreInUse, match="another process"):
        OwnerLock.acquire(tmp_path, "test store")
    lock.release()


def test_a_folder_replaced_while_waiting_is_not_taken(tmp_path):
    """A lock on a file that is gone would let two owners in."""
    folder = tmp_path / "store"
    folder.mkdir()
    lock = OwnerLock.acquire(folder, "test store")

    def replace():
        folder.rename(tmp_path / "old")
        folder.mkdir()
        (folder / "owner.lock").write_text("")
        lock.release()

    timer = threading.Timer(0.2, replace)
    timer.start()
    with pytest.raises(StoreUnavailable, match="replaced"):
        OwnerLock.acquire(folder, "test store")
    timer.join()


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(StoreUnavailable, match="owner.lock"):
        OwnerLock.acquire(tmp_path / "none", "test store")


def test_release_twice_then_check_is_refused(tmp_path):
    lock = OwnerLock.acquire(tmp_path, "test store")
    lock.check()
    lock.release()
    lock.release()
    with pytest.raises(StoreClosedError):
        lock.check()
    assert os.path.realpath(tmp_path) not in handles._folders


def test_a_handle_is_shared_until_its_last_user_releases_it(tmp_path):
    registry: HandleRegistry[Handle] = HandleRegistry()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    first = registry.acquire(tmp_path, Handle)
    assert registry.acquire(link, Handle) is first
    registry.release(link, first)
    assert first.closed == 0
    registry.release(tmp_path, first)
    registry.release(tmp_path, first)
    assert first.closed == 1
    assert registry.acquire(tmp_path, Handle) is not first


def test_a_factory_that_fails_leaves_nothing(tmp_path):
    registry: HandleRegistry[Handle] = HandleRegistry()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        registry.acquire(tmp_path, fail)
    handle = registry.acquire(tmp_path, Handle)
    registry.release(tmp_path, handle)
    assert handle.closed == 1


def test_threads_get_one_handle_and_a_closing_one_is_never_handed_out(tmp_path):
    """Openers that come while the last user's close runs wait for it, then open anew."""
    registry: HandleRegistry[Handle] = HandleRegistry()
    open_now: list[Handle] = []
    most = 0

    class Counting(Handle):
        def __init__(self):
            nonlocal most
            super().__init__()
            open_now.append(self)
            most = max(most, len(open_now))
            time.sleep(0.001)

        def close(self):
            time.sleep(0.001)
            open_now.remove(self)
            super().close()

    def work():
        for _ in range(30):
            handle = registry.acquire(tmp_path, Counting)
            assert handle.closed == 0
            registry.release(tmp_path, handle)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert open_now == []
