"""Batches that the engine decodes as a whole."""

from dataclasses import replace
from itertools import islice

import numpy as np

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.searches import BeamOptions, Recipe
from fairseq_fastdec.translating.translator import SentenceJob


class EngineBatches:
    """Decodes whole batches with a search of the engine. Not thread-safe."""

    def __init__(self, recipe: Recipe, n_threads: int) -> None:
        # A copy of the recipe has its own search.
        self._recipe, self._n_threads = replace(recipe), n_threads

    def __call__(self, batch: list[SentenceJob]) -> list[str]:
        recipe, search = self._recipe, self._recipe.search
        is_beam = isinstance(recipe.options, BeamOptions)
        for number, job in enumerate(batch):
            max_len = recipe.rules.max_len(len(job.tokens))
            given = {"sources": job.tokens[None], "bos": recipe.bos, "prefix": recipe.forced}
            if is_beam:
                lens, waived = np.array([max_len]), np.array([0])
                search.admit(ids=np.array([number]), max_lens=lens, waived=waived, **given)
            else:
                search.admit(first_id=number, max_len=max_len, **given)
        search.advance(loading.library().ALL_STEPS, self._n_threads)
        found = search.finished()
        ends = np.cumsum(found.outputs.lengths)[:-1]
        parts = zip(np.split(found.outputs.tokens, ends), np.split(found.outputs.scores, ends))
        totals = found.totals.tolist() if is_beam else [0.0] * len(found.outputs.lengths)
        hypotheses = iter([(*part, total) for part, total in zip(parts, totals)])
        texts = [""] * len(batch)
        for number, n in zip(found.ids, found.n_hypotheses if is_beam else [1] * len(found.ids)):
            outputs = recipe.outputs(list(islice(hypotheses, n)))
            texts[number] = batch[number].written(outputs, False)[0]
        return texts
