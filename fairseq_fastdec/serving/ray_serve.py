"""Translation on the machines of a Ray cluster: ``serve --ray``.

The process of the command answers HTTP requests as it does without Ray. It translates no sentences:
each is a call of a replica, a process of Ray Serve on any of the machines. The number of replicas
follows the number of sentences that wait or are under way. A sentence whose replica is lost is
translated again by another, so that each accepted request gets one answer.
"""

import asyncio
import logging
import signal
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..bundles.file import is_bundle, parse
from ..bundles.translator import BundleTranslator
from .config import ModelOptions, ServerOptions
from .errors import QueueFull
from .scheduler import SchedulerOptions, split_options

logger = logging.getLogger(__name__)

# Times that a sentence is translated if its replica is lost each time: a sentence that ends the
# process must not end all of them.
MOST_ATTEMPTS = 5
# Seconds before the second attempt; each further one waits twice as long.
BEFORE_NEXT = 0.1
# For how long replicas must have been too few, or too many, and over which time Ray Serve takes the
# mean number of sentences, in seconds. It must be longer than Ray Serve's time between two counts.
UPSCALE_DELAY = 5.0
DOWNSCALE_DELAY = 300.0
LOOK_BACK = 15.0


class Replica:
    """Translates sentences in a process of the cluster.

    The bundle is in the object store of the machine, in memory that its replicas share.
    """

    def __init__(
        self, bundle: list[Any], name: str, options: dict[str, Any], scheduling: dict[str, Any]
    ) -> None:
        """
        Args:
            bundle: a reference to the bytes.
            name: of the file, for messages.
            options: of decoding.
            scheduling: of :class:`~.scheduler.SchedulerOptions`.
        """
        import ray

        self._translator = BundleTranslator(parse(ray.get(bundle[0]), name), options)
        self._translator.schedule(**scheduling)

    async def translate(self, text: str, options: dict[str, Any]) -> Any:
        """See :meth:`..translating.JoiningTranslator.translate_async`."""
        return await self._translator.translate_async(text, **options)


class ClusterTranslator:
    """Has replicas translate sentences.

    Attributes:
        n_calls: sentences that wait or are under way.
    """

    def __init__(self, handle: Any, close: Callable[[], None]) -> None:
        """
        Args:
            handle: of Ray Serve's deployment.
            close: ends the replicas.
        """
        self._handle, self.close = handle, close
        self.n_calls = 0

    async def translate_async(self, text: str, **options: Any) -> Any:
        """See :meth:`..translating.JoiningTranslator.translate_async`.

        Raises:
            RuntimeError: if the replicas that should translate the sentence are lost.
        """
        from ray.exceptions import RayActorError, RayTaskError
        from ray.serve.exceptions import BackPressureError

        self.n_calls += 1
        try:
            for attempt in range(MOST_ATTEMPTS):
                response = self._handle.translate.remote(text, options)
                try:
                    return await response
                except asyncio.CancelledError:
                    response.cancel()
                    raise
                except BackPressureError as error:
                    # One that was accepted before is not refused.
                    if attempt == 0:
                        raise QueueFull("too many sentences wait already") from error
                except RayTaskError as error:
                    raise error.cause from None
                except RayActorError:
                    logger.warning("a replica is lost; its sentences are translated again")
                await asyncio.sleep(BEFORE_NEXT * 2**attempt)
            raise RuntimeError(f"{MOST_ATTEMPTS} replicas were lost that translated a sentence")
        finally:
            self.n_calls -= 1

    def queued(self) -> tuple[int, int]:
        """0, and the number of sentences that wait or are under way: Ray Serve has the queue."""
        return 0, self.n_calls


def connect() -> None:
    """Have this process belong to the Ray cluster of ``RAY_ADDRESS`` or of this machine.

    Raises:
        ValueError: if Ray is not installed, or there is no such cluster.
    """
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise ValueError(
            "--ray: the package ray is not installed: pip install 'fairseq_fastdec[cluster]' "
            "(or pip install 'ray[serve]')"
        ) from error
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init("auto", log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"--ray: no cluster answers ({reason}); start one with ray start --head"
        ) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    # Requests come to this process, and not to Ray Serve's HTTP servers.
    serve.start(proxy_location="Disabled")


def deployed(
    translator: Any, model: ModelOptions, languages: tuple[str, str], server: ServerOptions
) -> ClusterTranslator:
    """Start replicas of a model, and wait for the first one.

    Args:
        translator: of the model; it is exported if the model is no bundle.

    Raises:
        ValueError: for a model that a bundle cannot hold, and if the replica cannot start.
    """
    import ray
    from ray import serve

    scheduling, options = split_options(model.decoding_options())
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(model.path)
        if not is_bundle(bundle):
            from ..tools.export import export

            bundle, options = Path(folder) / "model.fastdec", {}
            export(translator, bundle)
        data = ray.put(np.fromfile(bundle, np.uint8))
    threads = server.threads or 1
    scheduling["threads"] = threads
    at_once = threads * SchedulerOptions(**scheduling).batch_size
    deploy = serve.deployment(
        name=Replica.__name__,
        ray_actor_options={"num_cpus": threads},
        # A replica has the sentences that it decodes, and as many that are next.
        max_ongoing_requests=2 * at_once,
        max_queued_requests=server.max_queue,
        autoscaling_config={
            "min_replicas": 1,
            # One that no machine has room for waits for a machine.
            "max_replicas": max(1, server.max_queue // at_once),
            "target_ongoing_requests": at_once,
            "upscale_delay_s": UPSCALE_DELAY,
            "downscale_delay_s": DOWNSCALE_DELAY,
            "look_back_period_s": LOOK_BACK,
        },
        graceful_shutdown_timeout_s=server.timeout_seconds,
        # Its log would have a line for each sentence.
        logging_config={"enable_access_log": False},
    )
    # A server that starts again replaces the replicas that it left.
    name = "-".join(["fastdec", socket.gethostname(), str(server.port), *languages])
    logger.info("starting a replica of %s", model.path)
    try:
        # Ray keeps the data as long as this process lives.
        application = deploy(Replica).bind([data], model.path, options, scheduling)
        handle = serve.run(application, name=name, route_prefix=None)
    except BaseException as error:
        serve.delete(name)
        if isinstance(error, RuntimeError):
            raise ValueError(f"{model.path}: no replica starts: {error}") from error
        raise
    return ClusterTranslator(handle, partial(serve.delete, name))
