"""Where a graph can live."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import UsageError
from omnigraph.storage.location import Location


def test_a_local_place_is_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("graph", "./x/../graph", str(tmp_path / "graph"), f"file://{tmp_path}/graph"):
        location = Location.of(text)
        assert location.uri == str(tmp_path.resolve() / "graph")
        assert location.is_local
    assert Location.of(Path("~/g")).uri == str(Path.home() / "g")


def test_a_place_on_s3_has_a_bucket_and_a_prefix():
    location = Location.of("s3://bucket/some/prefix/")
    assert not location.is_local
    assert location.child("nodes/x") == "s3://bucket/some/prefix/nodes/x"
    assert str(location) == "s3://bucket/some/prefix"


@pytest.mark.parametrize("text", ["", "s3://bucket", "s3://bucket/", "s3:///x", "gs://bucket/x"])
def test_other_places_are_refused(text):
    with pytest.raises(UsageError):
        Location.of(text)


def test_a_path_in_which_branches_cannot_live_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot have a `\\?`; choose another folder"):
        Location.of(tmp_path / "why?" / "graph")
    for name in ("a b", "ä", "50%", "a#b", "[x]", "it's"):
        assert Location.of(tmp_path / name).child("x") == str(tmp_path / name / "x")
