"""Simple decoders in Python, for traces with known results."""

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep

EOS, PAD = "</s>", "<pad>"


def memory(order):
    """A decoder whose n-th token is n if the order[n] tokens before it are right."""

    def next_token(prefix):
        n = len(prefix)
        if n >= len(order):
            return EOS
        looked_at = range(max(0, n - order[n]), n)
        return str(n) if all(prefix[i] == str(i) for i in looked_at) else "wrong"

    return next_token


def greedy(next_token, max_len=60):
    """Decode with a deterministic ``next_token(prefix)`` up to EOS."""
    tokens = []
    while not tokens or tokens[-1] != EOS:
        tokens.append(next_token(tokens) if len(tokens) < max_len else EOS)
    return tokens


def jacobi(next_token, max_len=60, sliding=True):
    """Parallel Jacobi over the whole sentence, from a draft of PADs.

    Args:
        sliding: whether settled tokens leave the window immediately, as in this package, or only
            when nothing changes any more, as in the paper.
    """
    tokens = greedy(next_token, max_len)
    drafts, start, steps = [PAD] * len(tokens), 0, []
    while start < len(tokens):
        answers = [next_token(drafts[:n]) for n in range(start, len(tokens))]
        if sliding:
            settled = 1
            while settled < len(answers) and drafts[start + settled - 1] == answers[settled - 1]:
                settled += 1
        else:
            settled = len(answers) if answers == drafts else 0
        probabilities = [1 / (2 + n) for n in range(len(answers))]
        steps.append(TraceStep(start, drafts[start:-1], answers, probabilities, settled))
        drafts[start:] = answers
        start += settled
    return SentenceTrace(0, ["x", EOS], tokens, steps, "jacobi")


def blockwise(next_token, propose, block_size, max_len=60):
    """Blockwise decoding with exact acceptance.

    Args:
        propose: takes a prefix and n, and returns the token n positions after the next one.
    """
    tokens = greedy(next_token, max_len)
    fed, drafts, steps = [], [], []
    while True:
        first = len(fed)
        context = fed + drafts
        answers = [next_token(context[:n]) for n in range(first, len(context) + 1)]
        accepted = 0
        while accepted < len(drafts) and drafts[accepted] == answers[accepted]:
            accepted += 1
        probabilities = [0.5] * len(answers)
        steps.append(TraceStep(first, drafts, answers, probabilities, accepted + 1))
        heads_saw = fed + drafts[:accepted]
        fed = heads_saw + [answers[accepted]]
        if EOS in fed or len(fed) >= len(tokens):
            return SentenceTrace(0, ["x", EOS], tokens, steps, "blockwise")
        drafts = [propose(heads_saw, n) for n in range(1, block_size)]
