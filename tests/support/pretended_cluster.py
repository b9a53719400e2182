"""A cluster without machines: each call of one is answered in this process, when its time comes."""

import collections

from fairseq_fastdec.tools.translation.cluster.node import Started
from fairseq_fastdec.tools.translation.cluster.pool import MachineLost, Node
from fairseq_fastdec.tools.translation.output_lines import UntranslatedLine
from fairseq_fastdec.tools.translation.pool import Lost
from fairseq_fastdec.tools.translation.worker import Done, Failed, Progress, Stopped


class PretendedMachine:
    """Answers with one chunk at a time.

    Attributes:
        told: what it says instead of starting, if anything.
        dies_with: the machine is lost when it has so many more chunks.
        n_finished: how many it has translated.
    """

    def __init__(self, node, translator, n_workers=2, told=None, dies_with=None):
        self.node = node
        self.translator = translator
        self.n_workers = n_workers
        self.told = told
        self.dies_with = dies_with
        self.n_finished = 0
        self.waiting = collections.deque()

    def started(self):
        if isinstance(self.told, Exception):
            raise self.told
        return self.told or Started(self.n_workers)

    def reported(self):
        if self.dies_with is not None and len(self.waiting) >= self.dies_with:
            raise MachineLost("somebody pulled the plug")
        if not self.waiting:
            return []
        chunk, report = self.waiting.popleft(), []
        if chunk.lines[0] == b"worker dies":
            return [
                (chunk.number, Progress(1)),
                (chunk.number, Progress(-1)),
                (chunk.number, Lost()),
            ]
        try:
            translated = self.translator.translate(
                chunk, lambda n: report.append((chunk.number, Progress(n)))
            )
        except UntranslatedLine as error:
            return [(chunk.number, Stopped(error.number, error.problem))]
        except OSError as error:
            return [(chunk.number, Failed(str(error)))]
        self.n_finished += 1
        return [*report, (chunk.number, Done(translated))]


class PretendedCluster:
    """What :class:`~fairseq_fastdec.tools.translation.cluster.pool.Cluster` asks for.

    Attributes:
        machines: by name; take one out, and its node is gone.
        at_wait: is called whenever somebody waits.
    """

    def __init__(self, translator):
        self.translator = translator
        self.machines = {}
        self.released = []
        self.n_started = collections.Counter()
        self.at_wait = lambda: None
        self.is_closed = False

    def add(self, name, **options):
        self.machines[name] = PretendedMachine(Node(name, name, 2, 0), self.translator, **options)
        return self.machines[name]

    def nodes(self):
        return [machine.node for machine in self.machines.values()]

    def start(self, node):
        self.n_started[node.name] += 1
        machine = self.machines[node.name]
        return machine, (machine, "started", self.n_started[node.name])

    def exchange(self, machine, chunks):
        machine.waiting += chunks
        return (machine, "reported", 0)

    def wait(self, calls, seconds):
        self.at_wait()
        return list(calls)

    def result(self, call):
        machine, method, _ = call
        if machine.node.name not in self.machines:
            raise MachineLost("its node is gone")
        return getattr(machine, method)()

    def release(self, machine):
        self.released.append(machine.node.name)

    def close(self):
        self.is_closed = True
