"""Faults that the simulation has found, told by scripts: what seeds mean changes with the code."""

from __future__ import annotations

import pytest

from omnigraph.errors import ReadSetConflict
from tests.simulation.operations import Assign, Count, Create, Drop, Insert, MergeInto, Operation
from tests.simulation.run import Record, Run, Script, Template
from tests.simulation.seeds import simulate


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template.make(tmp_path_factory.mktemp("simulation"))


def after_others(template: Template, slow: Operation, point: str, *others: Operation) -> Run:
    """Stop a process at a point, let others do what they want, and let it go on."""
    plans = {"slow": [slow], "others": others}
    return simulate(0, template, Script(plans, [("slow", point), ("others", ""), ("slow", "")]))


def record_of(run: Run, name: str) -> Record:
    (found,) = (record for record in run.notes.records if record.operation.name == name)
    return found


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_publish_that_comes_late_leaves_a_branch_that_was_made_anew_alone(
    made_anew: bool, template: Template
) -> None:
    # Its commit is on the branch that was deleted: whoever deleted it had finished the write first.
    others: list[Operation] = [Drop("drop", "one")]
    if made_anew:
        others += [Create("create", "one", source="main"), Insert("insert", "one", person="s")]
    run = after_others(template, Assign("slow", "one"), "write.publishing", *others)
    answer = record_of(run, "slow").answer
    assert answer is not None and answer.commit is not None


@pytest.mark.parametrize(("point", "branch"), [("write.forking", "two"), ("write.forked", "main")])
def test_a_write_that_lost_its_fork_with_its_lease_is_repeated(
    point: str, branch: str, template: Template
) -> None:
    other = Insert("fast", branch, person="p")
    run = after_others(template, Insert("slow", "two", person="s"), point, other)
    answer = record_of(run, "slow").answer
    assert answer is not None and answer.commit is not None


@pytest.mark.parametrize("reads", range(3, 14))
def test_a_branch_that_is_made_anew_while_it_is_merged_is_merged_as_it_was(
    reads: int, template: Template
) -> None:
    plans: dict[str, list[Operation]] = {
        "first": [Assign("assign", "two"), Create("create", "three", source="two")],
        "merge": [MergeInto("merge", "one", source="three")],
        "other": [Drop("drop", "three"), Create("anew", "three", source="main")],
    }
    # From before it has read which commit `three` is at until it has read what comes before it.
    turns = [("first", ""), *[("merge", "history.read")] * reads, ("other", ""), ("merge", "")]
    run = simulate(0, template, Script(plans, turns))
    answer = record_of(run, "merge").answer
    assert answer is not None and answer.commit is not None


def test_a_write_is_repeated_that_a_writer_without_a_lease_was_in_the_way_of(
    template: Template,
) -> None:
    plans: dict[str, list[Operation]] = {
        "slow": [Insert("slow", "two", person="s")],
        "other": [Count("other", "two")],
    }
    turns = [
        ("slow", "write.table_committing"),
        ("other", "write.tiers_merged"),
        ("slow", "write.confirmed"),
        ("other", ""),
        ("slow", ""),
    ]
    run = simulate(0, template, Script(plans, turns))
    for name in plans:
        answer = record_of(run, name).answer
        assert answer is not None and answer.commit is not None


@pytest.mark.parametrize(
    "other", [Insert("other", "two", person="s"), Create("other", "three", source="two")]
)
def test_a_branch_is_not_deleted_after_the_lease_was_lost(
    other: Operation, template: Template
) -> None:
    run = after_others(template, Drop("slow", "two"), "branch.archived", other)
    assert isinstance(record_of(run, "slow").refusal, ReadSetConflict)


@pytest.mark.parametrize("late", ["write.table_committed", ""])
@pytest.mark.parametrize("point", ["write.forking", "write.forked"])
@pytest.mark.parametrize("slow", [Insert("slow", "two", person="s"), Count("slow", "two")])
def test_what_comes_late_to_a_fork_that_others_make_anew_is_not_published(
    slow: Operation, point: str, late: str, template: Template
) -> None:
    # The files that it refers to went with the first fork. It is not taken for whole by whoever
    # finds it there, and the others do not write on top of it.
    plans: dict[str, list[Operation]] = {
        "slow": [slow],
        "other": [Insert("other", "two", person="t")],
    }
    turns = [
        ("slow", "write.table_committing"),
        ("other", point),
        ("slow", late),
        ("other", ""),
        ("slow", ""),
    ]
    run = simulate(0, template, Script(plans, turns))
    answer = record_of(run, "other").answer
    assert answer is not None and answer.commit is not None


@pytest.mark.parametrize("point", ["write.revalidated", "write.forking", "write.table_committing"])
def test_a_write_whose_fork_is_deleted_while_it_is_paused_is_not_published(
    point: str, template: Template
) -> None:
    # Another writer without a lease undoes what it has begun, and the fork that both have made.
    plans: dict[str, list[Operation]] = {
        "slow": [Insert("slow", "two", person="s")],
        "other": [Insert("other", "two", person="t")],
    }
    turns = [
        ("slow", point),
        ("other", "write.publishing"),
        ("slow", "write.prepared"),
        ("other", ""),
        ("slow", ""),
    ]
    run = simulate(0, template, Script(plans, turns))
    for name in plans:
        answer = record_of(run, name).answer
        assert answer is not None and answer.commit is not None
