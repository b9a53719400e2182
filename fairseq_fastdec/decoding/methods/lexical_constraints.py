"""Phrases that an output has to contain, as with fairseq's ``--constraints``.

Post and Vilar (NAACL 2018) share a beam among banks of candidates; Hu et al. (NAACL 2019) follow
the phrases in a trie. In compiled code they are in ``engine/cpp/constraints.h``.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Optional

# The first tokens of a phrase, a node of the trie.
Node = tuple[int, ...]


class ConstraintState(NamedTuple):
    """The state of an output with constraints: how much of them it contains.

    Attributes:
        stages: the phrases; those of a stage are in any order, and the stages follow each other.
        stage: the number of the stage that the output is in.
        contained: the phrases of the stage that it contains.
        node: the beginning of a phrase that its last tokens are; empty for none.
        n_before: the number of tokens of the phrases of earlier stages.
    """

    stages: Sequence[Sequence[Node]]
    stage: int = 0
    contained: tuple[Node, ...] = ()
    node: Node = ()
    n_before: int = 0

    @classmethod
    def begin(cls, phrases: Sequence[Sequence[int]], ordered: bool) -> "ConstraintState":
        """The progress of an empty output.

        Args:
            phrases: at least one, none of them empty.
            ordered: whether outputs have them in this order.
        """
        own = [tuple(phrase) for phrase in phrases]
        return cls([[phrase] for phrase in own] if ordered else [own])

    def after(self, token: int) -> "ConstraintState":
        """The progress after one more token; an output that leaves a phrase begins again."""
        if self._is_missing((*self.node, token)):
            return self._replace(node=(*self.node, token))
        left = self.settled
        return left._replace(node=(token,) if left._is_missing((token,)) else ())

    @property
    def settled(self) -> "ConstraintState":
        """The progress if the output leaves its phrase: the longest complete one is contained."""
        node = self.node
        while node and not Counter(self._phrases)[node] > Counter(self.contained)[node]:
            node = node[:-1]
        contained = (*self.contained, node) if node else self.contained
        after = self._replace(contained=contained, node=())
        if len(contained) < len(self._phrases) or self.stage + 1 == len(self.stages):
            return after
        n_before = self.n_before + sum(map(len, contained))
        return after._replace(stage=self.stage + 1, contained=(), n_before=n_before)

    @property
    def bank(self) -> int:
        """The number of tokens of constraints that the output has (Post and Vilar 2018)."""
        return self.n_contained + len(self.node)

    @property
    def n_contained(self) -> int:
        """The number of tokens of the contained phrases."""
        return self.n_before + sum(map(len, self.contained))

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all phrases."""
        return sum(len(phrase) for stage in self.stages for phrase in stage)

    @property
    def are_met(self) -> bool:
        """Whether the output contains all phrases."""
        return self.settled.n_contained == self.n_tokens

    def next_tokens(self) -> list[int]:
        """The tokens that begin or continue a phrase, missing or not, as in fairseq."""
        tokens = self.settled._following(())
        return [*tokens, *self._following(self.node)] if self.node else tokens

    def due_token(self, step: int, max_len: int) -> Optional[int]:
        """The token that brings an output of ``step`` tokens closer to its constraints.

        Returns:
            ``None`` unless any other token could prevent an output of ``max_len`` tokens from
            containing them
        """
        left = self.settled
        n_missing = self.n_tokens - left.n_contained
        if not n_missing or n_missing < max_len - step:
            return None
        for own, node in ((self, self.node), (left, ())):
            for token in own._following(node):
                if own._is_missing((*node, token)):
                    return token
        return None

    @property
    def _phrases(self) -> Sequence[Node]:
        return self.stages[self.stage]

    def _is_missing(self, node: Node) -> bool:
        """Whether a phrase that the output does not contain begins with a node."""
        n_all, n_contained = (
            sum(phrase[: len(node)] == node for phrase in phrases)
            for phrases in (self._phrases, self.contained)
        )
        return n_all > n_contained

    def _following(self, node: Node) -> list[int]:
        """The tokens after a node, in the order of the phrases."""
        n = len(node)
        longer = [phrase for phrase in self._phrases if len(phrase) > n and phrase[:n] == node]
        return list(dict.fromkeys(phrase[n] for phrase in longer))
