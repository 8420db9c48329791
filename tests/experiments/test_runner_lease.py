"""One owner per run: exclusive when free, succeeded by exactly one when dead, on this machine and on others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict

import pytest

from experiments.records import LEASE
from experiments.runner import lease
from experiments.runner.lease import Owner


def put(directory, owner: Owner, *, age: float = 0.0) -> None:
    path = directory / LEASE
    path.write_text(json.dumps(asdict(owner)))
    os.utime(path, (time.time() - age,) * 2)


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_one_of_two_gets_a_free_run_and_the_other_gets_it_after_release(tmp_path):
    first = lease.acquire(tmp_path)
    assert first is not None
    assert lease.acquire(tmp_path) is None
    assert lease.holder(tmp_path) == first.owner
    first.release()
    assert lease.holder(tmp_path) is None
    assert os.listdir(tmp_path) == []
    assert lease.acquire(tmp_path) is not None


def test_a_dead_process_of_this_machine_is_succeeded_at_once(tmp_path):
    put(tmp_path, Owner(lease.host_identity(), dead_pid(), "1", "t"))
    started = time.monotonic()
    assert lease.holder(tmp_path) is None
    assert lease.acquire(tmp_path) is not None
    assert time.monotonic() - started < lease.STALE_SECONDS / 2
    assert os.listdir(tmp_path) == [LEASE]


def test_a_new_process_under_the_same_number_is_another_owner(tmp_path):
    put(tmp_path, Owner(lease.host_identity(), os.getpid(), "long ago", "t"))
    assert lease.acquire(tmp_path) is not None


def test_an_owner_on_another_machine_is_judged_by_when_it_was_last_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    put(tmp_path, Owner("elsewhere", 1, "1", "t"), age=lease.STALE_SECONDS - 20)
    assert lease.acquire(tmp_path) is None
    put(tmp_path, Owner("elsewhere", 1, "1", "t"), age=lease.STALE_SECONDS + 20)
    assert lease.acquire(tmp_path) is not None


def test_an_owner_whose_clock_is_wrong_is_not_robbed_while_it_still_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.2)
    old = time.time() - 10 * lease.STALE_SECONDS
    put(tmp_path, Owner("elsewhere", 1, "1", "t"))
    os.utime(tmp_path / LEASE, (old, old))
    beat = threading.Timer(0.1, os.utime, [tmp_path / LEASE, (old + 5, old + 5)])
    beat.start()
    assert lease.acquire(tmp_path) is None
    beat.join()


def test_of_many_that_succeed_a_dead_owner_at_once_exactly_one_wins(tmp_path):
    for turn in range(20):
        directory = tmp_path / str(turn)
        directory.mkdir()
        put(directory, Owner(lease.host_identity(), dead_pid(), "1", "t"))
        won, start = [], threading.Barrier(8)

        def contend(directory=directory, won=won, start=start):
            start.wait()
            held = lease.acquire(directory)
            if held is not None:
                won.append(held)

        threads = [threading.Thread(target=contend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert lease.holder(directory) == won[0].owner
        assert os.listdir(directory) == [LEASE]


def test_a_late_successor_of_a_succession_long_past_backs_out(tmp_path):
    dead = Owner(lease.host_identity(), dead_pid(), "1", "old")
    live = lease.acquire(tmp_path)
    assert live is not None
    me = Owner(lease.host_identity(), os.getpid(), str(lease.process_start(os.getpid())), "late")
    assert not lease._succeed(tmp_path, dead, me)
    assert lease.holder(tmp_path) == live.owner
    assert os.listdir(tmp_path) == [LEASE]


def test_a_successor_that_died_in_the_middle_is_itself_succeeded(tmp_path):
    dead = Owner(lease.host_identity(), dead_pid(), "1", "first")
    put(tmp_path, dead)
    second = Owner(lease.host_identity(), dead_pid(), "1", "second")
    (tmp_path / f"{lease.SUCCESSOR}first.json").write_text(json.dumps(asdict(second)))
    assert lease.holder(tmp_path) is None
    assert lease.acquire(tmp_path) is not None
    assert os.listdir(tmp_path) == [LEASE]


def test_an_owner_that_was_succeeded_learns_of_it_and_leaves_the_new_lease_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    mine, told = lease.acquire(tmp_path), threading.Event()
    assert mine is not None
    mine.keep(on_lost=told.set)
    put(tmp_path, Owner("elsewhere", 1, "1", "theirs"))
    assert told.wait(5)
    assert mine.lost
    mine.release()
    assert json.loads((tmp_path / LEASE).read_text())["token"] == "theirs"


def test_a_held_lease_is_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    mine = lease.acquire(tmp_path)
    assert mine is not None
    os.utime(tmp_path / LEASE, (0, 0))
    mine.keep()
    end = time.monotonic() + 5
    while (tmp_path / LEASE).stat().st_mtime == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    mine.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"host": "x"}', b"\xff\xfe"])
def test_a_torn_lease_holds_until_it_is_old(tmp_path, monkeypatch, content):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    (tmp_path / LEASE).write_bytes(content)
    assert lease.acquire(tmp_path) is None
    old = time.time() - lease.STALE_SECONDS - 20
    os.utime(tmp_path / LEASE, (old, old))
    assert lease.acquire(tmp_path) is not None


def test_a_file_system_without_hard_links_will_do(tmp_path, monkeypatch):
    def refuse(*args: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    assert lease.acquire(tmp_path) is not None
    assert lease.acquire(tmp_path) is None
    assert os.listdir(tmp_path) == [LEASE]
