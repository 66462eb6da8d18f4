"""A social network to measure queries on: the same rows for every engine, and in every run.

100,000 persons live in 7,000 cities, have interests, and follow each other: ten random ones each,
and one person in 200 is a hub that up to a twentieth of all follow. All keys are integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PERSONS = 100_000
FOLLOWED_EACH = 10
HUBS = PERSONS // 200
HUB_SHARE = (0.005, 0.05)
#: States and cities of each country.
COUNTRIES = {
    "United States": (51, 4_500),
    "United Kingdom": (209, 1_400),
    "Canada": (13, 1_100),
}
INTERESTS = (
    "Anime", "Archery", "Astronomy", "Badminton", "Baking", "Basketball", "Biking", "Bird Watching",
    "Board Games", "Camping", "Ceramics", "Chess", "Climbing", "Cooking", "Dancing", "Drawing",
    "Fine Dining", "Fishing", "Football", "Gardening", "Golf", "Hiking", "Jazz", "Knitting",
    "Literature", "Magic", "Meditation", "Movies", "Museums", "Opera", "Painting", "Photography",
    "Poetry", "Running", "Sailing", "Sculpture", "Swimming", "Tennis", "Travel", "Video Games",
    "Yoga",
)  # fmt: skip
_SYLLABLES = (
    "al", "bar", "ber", "cor", "den", "dor", "el", "fair", "gren", "hal", "hol", "kin", "lan",
    "mar", "mil", "nor", "ot", "pem", "ren", "sal", "tor", "ul", "ven", "wal", "win", "yor",
)  # fmt: skip
_ENDINGS = ("ton", "ford", "ville", "burgh", "field", "mouth", "wick", "port", "dale", "ham")
_WORDS = 2_000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Social:
    """Tables with integer keys. Edges have the columns `src` and `dst`."""

    nodes: dict[str, pa.Table]
    edges: dict[str, pa.Table]


def generate(persons: int = PERSONS) -> Social:
    """Make the network."""
    chance = np.random.default_rng(20_260_131)
    cities, states, city_in, state_in = _places(chance)
    # A few cities are large: London is the largest of its country.
    sizes = chance.lognormal(0.0, 1.0, cities.num_rows)
    sizes[np.flatnonzero(np.array(cities["name"].to_pylist()) == "London")[0]] = 50.0
    lives = chance.choice(cities.num_rows, persons, p=sizes / sizes.sum())
    ages = chance.integers(18, 81, persons)
    days = (ages * 365.25).astype(np.int64) + chance.integers(0, 365, persons)
    first, last = (_names(chance, 1_000) for _ in range(2))
    drawn = chance.integers(0, 1_000, (2, persons))
    names = [f"{first[a]} {last[b]}" for a, b in zip(*drawn.tolist(), strict=True)]
    gender = pa.array(["male", "female"]).take(pa.array(chance.integers(0, 2, persons)))
    person = pa.table(
        {
            "key": np.arange(persons),
            "name": names,
            "gender": gender,
            "birthday": pa.array(np.datetime64("2026-01-01", "D") - days),
            "age": pa.array(ages, pa.int32()),
            "married": pa.array(chance.integers(0, 2, persons).astype(bool)),
        }
    )
    interest = pa.table({"key": np.arange(len(INTERESTS)), "name": list(INTERESTS)})
    country = pa.table({"key": np.arange(len(COUNTRIES)), "name": list(COUNTRIES)})
    return Social(
        {"Person": person, "City": cities, "State": states, "Country": country,
         "Interest": interest},
        {"Follows": _follows(chance, persons),
         "LivesIn": _edges(np.arange(persons), lives),
         "CityIn": city_in,
         "StateIn": state_in,
         "HasInterest": _interests(chance, persons)},
    )  # fmt: skip


def documents(count: int = 100_000, dimension: int = 64) -> pa.Table:
    """Texts of common and rare words, and vectors of the topics that they belong to."""
    chance = np.random.default_rng(20_260_201)
    words = np.array(_names(chance, _WORDS))
    topics = chance.normal(size=(50, dimension)).astype(np.float32)
    topic = chance.integers(0, len(topics), count)
    vectors = topics[topic] + chance.normal(scale=0.7, size=(count, dimension)).astype(np.float32)
    # Frequent words are the first ones; each topic has its own favourites behind them.
    length = 40
    drawn = np.minimum(chance.zipf(1.3, (count, length)) - 1, _WORDS - 1)
    favourites = (topic[:, None] * 17 + drawn) % _WORDS
    chosen = np.where(chance.random((count, length)) < 0.3, favourites, drawn)
    return pa.table(
        {
            "key": np.arange(count),
            "body": [" ".join(row) for row in words[chosen].tolist()],
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.astype(np.float32).ravel()), dimension
            ),
        }
    )


def _places(chance: np.random.Generator) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """Cities and states, the states of the cities, and the countries of the states."""
    country_of_state = np.repeat(np.arange(3), [states for states, _ in COUNTRIES.values()])
    first = 0
    state_of_city: list[Ints] = []
    for states, cities in COUNTRIES.values():
        # Every state has a city.
        rest = chance.integers(first, first + states, cities - states)
        state_of_city.append(np.concatenate([np.arange(first, first + states), rest]))
        first += states
    of_city = np.concatenate(state_of_city)
    names = _names(chance, len(of_city) + len(country_of_state))
    city_names = names[: len(of_city)]
    # There is one in Canada, too; that of the United Kingdom is the one that is asked for.
    starts = np.cumsum([0, *(cities for _, cities in COUNTRIES.values())])
    city_names[starts[2]] = city_names[starts[1]] = "London"
    cities = pa.table({"key": np.arange(len(of_city)), "name": city_names})
    states = pa.table({"key": np.arange(len(country_of_state)), "name": names[len(of_city) :]})
    return (
        cities,
        states,
        _edges(np.arange(len(of_city)), of_city),
        _edges(np.arange(len(country_of_state)), country_of_state),
    )


def _names(chance: np.random.Generator, count: int) -> list[str]:
    """Different made-up names."""
    names: dict[str, None] = {}
    while len(names) < count:
        drawn = chance.integers(0, len(_SYLLABLES), (count, 2)).tolist()
        ends = chance.integers(0, len(_ENDINGS), count).tolist()
        middle = chance.integers(0, len(_SYLLABLES) + 1, count).tolist()
        for (a, b), c, end in zip(drawn, middle, ends, strict=True):
            third = _SYLLABLES[c] if c < len(_SYLLABLES) else ""
            names[f"{_SYLLABLES[a]}{_SYLLABLES[b]}{third}{_ENDINGS[end]}".title()] = None
    return list(names)[:count]


def _follows(chance: np.random.Generator, persons: int) -> pa.Table:
    hubs = chance.choice(persons, max(1, persons // 200), replace=False)
    counts = (chance.uniform(*HUB_SHARE, len(hubs)) * persons).astype(np.int64)
    sources = np.concatenate(
        [np.repeat(np.arange(persons), FOLLOWED_EACH), chance.integers(0, persons, counts.sum())]
    )
    targets = np.concatenate(
        [chance.integers(0, persons, persons * FOLLOWED_EACH), np.repeat(hubs, counts)]
    )
    pairs = np.unique(sources[sources != targets] * persons + targets[sources != targets])
    return _edges(pairs // persons, pairs % persons)


def _interests(chance: np.random.Generator, persons: int) -> pa.Table:
    counts = chance.integers(1, 5, persons)
    # The first of a random order: different interests, without drawing again.
    order = np.argsort(chance.random((persons, len(INTERESTS)), np.float32), axis=1)[:, :4]
    chosen = np.arange(4) < counts[:, None]
    return _edges(np.repeat(np.arange(persons), counts), order[chosen])


def _edges(sources: Ints, targets: Ints) -> pa.Table:
    return pa.table({"src": sources.astype(np.int64), "dst": targets.astype(np.int64)})
