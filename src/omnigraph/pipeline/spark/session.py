"""The one place where a Spark session comes from.

A session that the caller has is taken as it is. Otherwise one is made: quiet, for a small machine
unless Spark's own configuration says more, and kept until the process ends, since starting takes
seconds. Nothing here imports PySpark before a session is asked for.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib
import io
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omnigraph.errors import StorageError, UsageError
from omnigraph.pipeline.spark import class_archive, java, user_cache
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often a task is tried whose worker died.
TRIES = 4
_LOGGING = b"""\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_PACKAGE = Path(__file__).parents[2]
_lock = threading.RLock()


class _Own:
    """The session that this module has started, and what belongs to it."""

    session: SparkSession | None = None
    #: The process that made it; one that was forked off leaves it alone.
    process: int | None = None
    #: Where the sockets are that Java and the workers talk through.
    sockets: str | None = None
    #: The applications that have the package.
    shipped: frozenset[str] = frozenset()


def session(
    master: str | None = None,
    *,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
) -> SparkSession:
    """The Spark session to work with: the caller's, or else one that is made and kept.

    Args:
        master: Where Spark runs, such as `local[*]`, `spark://host:7077`, `yarn` or `sc://host`.
            Left out, it is what the settings, `SPARK_REMOTE` or Spark's configuration say, or
            else this machine.
        spark: A session to use; it wins over everything else.
        settings: The settings; those of the environment when omitted.

    Raises:
        UsageError: There is no Java for Spark, or another session is active than is asked for.
        StorageError: Spark does not start.
    """
    settings = Settings.from_env() if settings is None else settings
    with _lock:
        if spark is None:
            spark = _active(master)
        if spark is None:
            spark = _make(master or settings.spark_master)
        if settings.spark_ship:
            _ship(spark)
        return spark


def register_spark(spark: SparkSession | None = None) -> SparkSession:
    """Let a Spark session know the format `omnigraph`, for reading and writing DataFrames.

    Args:
        spark: The session; when omitted, the one that is active, or else a new one.

    Returns:
        The session.

    Raises:
        UsageError: There is no Java for Spark.
        StorageError: Spark does not start.

    Example:
        >>> spark = omnigraph.register_spark()
        >>> people = spark.read.format("omnigraph").option("type", "Person").load("team.omni")
    """
    from omnigraph.pipeline.spark.datasource import OmnigraphDataSource

    spark = session(spark=spark)
    if not is_connect(spark):
        # Java looks into its active session for whether the name is taken.
        java_side: Any = spark
        java_side._jvm.SparkSession.setActiveSession(java_side._jsparkSession)
    spark.dataSource.register(OmnigraphDataSource)
    return spark


def stop() -> None:
    """Stop the session that was made here; a caller's session is left alone."""
    with _lock:
        stopped, _Own.session = _Own.session, None
        if stopped is not None and not _is_dead():
            with contextlib.suppress(Exception):
                stopped.stop()


def _stop_at_exit() -> None:
    if _Own.process == os.getpid():
        stop()
        # Not before: Java keeps to the folder that its first session had.
        if _Own.sockets is not None:
            shutil.rmtree(_Own.sockets, ignore_errors=True)


def running_master() -> str | None:
    """Where the session runs that would be used; None when one would have to be started."""
    with _lock:
        active = _active(None)
    if active is None:
        return None
    return "sc://" if is_connect(active) else _master_of(active)


def configured_master(settings: Settings) -> str:
    """Where a new session would run."""
    return settings.spark_master or _configured_master(_configured(os.environ))


def is_connect(spark: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no Java of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(master: str) -> bool:
    """True if a master means this machine, inside the driver."""
    return master == "local" or master.startswith("local[")


def with_tries(master: str) -> str:
    """A master that tries a task again whose worker died, which `local[2]` does not."""
    match = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*\])?", master)
    return f"local[{match[1] or 1},{TRIES}]" if match else master


# --- a session that is there -------------------------------------------------------------------


def _active(master: str | None) -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    if _Own.session is not None and _is_dead():
        _forget()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()
    if active is None or master is None:
        return active
    now = _master_of(active)
    if now is None or now == with_tries(master) or now == master:
        return active
    if _is_ours(active):
        stop()
        return None
    raise UsageError(
        f"a Spark session on {now} is active, so {master} cannot be used:"
        " leave the master out, or stop that session first"
    )


def _is_ours(spark: SparkSession) -> bool:
    ours = _Own.session
    if ours is None or is_connect(ours) or is_connect(spark):
        return ours is spark
    return ours.sparkContext is spark.sparkContext


def _master_of(spark: SparkSession) -> str | None:
    if is_connect(spark):
        return None
    return str(spark.sparkContext.master)


def _is_dead() -> bool:
    """True if the Java of the session that was made here has ended."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget() -> None:
    """Let go of a session whose Java has ended, so that another one can be made."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    with contextlib.suppress(Exception):
        context._gateway.proc.stdin.close()
    with contextlib.suppress(Exception):
        context._gateway.shutdown()
    context._gateway = context._jvm = context._active_spark_context = None
    SparkSession._instantiatedSession = None
    _Own.session = None


