"""Batches that the engine decodes as a whole."""

from dataclasses import replace

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.searches import Recipe, results_of
from fairseq_fastdec.translating.translator import SentenceJob


class EngineBatches:
    """Decodes whole batches with a search of the engine. Not thread-safe."""

    def __init__(self, recipe: Recipe, n_threads: int) -> None:
        # A copy of the recipe has its own search.
        self._recipe, self._n_threads = replace(recipe), n_threads

    def __call__(self, batch: list[SentenceJob]) -> list[str]:
        recipe, search = self._recipe, self._recipe.search
        for number, job in enumerate(batch):
            recipe.admit(search, number, job.sentence)
        search.advance(loading.library().ALL_STEPS, self._n_threads)
        texts = [""] * len(batch)
        for result in results_of(search.finished()):
            outputs = recipe.ranked(result)
            texts[result.id] = batch[result.id].written(outputs, False)[0]
        return texts
