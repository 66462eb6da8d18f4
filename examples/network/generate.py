"""Writes the example network as JSON lines: people, who knows whom, and articles."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

CITIES = ("Lisbon", "Oslo", "Nairobi", "Lima", "Kyoto", "Tartu", "Porto", "Quito", "Turin", "Leeds")
FIRST = ("Ada", "Ben", "Chloe", "Dag", "Elif", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kaya", "Lev")
LAST = ("Berg", "Costa", "Dahl", "Eklund", "Fox", "Garcia", "Hart", "Ito", "Kim", "Lund", "Mori")
TOPICS = {
    "graphs": (
        "A graph database follows edges instead of joining tables",
        "Paths of several hops are counted without listing them",
        "Branches of a graph let a team try a change before it is merged",
        "Every node has a type, and every edge says what it connects",
    ),
    "gardens": (
        "Tomatoes want sun in the morning and a wall behind them",
        "Compost turns kitchen scraps into soil within a year",
        "Bees find lavender first when the days get longer",
        "Prune the apple tree while it sleeps in winter",
    ),
    "stars": (
        "A telescope with a wide mirror gathers light of distant galaxies",
        "The rings of Saturn are ice and dust in a thin sheet",
        "A comet grows its tail when it comes close to the sun",
        "Red giants are old stars that have used up their hydrogen",
    ),
    "bread": (
        "Sourdough rises slowly, and tastes of the days it took",
        "Knead the dough until it comes away from the bowl",
        "A hot stone gives the loaf its crust",
        "Rye flour makes a dense bread that keeps for a week",
    ),
    "trains": (
        "The night train crosses the mountains while its passengers sleep",
        "A timetable is a promise that a whole country relies on",
        "Old stations have high roofs because engines used to smoke",
        "Freight moves on rails when it is heavy and not in a hurry",
    ),
}


def lines(people: int, friendships: int, articles: int, seed: int) -> Iterator[str]:
    """All lines: people first, then what connects them."""
    chance = random.Random(seed)
    for n in range(people):
        name = f"{chance.choice(FIRST)} {chance.choice(LAST)}"
        city, born = chance.choice(CITIES), chance.randint(1940, 2005)
        yield (
            f'{{"type":"Person","data":{{"handle":"p{n}","name":"{name}","city":"{city}",'
            f'"born":{born}}}}}\n'
        )
    for n in range(articles):
        topic, sentences = chance.choice(list(TOPICS.items()))
        other = chance.choice(chance.choice(list(TOPICS.values())))
        text = ". ".join([*chance.sample(sentences, 3), other])
        yield (
            f'{{"type":"Article","data":{{"slug":"a{n}","title":"On {topic}, part {n}",'
            f'"text":"{text}."}}}}\n'
        )
        author = int(people * chance.random() ** 2)
        yield f'{{"edge":"Wrote","from":"p{author}","to":"a{n}"}}\n'
    for _ in range(friendships):
        # Some are known by many.
        known = int(people * chance.random() ** 3)
        who, since = chance.randrange(people), chance.randint(1990, 2025)
        yield f'{{"edge":"Knows","from":"p{who}","to":"p{known}","data":{{"since":{since}}}}}\n'


def main() -> int:
    """Write a file, and tell how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--friendships", type=int, default=800_000)
    parser.add_argument("--articles", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with options.file.open("w", encoding="utf-8") as file:
        file.writelines(lines(options.people, options.friendships, options.articles, options.seed))
    megabytes = options.file.stat().st_size / 1e6
    nodes, edges = options.people + options.articles, options.friendships + options.articles
    print(f"{nodes:,} nodes and {edges:,} edges: {megabytes:.0f} MB in {options.file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