# --- a new session -----------------------------------------------------------------------------


def _make(master: str | None) -> SparkSession:
    configured = _configured(os.environ)
    master = master or _configured_master(configured)
    new = _connect(master) if master.startswith("sc://") else _start(master, configured)
    if _Own.process != os.getpid():
        _Own.process = os.getpid()
        atexit.register(_stop_at_exit)
    _Own.session = new
    return new


def _configured_master(configured: Mapping[str, str]) -> str:
    remote = os.environ.get("SPARK_REMOTE", "") or configured.get("spark.remote", "")
    return remote or configured.get("spark.master") or "local[*]"


def _connect(remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as fault:
        raise UsageError(
            f"Spark Connect ({remote}) needs more packages: `pip install 'pyspark[connect]'`"
        ) from fault
    except Exception as fault:
        raise StorageError(
            f"Spark at {remote} does not answer: {_first_line(fault)}", transient=True
        ) from fault


def _start(master: str, configured: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    master = with_tries(master)
    handler = signal.getsignal(signal.SIGINT)
    variables: dict[str, str | None] = {}
    if is_local(master) and not os.environ.get("PYSPARK_PYTHON"):
        variables["PYSPARK_PYTHON"] = sys.executable
    with _environment(variables):
        is_foreign = _gateway(master, configured)
        try:
            conf = SparkConf(_jvm=SparkContext._jvm)
            # Java knows only what was configured when it started.
            options = _options(master) | _sockets(master) | dict(configured)
            options.pop("spark.remote", None)
            for name, value in options.items():
                # One who submitted this program has set what he wants already.
                (conf.setIfMissing if is_foreign else conf.set)(name, value)
            conf.setMaster(master)
            if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":
                conf.setAppName("omnigraph")
            context = SparkContext(conf=conf)
            new = SparkSession(context)
        except Exception as fault:
            raise StorageError(
                f"Spark does not start on {master}: {_first_line(fault)}", transient=True
            ) from fault
    # PySpark's own handler would cancel jobs that are not ours.
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
    return new


def _gateway(master: str, configured: Mapping[str, str]) -> bool:
    """Start Java, if it does not run yet; true if somebody else has started it."""
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is not None:
        return False
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        return True
    chosen_java = java.find()
    # PySpark will want it for the first job; meanwhile Java starts.
    threading.Thread(target=_import_pandas, daemon=True).start()
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.master", master)
    if is_local(master) and not _has_memory(configured):
        # The rows are with the Python workers; Java only passes small things around.
        conf.set("spark.driver.memory", "1g")
    # Not even Java's own warnings get through; its log is read when it does not start.
    with (
        tempfile.TemporaryFile(prefix="omnigraph-spark-") as log,
        _environment(chosen_java.environ() | _variables(chosen_java, master)),
        warnings.catch_warnings(),
    ):
        # The child runs another program at once, so it never comes to Lance.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        try:
            launch: Any = java_gateway.launch_gateway
            gateway = launch(conf, {"stdout": log, "stderr": log})
        except Exception as fault:
            said = _tail(log) or _first_line(fault)
            raise StorageError(
                f"Java {chosen_java.version} does not start for Spark: {said}"
            ) from fault
    context: Any = SparkContext
    context._gateway, context._jvm = gateway, gateway.jvm
    return False


def _import_pandas() -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")


def _variables(chosen_java: java.Java, master: str) -> dict[str, str | None]:
    """The environment in which Spark's Java is started."""
    from pyspark.find_spark_home import _find_spark_home

    home = user_cache.folder()
    options = class_archive.options(chosen_java, Path(_find_spark_home()), home / "classes")
    conf_dir = _conf_dir(os.environ)
    if conf_dir is None or not (conf_dir / "log4j2.properties").exists():
        logging = user_cache.put(home / "log4j2.properties", _LOGGING)
        options.append(f"-Dlog4j2.configurationFile={logging}")
    variables: dict[str, str | None] = {
        "SPARK_SUBMIT_OPTS": _added("SPARK_SUBMIT_OPTS", " ".join(map(shlex.quote, options))),
        # A small Java that works out the command of the big one.
        "SPARK_LAUNCHER_OPTS": _added(
            "SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
        ),
    }
    if is_local(master):
        # Spark would look up the name of this machine, which can take long without a network.
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP") or "127.0.0.1"
        variables["SPARK_LOCAL_HOSTNAME"] = os.environ.get("SPARK_LOCAL_HOSTNAME") or "localhost"
    return variables


def _added(name: str, more: str) -> str:
    return f"{more} {os.environ.get(name, '')}".strip()


def _options(master: str) -> dict[str, str]:
    """What we set unless Spark is configured otherwise."""
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Else the end of a quick task is noticed with the next heartbeat, seconds later.
        "spark.ui.liveUpdate.period": "0ms",
        "spark.python.worker.reuse": "true",
        # How long a cancelled task may go on before its worker is killed.
        "spark.python.task.killTimeout": "500ms",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if is_local(master):
        threads = re.match(r"local\[\s*(\d+)", master)
        cores = int(threads[1]) if threads else os.cpu_count() or 1
        options |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(cores),
            "spark.python.daemon.module": "omnigraph.pipeline.spark.worker_daemon",
            # The workers find the package where this process has found it.
            "spark.executorEnv.PYTHONPATH": str(_PACKAGE.parent),
        }
    return options


def _sockets(master: str) -> dict[str, str]:
    """Sockets in a folder instead of TCP ports: a task takes 20 ms less."""
    if not is_local(master):
        return {}
    if _Own.sockets is None:
        _Own.sockets = tempfile.mkdtemp(prefix="omnigraph-")
    # A socket's whole path has to fit into about a hundred bytes; its name takes 42.
    if len(os.fsencode(_Own.sockets)) > 55:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": _Own.sockets,
    }


