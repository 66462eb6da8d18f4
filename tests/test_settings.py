from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from omnigraph.errors import UsageError
from omnigraph.settings import Settings

ROOT = Path(__file__).parents[1]


def test_without_variables_the_defaults_hold():
    assert Settings.from_env({}) == Settings()
    assert Settings() == Settings(debug=False, query_cache_size=512, schema=None)


def test_variables_are_read():
    given = {
        "OMNIGRAPH_DEBUG": "yes",
        "OMNIGRAPH_QUERY_CACHE_SIZE": " 64 ",
        "OMNIGRAPH_SCHEMA": "a b.pg",
        "OMNIGRAPH_EXTERNAL_BLOBS": "s3://bucket/images/, file:///srv/scans/",
    }
    assert Settings.from_env(given) == Settings(
        debug=True,
        query_cache_size=64,
        schema="a b.pg",
        external_blobs=("s3://bucket/images/", "file:///srv/scans/"),
    )


def test_an_empty_variable_counts_as_not_set():
    assert Settings.from_env({"OMNIGRAPH_QUERY_CACHE_SIZE": ""}) == Settings()


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "here.pg")
    assert Settings.from_env().schema == "here.pg"


@pytest.mark.parametrize(
    "env,text",
    [
        ("OMNIGRAPH_DEBUG", "maybe"),
        ("OMNIGRAPH_QUERY_CACHE_SIZE", "many"),
        ("OMNIGRAPH_QUERY_CACHE_SIZE", "-1"),
        ("OMNIGRAPH_QUERY_CACHE_SIZE", "1.5"),
        ("OMNIGRAPH_QUERY_CACHE_SIZE", "²"),
        ("OMNIGRAPH_EXTERNAL_BLOBS", "/srv/scans"),
        ("OMNIGRAPH_EXTERNAL_BLOBS", "s3://bucket/,"),
        ("OMNIGRAPH_EXTERNAL_BLOBS", "://bucket"),
        ("OMNIGRAPH_EMBED_PROVIDER", "cohere"),
        ("OMNIGRAPH_EMBED_URL", "localhost:8080/v1"),
        ("OMNIGRAPH_EMBED_SECONDS", "0"),
        ("OMNIGRAPH_EMBED_RATE", "0"),
        ("OMNIGRAPH_EMBED_RATE", "nan"),
    ],
)
def test_a_value_without_sense_is_an_error_that_names_the_variable(env, text):
    with pytest.raises(UsageError) as caught:
        Settings.from_env({env: text})
    assert env in caught.value.message
    assert text in caught.value.message
    assert "give" in caught.value.message


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().debug = True  # type: ignore[misc]


def test_a_secret_is_not_shown():
    settings = Settings(debug=True, embed_api_key="hidden")
    for shown in (repr(settings), str(settings), pretty_repr(settings)):
        assert "debug=True" in shown
        assert "hidden" not in shown and "embed_api_key" not in shown


def test_the_documentation_lists_exactly_the_settings():
    rows = re.findall(
        r"^\| `(OMNIGRAPH_\w+)` \| `?([^|`]+)`? \| (.+) \|$",
        (ROOT / "docs" / "settings.md").read_text(),
        re.M,
    )
    assert rows == [(s.env, s.default, s.doc) for s in Settings.documented()]


def test_no_other_variable_is_read_anywhere():
    known = {s.env for s in Settings.documented()}
    used = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"(?<![A-Z_])OMNIGRAPH_[A-Z_]+", path.read_text())
    }
    # This one is no variable, but what the server says when it listens.
    assert used - {"OMNIGRAPH_LISTEN_ADDR"} <= known
