"""Where a Spark session comes from, and how it starts and stops."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from omnigraph.errors import UsageError
from omnigraph.pipeline.engine import Silent
from omnigraph.pipeline.spark import class_archive as archive
from omnigraph.pipeline.spark import session as sessions
from omnigraph.pipeline.spark.java import Java
from omnigraph.pipeline.spark.session import session
from omnigraph.settings import Settings
from tests.patience import PATIENCE

SOURCE = Path(sessions.__file__).parents[2]
in_spark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize(
    "given,wanted",
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_tries_tasks_again(given, wanted):
    assert sessions.with_tries(given) == wanted


def test_spark_s_own_configuration_is_read(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n"
        "spark.master            spark://host:7077\n"
        "spark.driver.memory=3g\n"
        "  spark.app.name : my loads\n"
        "spark.ui.enabled\ttrue\n"
    )
    arguments = "--master 'local[2]' --conf spark.ui.enabled=false --jars a.jar pyspark-shell"
    environ = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments}
    assert sessions._configured(environ) == {
        "spark.master": "local[2]",
        "spark.driver.memory": "3g",
        "spark.app.name": "my loads",
        "spark.ui.enabled": "false",
    }
    assert sessions._configured({}) == {}


@pytest.mark.parametrize("arguments", ["--conf 'a", "--master"])
def test_arguments_without_sense_are_an_error(arguments):
    with pytest.raises(UsageError, match="PYSPARK_SUBMIT_ARGS makes no sense"):
        sessions._configured({"PYSPARK_SUBMIT_ARGS": arguments})


def test_the_package_is_zipped_the_same_every_time():
    content = sessions._zipped(sessions._PACKAGE)
    assert (
        hashlib.sha256(content).digest()
        == hashlib.sha256(sessions._zipped(sessions._PACKAGE)).digest()
    )
    names = zipfile.ZipFile(BytesIO(content)).namelist()
    assert "omnigraph/pipeline/spark/session.py" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("/")]


# --- the archive of classes ----------------------------------------------------------------------


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path / "spark"


def test_the_first_java_makes_an_archive_and_later_ones_use_it(tmp_path, spark_home):
    some = Java(None, "17.0.1")
    first = archive.options(some, spark_home, tmp_path / "classes")
    made = next(o for o in first if o.startswith("-XX:ArchiveClassesAtExit=")).partition("=")[2]
    Path(made).write_bytes(b"\xa8\xba\x0b\xf0 classes")
    then = archive.options(some, spark_home, tmp_path / "classes")
    used = next(o for o in then if o.startswith("-XX:SharedArchiveFile=")).partition("=")[2]
    assert Path(used).read_bytes() == b"\xa8\xba\x0b\xf0 classes"
    assert "-Xshare:auto" in then
    assert not Path(made).exists()
    # One that another process has made at the same time is not needed any more.
    Path(made).write_bytes(b"\xa8\xba\x0b\xf0 others")
    assert archive.options(some, spark_home, tmp_path / "classes") == then
    assert not Path(made).exists()
    # Another Java has classes of its own.
    assert archive.options(Java(None, "21.0.1"), spark_home, tmp_path / "classes") != then


def test_an_archive_that_is_not_finished_is_not_used(tmp_path, spark_home):
    some = Java(None, "17.0.1")
    first = archive.options(some, spark_home, tmp_path / "classes")
    made = Path(next(o for o in first if "AtExit" in o).partition("=")[2])
    made.write_bytes(bytes(4096) + b"half")
    assert any("AtExit" in o for o in archive.options(some, spark_home, tmp_path / "classes"))
    assert made.exists()
    os.utime(made, (0, 0))
    archive.options(some, spark_home, tmp_path / "classes")
    assert not made.exists()


def test_a_java_without_an_archive_of_its_own_gets_one_to_build_on(tmp_path, spark_home):
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor a do case "$a" in -XX:S*) echo x >"${a#*=}";; esac; done\n')
    program.chmod(0o755)
    some = Java(tmp_path / "home", "25", bundled=True)
    first = archive.options(some, spark_home, tmp_path / "classes")
    base = next(o for o in first if o.startswith("-XX:SharedArchiveFile=")).partition("=")[2]
    assert Path(base).read_text() == "x\n"
    Path(next(o for o in first if "AtExit" in o).partition("=")[2]).write_bytes(b"made")
    then = archive.options(some, spark_home, tmp_path / "classes")
    assert [o for o in then if o.startswith(f"-XX:SharedArchiveFile={base}:")]
    program.write_text("#!/bin/sh\nexit 1\n")
    assert archive.options(some, spark_home, tmp_path / "others") == []


def test_without_a_place_for_it_there_is_no_archive(tmp_path, spark_home):
    (tmp_path / "file").touch()
    assert archive.options(Java(None, "17"), spark_home, tmp_path / "file") == []
    assert archive.options(Java(None, "17"), tmp_path / "nowhere", tmp_path / "classes") == []


# --- sessions ------------------------------------------------------------------------------------


class TestInThisProcess:
    pytestmark = in_spark

    def test_the_session_is_made_once(self, local_spark_engine):
        found = session("local[2]")
        assert found.sparkContext is local_spark_engine.session.sparkContext
        assert session().sparkContext is found.sparkContext
        assert session(spark=found) is found

    def test_it_is_quiet_and_small(self, local_spark_engine):
        conf = local_spark_engine.session.sparkContext.getConf()
        assert conf.get("spark.ui.enabled") == "false"
        assert conf.get("spark.ui.showConsoleProgress") == "false"
        assert conf.get("spark.driver.host") == "127.0.0.1"
        assert conf.get("spark.driver.memory") == "1g"
        assert conf.get("spark.app.name") == "omnigraph"
        assert local_spark_engine.session.sparkContext.master == "local[2,4]"

    def test_interrupts_stay_with_whom_they_were(self, local_spark_engine):
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_the_environment_stays_as_it_was(self, local_spark_engine):
        names = {"SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"}
        assert not names & set(os.environ)

    def test_a_session_of_the_caller_s_is_used_and_left_alone(
        self, local_spark_engine, monkeypatch
    ):
        made = sessions._Own.session
        monkeypatch.setattr(sessions._Own, "session", None)
        configured = Settings(spark_master="spark://host:7077")
        assert session(settings=configured).sparkContext is local_spark_engine.session.sparkContext
        sessions.stop()
        assert local_spark_engine.map(abs, [-1], "abs", Silent()) == [1]
        with pytest.raises(UsageError, match="leave the master out, or stop that session first"):
            session("local[1]")
        monkeypatch.setattr(sessions._Own, "session", made)

    def test_a_session_that_was_stopped_is_made_again(self, local_spark_engine):
        sessions.stop()
        found = session("local[2]")
        assert found.range(3).count() == 3

    def test_a_session_whose_java_died_is_made_again(self, local_spark_engine):
        from pyspark import SparkContext

        process = SparkContext._gateway.proc  # type: ignore[union-attr]
        (java,) = _processes_below(process.pid, "java") or [process.pid]
        os.kill(java, signal.SIGKILL)
        process.wait(PATIENCE)
        found = session("local[2]")
        assert found.range(3).count() == 3


def _processes_below(pid: int, name: str) -> list[int]:
    """The processes that a process has started, by their name."""
    ran = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in ran.stdout.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == pid and row[2].strip() == name]


def run(
    code: str, tmp_path: Path, *options: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that uses Spark."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env=kept | {"PYTHONPATH": str(SOURCE), **environ},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


class TestInAnotherProcess:
    pytestmark = in_spark

    def test_starting_and_stopping_prints_nothing_and_leaves_nothing(self, tmp_path):
        for name in ("cache", "temporary", "work"):
            (tmp_path / name).mkdir()
        ran = run(
            """
            from pathlib import Path
            from omnigraph.pipeline.spark import class_archive as archive
            from omnigraph.pipeline.engine import Silent
            from omnigraph.pipeline.spark.session import session
            from omnigraph.pipeline.spark.engine import SparkEngine

            # Java must not mind an archive that is no archive.
            right = archive.options
            def spoiled(java, home, folder):
                folder.mkdir()
                (folder / "bad.jsa").write_bytes(b"spoiled")
                others = right(java, home, folder)[:2]
                return [f"-XX:SharedArchiveFile={folder / 'bad.jsa'}", *others]
            archive.options = spoiled

            assert SparkEngine(session("local[2]")).map(abs, [-1, 2], "abs", Silent()) == [1, 2]
            """,
            tmp_path / "work",
            *("-W", "error"),
            XDG_CACHE_HOME=str(tmp_path / "cache"),
            TMPDIR=str(tmp_path / "temporary"),
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        assert list((tmp_path / "work").iterdir()) == []
        assert not list((tmp_path / "temporary").glob("omnigraph-*"))

    def test_a_java_that_does_not_start_says_why(self, tmp_path):
        ran = run(
            """
            from omnigraph.errors import OmnigraphError
            from omnigraph.pipeline.spark.session import session
            try:
                session("local[2]")
            except OmnigraphError as error:
                print(error)
            """,
            tmp_path,
            SPARK_SUBMIT_OPTS="-Xms1x",
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "does not start for Spark" in ran.stdout
        assert "Invalid initial heap size" in ran.stdout
