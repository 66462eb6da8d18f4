"""The graphs that a server serves, by the names in their addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from threading import Lock

from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_ENDING = ".omni"


def places_of(words: Sequence[str]) -> dict[str, str]:
    """The place of each graph by its name: `team.omni` is `team`, `NAME=GRAPH` is `NAME`.

    Raises:
        UsageError: A name cannot be part of an address, or two graphs have the same.
    """
    places: dict[str, str] = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or "/" in name:
            place = word
            name = PurePosixPath(word.rstrip("/")).name.removesuffix(_ENDING)
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"`{name}` cannot be the name of a graph in an address; name it: NAME={place}"
            )
        if name in places:
            raise UsageError(
                f"{places[name]} and {place} are both called `{name}`; name one: NAME={place}"
            )
        places[name] = place
    return places


class ServedGraphs:
    """Opens each graph when it is first asked for, and closes all of them."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(sorted(places.items()))
        self._opened: dict[str, Graph] = {}
        self._locks = {name: Lock() for name in places}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def graph(self, name: str) -> Graph:
        """A graph, open."""
        graph = self._opened.get(name)
        if graph is None:
            with self._locks[name]:
                graph = self._opened.get(name)
                if graph is None:
                    graph = self._opened[name] = open_graph(self._places[name])
        return graph

    def problem(self, name: str) -> OmnigraphError | None:
        """What is in the way of asking a graph; None if nothing is."""
        try:
            self.graph(name).snapshot()
        except OmnigraphError as error:
            return error
        return None

    def close(self) -> None:
        """Close the graphs that are open."""
        for graph in self._opened.values():
            graph.close()
        self._opened.clear()
