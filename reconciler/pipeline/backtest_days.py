"""Where the days of a backtest are replayed: one after the other in this process, or on workers of a Dask cluster."""

import logging
import pickle
import warnings
import zlib
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.backtest.day import replay_day
from reconciler.backtest.replayed import Replayed
from reconciler.domain.backtests import BacktestDay
from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError, TransientError
from reconciler.pipeline.process import set_up_process
from reconciler.simulation.policies import POLICIES

if TYPE_CHECKING:
    from distributed import Client

CONNECTS_WITHIN_S = 30
ANY_PORT = "127.0.0.1:0"
WORKERS_START_WITH = "distributed.nanny.pre-spawn-environ"
MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""A worker keeps up to 256 MiB of freed memory for its next arrays, and returns those of 32 MiB or more to the system.
Dask's own setting returns all above 64 KiB at once, and then each step takes three times as long."""
NO_DASK = "without Dask: pip install 'inference-reconciler[backtest]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who replays days: a Dask cluster at an address, else so many processes on this machine; 0 is this process."""

    scheduler: str = ""
    count: int = 0


def replay_days(
    replayed: Replayed,
    days: Sequence[float],
    seed: int,
    ablations: Sequence[str],
    workers: Workers,
    policies: Sequence[str] = tuple(POLICIES),
) -> Generator[tuple[float, BacktestDay], None, None]:
    """Each day with its beginning (Unix seconds), as soon as it is finished; none depends on where it was replayed.

    A day whose worker ends is replayed by another one. Raises ConfigurationError where no cluster can be had, and
    TransientError where workers end again and again, or the scheduler ends.
    """
    if not workers.scheduler and not workers.count:
        yield from ((day_s, replay_day(replayed, day_s, seed, policies, ablations)) for day_s in days)
        return
    with ExitStack() as stack:
        client = _connected(stack, workers)
        from distributed import KilledWorker, as_completed

        # a task, not data that is scattered: it is made again where the only worker that has it ends
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            subject = client.submit(_received, zlib.compress(pickle.dumps(replayed), 1))
        asked = {
            client.submit(_replay, subject, day_s, seed, policies, ablations, pure=False, priority=-place): day_s
            for place, day_s in enumerate(days)
        }
        stack.callback(lambda: client.cancel(list(asked)))
        for future in as_completed(list(asked)):
            try:
                yield asked.pop(future), future.result()  # what nobody waits for any more, its worker forgets
            except KilledWorker as error:
                raise TransientError(
                    f"backtest: workers ended again and again while they replayed a day, mostly for want of memory "
                    f"(finished days are kept with --keep): {error}"
                ) from error
            except CancelledError as error:
                raise TransientError(
                    f"backtest: the Dask scheduler ended or cannot be reached any more (finished days are kept with "
                    f"--keep): {error}"
                ) from error


def _connected(stack: ExitStack, workers: Workers) -> "Client":
    """A client of the cluster that is asked for, with workers of this version."""
    option = f"--scheduler {workers.scheduler}" if workers.scheduler else f"--workers {workers.count}"
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigurationError(f"{option}: {NO_DASK}") from error
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it tells of every worker that comes and goes
    try:
        if workers.scheduler:
            client: Client = stack.enter_context(Client(workers.scheduler, timeout=CONNECTS_WITHIN_S))
        else:
            with dask.config.set({f"{WORKERS_START_WITH}.{name}": size for name, size in MEMORY.items()}):
                local = LocalCluster(n_workers=workers.count, threads_per_worker=1, dashboard_address=ANY_PORT)
            client = stack.enter_context(Client(stack.enter_context(local)))
        client.wait_for_workers(1, timeout=CONNECTS_WITHIN_S)
        versions = set(client.run(_version).values())
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise ConfigurationError(f"{option}: no Dask cluster with a worker that has the reconciler: {error}") from error
    if versions != {__version__}:
        found = ", ".join(sorted(map(str, versions)))
        raise ConfigurationError(f"{option}: workers have version {found} of the reconciler, this is {__version__}")
    return client


def _version() -> str:
    return __version__


def _received(packed: bytes) -> Replayed:
    set_up_process()
    unpacked: Replayed = pickle.loads(zlib.decompress(packed))  # noqa: S301 - from the operator's own client
    return unpacked


def _replay(
    replayed: Replayed, day_s: float, seed: int, policies: Sequence[str], ablations: Sequence[str]
) -> BacktestDay:
    set_up_process()
    return replay_day(replayed, day_s, seed, policies, ablations)
