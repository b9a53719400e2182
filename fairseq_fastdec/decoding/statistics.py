"""Statistics of a run: counters, a one-line summary, and a JSON line for each sentence."""

import json
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

from ..engine.searches import Result

logger = logging.getLogger(__name__)

# Counters of a compiled search.
COUNTERS = (
    "encoder_invocations",
    "decoder_invocations",
    "row_invocations",
    "drafted",
    "drafted_right",
    "beam_steps",
    "waiting",
)


@dataclass
class Statistics:
    """Counters of one generator.

    A decoder invocation is one call of the decoder for a whole batch; a row invocation counts each
    row of it. At batch size 1 they are equal, so tokens per row invocation do not depend on the
    batch size.

    In Yang et al. 2020 decoder invocations are *timesteps*. Their *candidate expansions* are the
    row invocations of a beam search plus ``waiting``: they also count the candidates that have
    ended and wait on the beam, which are not fed to the decoder.

    ``block_name`` is what the mean number of tokens of ``blocks`` is called in the summary.
    ``oracle_seconds`` is the time that ``--oracle-length`` took to find lengths; no other counter
    includes that pass. ``seconds`` are the times of the compiled search by part, see
    ``cpp/counts.h``.
    """

    sentences: int = 0
    tokens: int = 0
    decoder_invocations: int = 0
    row_invocations: int = 0
    encoder_invocations: int = 0
    blocks: int = 0
    block_name: str = "mean accepted block size"
    beam_steps: int = 0
    waiting: int = 0
    refills: int = 0
    oracle_seconds: float = 0.0
    proposed: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    drafted: int = 0
    drafted_right: int = 0
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def count_search(self, before: Any, now: Any) -> None:
        """Add the increase of a compiled search's counters and seconds since ``before``."""
        for name in COUNTERS:
            added = getattr(now, name) - getattr(before, name)
            setattr(self, name, getattr(self, name) + added)
        # The first admission is not a refill.
        self.refills += now.encoder_invocations - before.encoder_invocations - 1
        if now.accepted:
            verified = [now.verified - before.verified] * len(now.accepted)
            pairs = zip(now.accepted, before.accepted)
            self.count_heads(verified, [new - old for new, old in pairs])
        for part, seconds in now.seconds.items():
            own_seconds = seconds - before.seconds[part]
            self.seconds[part] = self.seconds.get(part, 0.0) + own_seconds

    def count_step(self, n_rows: int) -> None:
        """Count a call of the decoder for ``n_rows`` rows."""
        self.decoder_invocations += 1
        self.row_invocations += n_rows

    def count_beams(self, n_beams: int, n_waiting: int = 0) -> None:
        """Count the beams that a decoder call expanded, and the ended candidates on them."""
        self.beam_steps += n_beams
        self.waiting += n_waiting

    def count_heads(self, proposed: list[int], accepted: list[int]) -> None:
        """Count the proposals of p_2, p_3, ... that were verified, and those that were accepted."""
        if not self.proposed:
            self.proposed, self.accepted = [0] * len(proposed), [0] * len(accepted)
        self.proposed = [total + n for total, n in zip(self.proposed, proposed)]
        self.accepted = [total + n for total, n in zip(self.accepted, accepted)]

    def count_drafts(self, proposed: int, right: int) -> None:
        """Count the tokens of given drafts that were verified, and those that were right."""
        self.drafted += proposed
        self.drafted_right += right

    def count_sentence(self, n_tokens: int, n_blocks: int) -> None:
        """Count a finished sentence and its accepted blocks."""
        self.sentences += 1
        self.tokens += n_tokens
        self.blocks += n_blocks

    def tokens_per_invocation(self) -> float:
        """Output tokens (EOS included) per row invocation."""
        return self.tokens / max(self.row_invocations, 1)

    def summary(self) -> str:
        """The one line at the end of a run."""
        parts = [
            f"{self.sentences} sentences",
            f"{self.tokens} tokens",
            f"{self.encoder_invocations} encoder invocations",
            f"{self.decoder_invocations} decoder invocations",
            f"{self.row_invocations} row invocations",
            f"{self.tokens_per_invocation():.3f} tokens per invocation",
        ]
        if self.blocks:
            parts.append(f"{self.block_name} {self.tokens / self.blocks:.3f}")
        if self.beam_steps:
            expansions, timesteps = self.row_invocations, max(self.decoder_invocations, 1)
            parts.append(f"{expansions / timesteps:.1f} candidate expansions per timestep")
            if self.waiting:
                both = (expansions + self.waiting) / timesteps
                parts.append(f"{both:.1f} with ended candidates on the beam (Yang et al.'s count)")
            parts.append(f"mean beam width {expansions / self.beam_steps:.2f}")
            parts.append(f"{self.refills} refills")
        if self.oracle_seconds:
            parts.append(f"{self.oracle_seconds:.3f} seconds before it for --oracle-length")
        if self.proposed:
            rates = (a / max(p, 1) for a, p in zip(self.accepted, self.proposed))
            heads = " ".join(f"p_{i}={rate:.3f}" for i, rate in enumerate(rates, start=2))
            parts.append(f"acceptance {heads}")
        if self.drafted:
            parts.append(f"{self.drafted_right} of {self.drafted} tokens of drafts accepted")
        return ", ".join(parts)


def record_of(number: int, source_tokens: int, result: Result) -> dict[str, Any]:
    """The cost of a sentence, as ``--decoding-stats`` writes it."""
    record = {
        "id": number,
        "source_tokens": source_tokens,
        "tokens": result.hypotheses[0]["tokens"].numel(),
        "invocations": result.steps,
        "blocks": result.blocks,
    }
    return {**record, "expansions": result.expansions} if result.expansions else record


class StatisticsFile:
    """Appends sentence records to ``--decoding-stats FILE``; opening empties the file."""

    def __init__(self, path: Optional[str]) -> None:
        """
        Raises:
            ValueError: if the file cannot be written.
        """
        self._path = path
        self._append(b"", "wb")

    def write(self, results: Iterable[tuple[int, int, Result]]) -> None:
        """Write a line for each sentence, with its number, source tokens and result.

        Raises:
            ValueError: if the file can no longer be written.
        """
        if self._path is not None:
            lines = (json.dumps(record_of(*result)) + "\n" for result in results)
            self._append("".join(lines).encode(), "ab")

    def _append(self, content: bytes, mode: str) -> None:
        if self._path is None:
            return
        try:
            with open(self._path, mode) as file:
                # A full device can be opened, but rejects even an empty write.
                os.write(file.fileno(), b"")
                file.write(content)
        except OSError as error:
            raise ValueError(
                f"--decoding-stats {self._path}: cannot be written ({error.strerror}); make room, "
                "name another file, or remove the option"
            ) from error


def log_summary(name: str, statistics: Statistics) -> None:
    """Log the summary, unless nothing was decoded.

    fairseq 0.12.2 logs to the file of ``--results-path``, which may be closed before the generator
    is deleted; the line is then written to standard error.
    """
    if not statistics.sentences:
        return
    message = f"{name} decoding: {statistics.summary()}"
    streams = (getattr(handler, "stream", None) for handler in logging.getLogger().handlers)
    if any(getattr(stream, "closed", False) for stream in streams):
        print(message, file=sys.stderr)
    else:
        logger.info(message)
