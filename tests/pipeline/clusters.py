"""Spark to test with: a session of this machine, and a real cluster of one master and two workers.

There is one session at a time in a process, and one Java under it; asking for the other kind
stops the one before. Tests that use these belong into the xdist group `spark`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph.pipeline.spark import java
from omnigraph.pipeline.spark.engine import SparkEngine
from omnigraph.pipeline.spark.session import session
from tests.patience import PATIENCE

LOCAL = "local[2]"
#: For a Java that lives for seconds: it does not pay to compile the same code twice.
QUICK = "-XX:TieredStopAtLevel=1"
#: The options that keep a Java small and quick to start.
SMALL = f"{QUICK} -XX:+UseSerialGC -Xshare:auto"


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The master of a cluster of two workers with a core each."""
    with cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture(scope="session", params=["local", "cluster"])
def spark_master(request: pytest.FixtureRequest) -> str:
    """A master of each kind."""
    return LOCAL if request.param == "local" else request.getfixturevalue("spark_cluster")


@pytest.fixture
def spark_engine(spark_master: str, monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    """An engine of each kind."""
    return engine_on(spark_master, monkeypatch)


@pytest.fixture
def local_spark_engine(monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    """An engine on this machine's session."""
    return engine_on(LOCAL, monkeypatch)


def engine_on(master: str, monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    """An engine on a master; the session is used again if it is the one that is there."""
    if master != LOCAL:
        for name, value in _configuration().items():
            monkeypatch.setenv(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", QUICK)
        return SparkEngine(session(master))


def _configuration() -> dict[str, str]:
    """What a user of a cluster has configured, for workers on this machine."""
    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SMALL,
        # A task takes a third of the time that it takes with TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": _sockets[-1],
    }
    arguments = " ".join(f"--conf '{name}={value}'" for name, value in options.items())
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell"}


#: Where the sockets of a cluster's workers are: a socket's path has to be short.
_sockets: list[str] = []


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone cluster, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as sockets:
        _sockets.append(sockets)
        with _cluster(folder) as master:
            yield master


@contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    processes = []
    try:
        processes.append(
            _start(
                folder, "master.Master", "--port", str(port), "--webui-port", "0", name="master.log"
            )
        )
        _wait_for(folder / "master.log", "I have been elected leader", 1, processes)
        processes += [
            _start(
                folder,
                "worker.Worker",
                *("--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--work-dir", str(folder / name), master),
                name=f"{name}.log",
            )
            for name in ("worker-1", "worker-2")
        ]
        _wait_for(folder / "master.log", "Registering worker", 2, processes)
        yield master
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(folder: Path, what: str, *arguments: str, name: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    # Without the path of the tests: what executors can import has to come from the driver.
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_CONF_DIR")}
    for variable, value in java.find().environ().items():
        environ.pop(variable, None)
        if value is not None:
            environ[variable] = value
    environ |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": SMALL,
        "SPARK_DAEMON_JAVA_OPTS": SMALL,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
    with (folder / name).open("wb") as log:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            cwd=folder,
        )


def _wait_for(log: Path, text: str, times: int, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while log.read_text(errors="replace").count(text) < times:
        ended = [p for p in processes if p.poll() is not None]
        if ended or time.monotonic() > deadline:
            logs = "\n".join(
                p.read_text(errors="replace")[-2000:] for p in log.parent.glob("*.log")
            )
            raise RuntimeError(f"the cluster did not come up: {ended}\n{logs}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
