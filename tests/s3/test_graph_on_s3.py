"""The same protocol on an object store: whole commits, leases, recovery from any death."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import from_url

from omnigraph.errors import AlreadyExists, NotFound, OmnigraphError, ReadSetConflict, StorageError
from omnigraph.graph import Graph, init, open
from omnigraph.storage import bucket_objects
from omnigraph.storage.bucket_objects import BucketObjects
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import (
    SCENARIOS,
    Scenario,
    batches,
    cities,
    content,
    make_graph,
    people,
)
from tests.patience import PATIENCE, wait_until
from tests.s3.children import in_env, init_in_env
from tests.s3.faulty_proxy import Fault, FaultyProxy
from tests.s3.leases import end_lease, lease_of, write_lease
from tests.s3.uploads import upload

BRANCHES = ("main", "draft", "working")


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k.startswith(("AWS_", "OMNIGRAPH_"))}


def everything(graph: Graph) -> dict[str, object]:
    return {branch: content(graph, branch) for branch in BRANCHES}


def test_control_objects_have_create_and_conditional_replace(place: str) -> None:
    objects = Objects.at(Location.of(place))
    assert isinstance(objects, BucketObjects)
    assert objects.read("a") is None
    assert objects.create("a", b"1")
    assert not objects.create("a", b"2")
    first = objects.read("a")
    assert first is not None and first.data == b"1" and first.tag is not None
    assert objects.replace("a", b"3", first.tag)
    assert not objects.replace("a", b"4", first.tag)
    objects.write("folder/b", b"5")
    assert objects.paths("folder") == ["folder/b"]
    assert objects.top_level() == ["a", "folder"]
    objects.delete("a")
    objects.delete("a")
    objects.delete_folder("folder")
    assert objects.top_level() == []


def test_a_graph_lives_on_s3(place: str) -> None:
    make_graph(place)
    with open(place) as graph, open(place) as other:
        with pytest.raises(AlreadyExists):
            init(place, "node A { name: String }")
        head = graph.commits()[0].id
        graph.write_batches({"Person": ("merge", people(graph, {"eve": 1}))}, branch="draft")
        assert other.snapshot("draft").count("Person") == 3
        assert other.snapshot().count("Person") == 2
        assert other.snapshot(commit=head).count("Person") == 2
        graph.branches.delete("draft")
        assert [b.name for b in other.branches] == ["main", "working"]
        assert other.check().problems == ()
    with pytest.raises(NotFound):
        open(place + "-elsewhere")


def test_a_client_is_made_once_for_a_prefix_and_its_settings(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noted(address: str) -> Any:
        made.append(address)
        return from_url(address)

    monkeypatch.setattr(bucket_objects, "from_url", noted)
    make_graph(place)
    with open(place) as graph:
        graph.write_batches({"City": ("append", cities(graph, ["Oslo"]))})
    assert made == [place]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    open(place, mode="r").close()
    assert made == [place] * 2


KILLED_AT = ("write.armed", "write.table_committed", "write.confirmed", "write.published")


@pytest.mark.parametrize(
    ("scenario", "point"),
    [
        pytest.param(scenario, point, id=f"{scenario.name}-{point}", marks=marks)
        for scenario, points, marks in (
            (SCENARIOS[-1], KILLED_AT, []),
            (SCENARIOS[1], KILLED_AT[1:2], []),
            (SCENARIOS[1], (KILLED_AT[0], *KILLED_AT[2:]), [pytest.mark.soak]),
        )
        for point in points
    ],
)
def test_a_write_that_is_killed_is_whole_or_absent(
    template: Path, place: str, scenario: Scenario, point: str
) -> None:
    upload(template, place)
    with open(place) as graph:
        before = everything(graph)
    code = run_child(in_env, environment(), place, scenario.name, scenario.branch, point, "kill", 0)
    assert code == KILLED
    end_lease(place)
    with open(place) as graph:
        now = everything(graph)
        whole = [c for c in graph.commits(scenario.branch) if c.actor == "child"]
        assert (now == before) == (not whole)
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert len(graph.recoveries()) == 1
        graph.write_batches({"City": ("append", cities(graph, ["Oslo"]))}, branch=scenario.branch)


def test_mutations_and_queries_on_s3(place: str) -> None:
    with init(place, "node P { name: String @key  n: I64  file: Blob? } edge E: P -> P") as graph:
        graph.mutate(
            "query q($b: Blob) {"
            ' insert P { name: "a", n: 1, file: $b } insert P { name: "b", n: 2 }'
            ' insert E { from: "a", to: "b" } }',
            params={"b": b"bytes"},
        )
        graph.ensure_indices()
        graph.branches.create("draft")
        changed = graph.mutate(
            "query q() { update P set { n: n + 1 } where n > 0 }", branch="draft"
        )
        assert changed.affected_nodes == 2
        gone = graph.mutate('query q() { delete P where name = "b" }', branch="draft")
        assert (gone.affected_nodes, gone.affected_edges) == (1, 1)
        text = "query q() { match { $a e $b } return { $a.name as a, $b.n as n } }"
        assert graph.query(text).to_rows() == [{"a": "a", "n": 2}]
        assert graph.query(text, branch="draft").to_rows() == []
        with graph.read_blob("node", "P", "a", "file", branch="draft") as blob:
            assert blob.read() == b"bytes"
        assert graph.check().problems == ()


def test_an_init_that_is_killed_can_be_run_again(place: str) -> None:
    child = run_child(init_in_env, environment(), place, "init.table_created", "kill", 1)
    assert child == KILLED
    end_lease(place)
    make_graph(place)
    assert open(place).check().problems == ()


def test_one_lease_holder_at_a_time(place: str) -> None:
    location = Location.of(place)
    times = LockTimes(wait=PATIENCE)
    inside, most, guard = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(3):
            with effect_lock(location, Objects.at(location), times) as lock:
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.05)
                lock.check()
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_lease_is_renewed_while_it_is_held(place: str) -> None:
    location = Location.of(place)
    ends: set[float] = set()

    def is_renewed() -> bool:
        lease = lease_of(place)
        assert lease is not None
        ends.add(lease["expires"])
        return len(ends) > 2

    with effect_lock(location, Objects.at(location), LockTimes(wait=1, lease=4.5)) as lock:
        wait_until(is_renewed, "the lease is not renewed", every=0.1)
        lock.check()
        with (
            pytest.raises(StorageError, match="lease"),
            effect_lock(location, Objects.at(location), LockTimes(wait=0.5, lease=1.0)),
        ):
            pass


def test_a_holder_that_lost_its_lease_is_stopped(place: str) -> None:
    location = Location.of(place)
    objects = Objects.at(location)
    with effect_lock(location, objects, LockTimes(wait=1, lease=1.0)) as lock:
        # Somebody with a better clock took it over: renewing fails from now on.
        write_lease(place, "x", 9, 0.0)

        def is_stopped() -> bool:
            try:
                lock.check()
            except ReadSetConflict:
                return True
            return False

        wait_until(is_stopped, "a lease that was lost is renewed")


def test_the_lease_of_a_dead_holder_runs_out_by_itself(place: str) -> None:
    location = Location.of(place)
    end = time.time() + 0.5
    write_lease(place, "dead", 7, end)
    with effect_lock(location, Objects.at(location), LockTimes(wait=PATIENCE)):
        assert time.time() >= end
        lease = lease_of(place)
        assert lease is not None
        assert lease["token"] == 8


FAULTS: tuple[Fault, ...] = ("refuse", "lose_answer", "repeat", "slow")


#: How many requests a write takes, once it was counted.
_requests: list[int] = []


def requests_of_a_write(template: Path, place: str, proxy: FaultyProxy) -> int:
    """How many requests one write takes, from a handle that is open already."""
    if not _requests:
        upload(template, place)
        graph = open(place)
        proxy.arm(0, "slow")
        graph.write_batches(batches(graph, "two_tables"), actor="child")
        _requests.append(proxy.disarm())
    return _requests[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_goes_wrong_never_halves_a_write(
    template: Path, faulty_place: str, proxy: FaultyProxy, fault: Fault
) -> None:
    count = requests_of_a_write(template, faulty_place + "-count", proxy)
    assert count > 10
    # A sample here, every request in the soak test below.
    for number in range(2, count + 1, count // (1 if fault == "slow" else 2)):
        check_one_fault(template, f"{faulty_place}-{number}", proxy, number, fault)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_that_goes_wrong_never_halves_a_write(
    template: Path, faulty_place: str, proxy: FaultyProxy, fault: Fault
) -> None:
    count = requests_of_a_write(template, faulty_place + "-count", proxy)
    for number in range(1, count + 1):
        check_one_fault(template, f"{faulty_place}-{number}", proxy, number, fault)


def check_one_fault(
    template: Path, place: str, proxy: FaultyProxy, number: int, fault: Fault
) -> None:
    upload(template, place)
    graph = open(place)
    before = everything(graph)
    proxy.arm(number, fault)
    failed: OmnigraphError | None = None
    try:
        graph.write_batches(batches(graph, "two_tables"), actor="child")
    except OmnigraphError as error:
        failed = error
    finally:
        proxy.disarm()
    # It may not have been able to give its lease back.
    end_lease(place)
    note = f"request {number}, {fault}: {failed!r}; {proxy.log}"
    with open(place) as after:
        now = everything(after)
        commits = [c for c in after.commits() if c.actor == "child"]
        assert len(commits) in ((1,) if failed is None else (0, 1)), note
        assert (now != before) == bool(commits), note
        assert after.check().problems == (), note
        assert list_sidecars(after._repository.objects) == [], note


def test_a_copied_prefix_is_a_graph_of_its_own(place: str) -> None:
    make_graph(place)
    with open(place, mode="r") as graph:
        expected = everything(graph)
    root, _, prefix = place.rpartition("/")
    bucket = from_url(root)
    for batch in obstore.list(bucket, prefix):
        for meta in batch:
            path = str(meta["path"])
            obstore.copy(bucket, path, path.replace(prefix, f"copy-of-{prefix}", 1))
            obstore.delete(bucket, path)
    with open(f"{root}/copy-of-{prefix}", mode="r") as graph:
        assert everything(graph) == expected
    with open(f"{root}/copy-of-{prefix}") as graph:
        graph.write_batches({"City": ("merge", cities(graph, ["Rome"]))}, branch="working")
        assert graph.snapshot("working").count("City") == 2
        assert graph.check().problems == ()
