"""A process of one's own: for a method, or for what is not to count as a method's memory."""

import logging
import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def new_process() -> ProcessPoolExecutor:
    """Another process that runs one function at a time; it begins with nothing of this one's."""
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        # fairseq logs its whole configuration otherwise, for every method.
        initializer=logging.disable,
        initargs=(logging.INFO,),
    )
