"""When to ask for proposals of which nobody knows whether they pay."""

# After a rest, the first answers take long, as the processor's caches hold none of what they read.
# They do not decide.
WARM_UP = 4
# A trial ends when it has lost so many invocations without proposals; one that has gained is ended
# by no more than twice as much.
MOST_LOST = 8.0
# Trials may lose so many invocations for each root of the number of all: of 2,500 invocations that
# is one in a hundred, and less of more.
LOST_BY_ROOT = 0.5
LEAST_REST = 256


class SourceTrial:
    """Has a source of proposals asked while that pays, and from time to time to find out.

    Time is counted in invocations without proposals, those of now.

    Attributes:
        next: the invocation from which on to ask.
    """

    def __init__(self, first: int) -> None:
        """
        Args:
            first: the invocation of the first trial.
        """
        self.next = first
        self._n_asked = 0
        self._balance = self._lost = self._lost_before = 0.0

    def is_on(self, n_invocations: int) -> bool:
        """Whether to ask for an invocation, by its number."""
        return n_invocations >= self.next

    @property
    def is_warm(self) -> bool:
        """Whether the last answers show what the next ones will take."""
        return self._n_asked >= WARM_UP

    def learn(self, n_invocations: int, lost: float) -> None:
        """Learn what an invocation lost for which the source was asked.

        Args:
            n_invocations: their number until now.
            lost: the time of asking, less what the answer saved.
        """
        self._n_asked += 1
        self._lost = max(0.0, self._lost + lost)
        if self._n_asked <= WARM_UP:
            return
        self._balance = max(-MOST_LOST, self._balance + lost)
        if self._balance < MOST_LOST:
            return
        # Another trial may lose as much.
        of_trial = max(0.0, self._lost - self._lost_before)
        root = (self._lost + of_trial) / LOST_BY_ROOT
        self.next = max(int(root**2), n_invocations + LEAST_REST)
        self._lost_before = self._lost
        self._n_asked, self._balance = 0, 0.0
