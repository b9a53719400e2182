"""A fake of Ray: each call is executed in this process when its result is requested."""

import collections
from types import SimpleNamespace

from fairseq_fastdec.corpora.output_lines import UntranslatedLine


class PretendedError(Exception):
    """Ray's error for a lost machine."""


class PretendedMachine:
    """An actor that translates in this process.

    Attributes:
        answer: the result of ``start``: a number of workers, a reason, or an error.
        dies_with: the machine is lost when it has this number of chunks.
        n_finished: the number of translated chunks.
        n_under_way: the number of chunks in progress.
    """

    def __init__(self, name, translator, answer=2, dies_with=None, **resources):
        self.name = name
        self.answer = answer
        self.dies_with = dies_with
        self.resources = resources or {"CPU": 2.0}
        self.n_finished = self.n_under_way = 0
        self._translator = translator
        self.start, self.translate, self.close = (
            SimpleNamespace(remote=lambda *given, own=own: self._called(own, given))
            for own in (self._started, self._translated, lambda: None)
        )

    def _called(self, function, given):
        if function == self._translated:
            self.n_under_way += 1
        return SimpleHashable(machine=self, function=function, given=given)

    def _started(self, job, files):
        self.job = job
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _translated(self, chunk):
        if self.dies_with is not None and self.n_under_way >= self.dies_with:
            raise PretendedError("its plug was pulled")
        self.n_under_way -= 1
        try:
            outcome = self._translator.translate(chunk, lambda n: None)
        except (UntranslatedLine, OSError) as error:
            return error
        self.n_finished += 1
        return outcome


class SimpleHashable(SimpleNamespace):
    """A call, which is only equal to itself."""

    __eq__, __hash__ = object.__eq__, object.__hash__


class PretendedRay:
    """The functions of Ray that :class:`fairseq_fastdec.corpora.ray_pool.RayPool` calls.

    Attributes:
        machines: by name; removing one removes its node.
        at_wait: called before each wait.
    """

    exceptions = SimpleNamespace(RayError=PretendedError)

    def __init__(self, translator=None, refuses=False):
        self.machines = {}
        self.released = []
        self.n_started = collections.Counter()
        self.at_wait = lambda: None
        self.is_closed = False
        self._translator, self._refuses = translator, refuses

    def add(self, name, **options):
        self.machines[name] = PretendedMachine(name, self._translator, **options)
        return self.machines[name]

    def actor(self, node):
        self.n_started[node] += 1
        self.machines[node].n_under_way = 0
        return self.machines[node]

    def init(self, **_):
        if self._refuses:
            raise ConnectionError("Could not find any running Ray instance.\nPlease specify one")

    def put(self, piece):
        return bytes(piece)

    def nodes(self):
        return [
            {
                "NodeID": machine.name,
                "NodeManagerHostname": machine.name,
                "Alive": machine.answer is not None,
                "Resources": machine.resources,
            }
            for machine in self.machines.values()
        ]

    def wait(self, calls, **_):
        self.at_wait()
        return list(calls), []

    def get(self, call):
        if call.machine.name not in self.machines:
            raise PretendedError("its node is gone")
        return call.function(*call.given)

    def kill(self, machine):
        self.released.append(machine.name)

    def shutdown(self):
        self.is_closed = True