# --- what Spark is configured to -----------------------------------------------------------------


def _configured(environ: Mapping[str, str]) -> dict[str, str]:
    """What Spark's own configuration says: its file of defaults, and `PYSPARK_SUBMIT_ARGS`."""
    conf_dir = _conf_dir(environ)
    properties: dict[str, str] = {}
    if conf_dir is not None:
        with contextlib.suppress(OSError):
            properties |= _properties((conf_dir / "spark-defaults.conf").read_text("utf-8"))
    try:
        words = shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError as fault:
        raise UsageError(f"PYSPARK_SUBMIT_ARGS makes no sense: {fault}") from None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file")
    parser.add_argument("--master")
    parser.add_argument("--remote")
    parser.add_argument("--driver-memory")
    try:
        arguments, _ = parser.parse_known_args(words)
    except argparse.ArgumentError as fault:
        raise UsageError(f"PYSPARK_SUBMIT_ARGS makes no sense: {fault}") from None
    if arguments.properties_file:
        with contextlib.suppress(OSError):
            properties = _properties(Path(arguments.properties_file).read_text("utf-8"))
    for pair in arguments.conf:
        name, equals, value = pair.partition("=")
        if equals:
            properties[name.strip()] = value.strip()
    named = {
        "spark.master": arguments.master,
        "spark.remote": arguments.remote,
        "spark.driver.memory": arguments.driver_memory,
    }
    return properties | {name: value for name, value in named.items() if value}


def _conf_dir(environ: Mapping[str, str]) -> Path | None:
    if environ.get("SPARK_CONF_DIR"):
        return Path(environ["SPARK_CONF_DIR"])
    return Path(environ["SPARK_HOME"], "conf") if environ.get("SPARK_HOME") else None


def _properties(text: str) -> dict[str, str]:
    properties = {}
    for line in text.splitlines():
        match = re.match(r"\s*([^#!\s=:][^\s=:]*)\s*[=:\s]\s*(.*?)\s*$", line)
        if match:
            properties[match[1]] = match[2]
    return properties


def _has_memory(configured: Mapping[str, str]) -> bool:
    memory = os.environ.get("SPARK_DRIVER_MEMORY") or os.environ.get("SPARK_MEM")
    return bool(memory) or "spark.driver.memory" in configured


# --- the package on other machines ---------------------------------------------------------------


def _ship(spark: SparkSession) -> None:
    """Give the executors this package, once per application, unless they are this machine."""
    if is_connect(spark):
        application = f"connect-{id(spark)}"
    else:
        context = spark.sparkContext
        if is_local(str(context.master)):
            return
        application = str(context.applicationId)
    if application in _Own.shipped:
        return
    content = _zipped(_PACKAGE)
    name = f"omnigraph-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    path = str(user_cache.put(user_cache.folder() / "packages" / name, content))
    try:
        if is_connect(spark):
            spark.addArtifacts(path, pyfile=True)
        else:
            # PySpark also puts the file on the path of this process, where it would be in the way.
            before = list(sys.path)
            context.addPyFile(path)
            sys.path[:] = before
    except Exception as fault:
        raise StorageError(
            f"the package cannot be sent to Spark's executors: {_first_line(fault)}",
            transient=True,
        ) from fault
    _Own.shipped |= {application}


def _zipped(package: Path) -> bytes:
    """The package as a zip file that is the same whenever the package is."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                entry = zipfile.ZipInfo(path.relative_to(package.parent).as_posix())
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                file.writestr(entry, path.read_bytes())
    return archive.getvalue()


# --- odds and ends -------------------------------------------------------------------------------


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Change environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set(variables)
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _first_line(fault: BaseException) -> str:
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    # Py4J's first line only says that there was an exception.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else type(fault).__name__


def _tail(log: IO[bytes]) -> str:
    """The last lines that Java has written."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if line.strip())[-2000:]
