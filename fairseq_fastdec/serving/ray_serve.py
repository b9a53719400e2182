"""Translation on the machines of a Ray cluster: ``serve --ray``.

The command's process answers HTTP requests as it does without Ray, but calls a replica to translate
each sentence: a process of Ray Serve on any of the machines. The number of replicas follows the
number of sentences that wait or are being decoded. If a replica is lost, another one translates its
sentences again, so that each accepted request is answered once.
"""

import asyncio
import logging
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..processes import ray_cluster
from ..translating.bundle import BundleTranslator
from ..translating.bundle_file import is_bundle, parse
from ..translating.errors import QueueFull
from ..translating.scheduler import SchedulerOptions, split_options
from .config import ModelOptions, ServerOptions

logger = logging.getLogger(__name__)

# The maximum number of attempts for a sentence whose replica is lost each time: a sentence that
# crashes a process must not crash all of them.
MOST_ATTEMPTS = 5
# The delay before the second attempt, in seconds; it doubles with each further attempt.
BEFORE_NEXT = 0.1
# How long there must have been too few or too many replicas before Ray Serve changes their number,
# and the time over which it averages the number of sentences, in seconds. The latter must be longer
# than Ray Serve's interval between two counts.
UPSCALE_DELAY = 5.0
DOWNSCALE_DELAY = 300.0
LOOK_BACK = 15.0


class Replica:
    """Translates sentences in a process of the cluster.

    The bundle is in the machine's object store, in memory shared by its replicas.
    """

    def __init__(
        self, bundle: list[Any], name: str, options: dict[str, Any], scheduling: dict[str, Any]
    ) -> None:
        """
        Args:
            bundle: a list with a Ray reference to the bytes of the bundle.
            name: the name of the file, for messages.
            options: decoding options.
            scheduling: the arguments of :class:`~.scheduler.SchedulerOptions`.
        """
        import ray

        self._translator = BundleTranslator(parse(ray.get(bundle[0]), name), options)
        self._translator.schedule(**scheduling)

    async def translate(self, text: str, options: dict[str, Any]) -> Any:
        """See :meth:`..translating.translator.Translator.translate_async`."""
        return await self._translator.translate_async(text, **options)

    async def score(self, text: str, translation: str, options: dict[str, Any]) -> Any:
        """See :meth:`..translating.translator.Translator.score_async`."""
        return await self._translator.score_async(text, translation, **options)


class ClusterTranslator:
    """Translates sentences with replicas.

    Attributes:
        n_calls: the number of sentences that wait or are being decoded.
    """

    def __init__(self, handle: Any, close: Callable[[], None]) -> None:
        """
        Args:
            handle: the handle of the Ray Serve deployment.
            close: stops the replicas.
        """
        self._handle, self.close = handle, close
        self.n_calls = 0

    async def translate_async(self, text: str, **options: Any) -> Any:
        """See :meth:`..translating.translator.Translator.translate_async`, and :meth:`_called`."""
        return await self._called("translate", text, options)

    async def score_async(self, text: str, translation: str, **options: Any) -> Any:
        """See :meth:`..translating.translator.Translator.score_async`, and :meth:`_called`."""
        return await self._called("score", text, translation, options)

    async def _called(self, method: str, *arguments: Any) -> Any:
        """The result of a method of :class:`Replica`.

        Raises:
            QueueFull: if too many sentences wait.
            RuntimeError: if :data:`MOST_ATTEMPTS` replicas in a row are lost.
        """
        from ray.exceptions import RayActorError, RayTaskError
        from ray.serve.exceptions import BackPressureError

        self.n_calls += 1
        try:
            for attempt in range(MOST_ATTEMPTS):
                response = getattr(self._handle, method).remote(*arguments)
                try:
                    return await response
                except asyncio.CancelledError:
                    response.cancel()
                    raise
                except BackPressureError as error:
                    # A sentence that has been accepted is not rejected at a later attempt.
                    if attempt == 0:
                        raise QueueFull("too many sentences are waiting") from error
                except RayTaskError as error:
                    raise error.cause from None
                except RayActorError:
                    logger.warning("a replica was lost; its sentences are translated again")
                await asyncio.sleep(BEFORE_NEXT * 2**attempt)
            raise RuntimeError(f"{MOST_ATTEMPTS} replicas were lost while translating a sentence")
        finally:
            self.n_calls -= 1

    def queued(self) -> tuple[int, int]:
        """0, and the number of sentences in Ray Serve, whether they wait or are being decoded."""
        return 0, self.n_calls


def connect() -> None:
    """Connect this process to the Ray cluster at ``RAY_ADDRESS`` or on this machine.

    Raises:
        ValueError: if Ray is not installed, or if no cluster answers.
    """
    ray_cluster.connected(ray_cluster.AUTO, "--ray", "serve")
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    # This process answers requests, not Ray Serve's HTTP servers.
    serve.start(proxy_location="Disabled")


def deployed(
    translator: Any, model: ModelOptions, languages: tuple[str, str], server: ServerOptions
) -> ClusterTranslator:
    """Start replicas of a model, and wait for the first one.

    Args:
        translator: the translator of the model; exported first if the model is not a bundle.

    Raises:
        ValueError: if the model cannot be exported, or if the first replica does not start.
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
        # One batch that is decoded, and the next one.
        max_ongoing_requests=2 * at_once,
        max_queued_requests=server.max_queue,
        autoscaling_config={
            "min_replicas": 1,
            # A replica that fits on no machine waits until one has room.
            "max_replicas": max(1, server.max_queue // at_once),
            "target_ongoing_requests": at_once,
            "upscale_delay_s": UPSCALE_DELAY,
            "downscale_delay_s": DOWNSCALE_DELAY,
            "look_back_period_s": LOOK_BACK,
        },
        graceful_shutdown_timeout_s=server.timeout_seconds,
        # The access log would have a line for each sentence.
        logging_config={"enable_access_log": False},
    )
    # A restarted server replaces the replicas of its previous run.
    name = "-".join(["fastdec", socket.gethostname(), str(server.port), *languages])
    logger.info("starting a replica of %s", model.path)
    try:
        # Ray keeps the data while this process runs.
        application = deploy(Replica).bind([data], model.path, options, scheduling)
        handle = serve.run(application, name=name, route_prefix=None)
    except BaseException as error:
        serve.delete(name)
        if isinstance(error, RuntimeError):
            raise ValueError(f"{model.path}: the first replica did not start: {error}") from error
        raise
    return ClusterTranslator(handle, partial(serve.delete, name))
