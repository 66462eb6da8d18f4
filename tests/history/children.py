"""What other processes do to a graph."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.graph import open

ADD = "query q($n: String) { insert Person { name: $n } }"


def add_all(place: str, names: list[str], branch: str) -> None:
    """Insert persons, each in a commit of its own."""
    with open(place) as graph:
        for name in names:
            graph.mutate(ADD, params={"n": name}, branch=branch)


def put_name(place: str, branch: str, key: int, name: str) -> None:
    """Change the name of a person."""
    text = "query q($k: I64, $n: String) { update Person set { name: $n } where key = $k }"
    with open(place) as graph:
        graph.mutate(text, params={"k": key, "n": name}, branch=branch)


def delete_and_die(place: str, point: str) -> None:
    """Begin to delete the branch `draft`."""
    with open(place) as graph, failpoints.active(point, "kill"):
        graph.branches.delete("draft")


def create_at_and_die(place: str, commit: str, point: str) -> None:
    """Begin to create the branch `fix` at a commit."""
    with open(place) as graph, failpoints.active(point, "kill"):
        graph.branches.create("fix", source=commit)
