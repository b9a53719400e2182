"""Derives the order of decoding from a trace, with pure functions of one sentence.

Santilli et al. (2023), sections 3.5 and 4.3. Positions and steps count from 0. A token's *context*
is the number of leading output tokens that were correct in the decoder's input when the token was
found: ``p(y_j | y_1 ... y_context, x)``. In autoregressive decoding it is all previous tokens. If
it is fewer, the token was decoded in parallel with the rest.
"""

from dataclasses import dataclass
from typing import Optional

from .trace import SentenceTrace, TraceStep

SOURCE = -1


@dataclass(frozen=True)
class Decoded:
    """The step and context in which an output token was found.

    Attributes:
        step: the step from which the token was right.
        context: the number of correct leading tokens at that step; at most the token's position.
        parallel: whether the token before it was not found yet.
        guessed: whether the token was right in a draft (from an n-gram) before it was an answer,
            and the model confirmed it, perhaps in the same step as tokens before it.
    """

    step: int
    context: int
    parallel: bool
    guessed: bool = False


@dataclass(frozen=True)
class Cell:
    """The answer at one output position in one step.

    Attributes:
        kind: ``found`` if the token is right from this step on, ``guessed`` if so because its draft
            was right, ``kept`` if it was right before, ``wrong`` if the answer differs from the
            output, ``unused`` after a failed proposal.
        failed: the proposal that failed here, if any (``blockwise`` only).
    """

    kind: str
    answer: str
    probability: float
    draft: Optional[str]
    failed: Optional[str] = None


def known(trace: SentenceTrace, step: TraceStep) -> int:
    """The number of leading output tokens that were correct in the step's input."""
    n = step.first
    for draft in step.drafts:
        if n >= len(trace.tokens) or draft != trace.tokens[n]:
            break
        n += 1
    return min(n, len(trace.tokens))


def frontiers(trace: SentenceTrace) -> list[int]:
    """The number of settled leading tokens after each step; never decreases.

    A token is settled if it answers an input that is correct up to it, even if the generator cannot
    know this yet: the rest of the input cannot change it.
    """
    settled, highest = [], 0
    for step in trace.steps:
        reached = known(trace, step)
        if reached < len(trace.tokens) and _is_right(trace, step, reached):
            reached += 1
        declared = min(step.first + step.settled, len(trace.tokens))
        highest = max(highest, reached, declared)
        settled.append(highest)
    return settled


def decoded(trace: SentenceTrace) -> list[Optional[Decoded]]:
    """When each output token was found; ``None`` for forced tokens.

    With ``blockwise``, an accepted proposal was made by a head in the previous step, so its context
    is that of the previous step. With all other methods, a token is found by the first answer after
    which the answer at its position does not change. The context is then a lower bound: correct
    drafts after a wrong one are not counted.
    """
    find = _proposed if trace.method == "blockwise" else _answered
    return [find(trace, position) for position in range(len(trace.tokens))]


def _answered(trace: SentenceTrace, position: int) -> Optional[Decoded]:
    since = None
    for n, step in enumerate(trace.steps):
        if not _covers(step, position):
            continue
        if not _is_right(trace, step, position):
            since = None
        elif since is None:
            since = n
    if since is None:
        return None
    step = trace.steps[since]
    n_known, index = known(trace, step), position - step.first
    context = min(n_known, position)
    guessed = index < len(step.drafts) and step.drafts[index] == trace.tokens[position]
    return Decoded(since, context, context < position, guessed)


def _proposed(trace: SentenceTrace, position: int) -> Optional[Decoded]:
    for n, (step, frontier) in enumerate(zip(trace.steps, frontiers(trace))):
        if frontier > position:
            if not _covers(step, position):
                return None
            if known(trace, step) <= position or n == 0:
                return Decoded(n, position, False)
            context = min(known(trace, trace.steps[n - 1]), position)
            return Decoded(n, context, context < position)
    return None


def edges(tokens: list[Optional[Decoded]]) -> list[tuple[int, int]]:
    """The dependency graph (Figure 4, above), a tree: one edge to each token.

    Returns:
        pairs (i, j): token j depends on token i and all before it, but on none after it; only on
        the source if i is :data:`SOURCE`. Edges from the tokens before i are omitted, so that
        tokens decoded one by one form a chain, as do forced tokens.
    """
    contexts = [j if token is None else token.context for j, token in enumerate(tokens)]
    return [(context - 1, j) for j, context in enumerate(contexts)]


def cells(trace: SentenceTrace) -> list[list[Optional[Cell]]]:
    """The matrix: the answer at each step and output position, if any."""
    found = decoded(trace)
    return [
        [_cell(trace, n, position, found[position]) for position in range(len(trace.tokens))]
        for n in range(len(trace.steps))
    ]


def _cell(trace: SentenceTrace, n: int, position: int, token: Optional[Decoded]) -> Optional[Cell]:
    step = trace.steps[n]
    if not _covers(step, position):
        return None
    index = position - step.first
    answer, probability = step.answers[index], step.probabilities[index]
    draft = step.drafts[index] if index < len(step.drafts) else None
    failed = None
    if trace.method == "blockwise":
        failed_at = known(trace, step)
        if position == failed_at:
            failed = draft
        elif position > failed_at:
            return Cell("unused", answer, probability, draft)
    if token is not None and n == token.step:
        kind = "guessed" if token.guessed else "found"
    elif token is not None and n > token.step:
        kind = "kept"
    else:
        kind = "wrong"
    return Cell(kind, answer, probability, draft, failed)


def _covers(step: TraceStep, position: int) -> bool:
    return step.first <= position < step.first + len(step.answers)


def _is_right(trace: SentenceTrace, step: TraceStep, position: int) -> bool:
    index = position - step.first
    return index < step.settled or step.answers[index] == trace.tokens[position]
