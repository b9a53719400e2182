"""The order of decoding, read from a trace: pure functions on one sentence.

Santilli et al. (2023), sections 3.5 and 4.3. Positions and steps count from 0. A token's
*context* is how many leading tokens of the output stood rightly in the decoder's input when the
token was found: ``p(y_j | y_1 ... y_context, x)``. In autoregressive decoding it is all
tokens before; where it is fewer, the token was decoded in parallel with those it did not wait for.
"""

from dataclasses import dataclass
from typing import Optional

from .trace import SentenceTrace, TraceStep

SOURCE = -1


@dataclass(frozen=True)
class Decoded:
    """The finding of one output token.

    Attributes:
        step: the step from which on the token was right.
        context: how many leading tokens were rightly in place then; at most the token's position.
        parallel: whether the token before it was not yet there.
        guessed: whether no answer gave it first: the draft was right (an n-gram that was looked
            up), and the model confirmed it, perhaps in the same step as tokens before it.
    """

    step: int
    context: int
    parallel: bool
    guessed: bool = False


@dataclass(frozen=True)
class Cell:
    """One answer, on one output position in one step.

    Attributes:
        kind: ``found`` where the token is right from this step on, ``guessed`` where it is so
            because the draft was, ``kept`` where it was right before, ``wrong`` where the answer
            is not what the output has, ``unused`` behind a failed proposal.
        failed: the proposal that failed here, if one did (``blockwise`` only).
    """

    kind: str
    answer: str
    probability: float
    draft: Optional[str]
    failed: Optional[str] = None


def known(trace: SentenceTrace, step: TraceStep) -> int:
    """The number of leading tokens of the output that stood rightly in the step's input."""
    n = step.first
    for draft in step.drafts:
        if n >= len(trace.tokens) or draft != trace.tokens[n]:
            break
        n += 1
    return min(n, len(trace.tokens))


def frontiers(trace: SentenceTrace) -> list[int]:
    """After each step, how many leading tokens are settled; never decreases.

    A token is settled when it answers an input that is right up to it, whether or not the
    generator could know that yet: what the rest of the input holds cannot change it.
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
    """The finding of each output token; ``None`` for those that were forced.

    With ``blockwise``, a proposal that was accepted was made by a head in the step before, so its
    context is what that step knew. With all other methods, a token is found by the first answer
    after which no answer at its position is another. The context then is a lower bound of
    what the token was seen to need: right drafts behind a wrong one are not counted.
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
        pairs (i, j): token j waited for token i and all before it, and for none behind it; for
        nothing but the source where i is :data:`SOURCE`. Edges from the tokens before i are
        left out, so that a stretch decoded one by one is a chain, as forced tokens are.
    """
    contexts = [j if token is None else token.context for j, token in enumerate(tokens)]
    return [(context - 1, j) for j, context in enumerate(contexts)]


def cells(trace: SentenceTrace) -> list[list[Optional[Cell]]]:
    """The matrix: for each step and output position, the answer given there, if any."""
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
