"""Sentences join the batches of several threads, in the order of a policy, and leave them."""

import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.searches import SourceSentence
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.bundle import BundleTranslator
from fairseq_fastdec.translating.bundle_file import read
from fairseq_fastdec.translating.errors import QueueFull
from fairseq_fastdec.translating.scheduler import Mailbox, Scheduler, SchedulerOptions
from tests.support.forked import exit_status

# Long outputs keep a thread busy while a test submits other sentences. With sanitizers, steps are
# slow.
SANITIZED = "FASTDEC_SANITIZED" in os.environ
LENGTH, BEAM = (200, 2) if SANITIZED else (900, 20)
LONG = {"min_len": LENGTH, "max_len_b": 1000, "beam": BEAM}
LETTERS = "a b c d e f g h i j"
forks = pytest.mark.skipif(
    SANITIZED or not hasattr(os, "fork"),
    reason="sanitizers do not follow forks: run it without them, where processes can be forked",
)


@pytest.fixture(scope="module")
def translator(corpus, baseline):
    return fairseq_fastdec.load(baseline, corpus)


@pytest.fixture(scope="module")
def jobs(translator):
    """From a sentence to what the scheduler takes."""

    def job(text, **options):
        own = translator.job(text, options)
        return own.recipe, own.sentence

    return job


class OwnScheduler(Scheduler):
    """A scheduler and a mailbox for its sentences."""

    def __init__(self, **options):
        super().__init__(SchedulerOptions(**options))
        self.mailbox = Mailbox()

    def submit(self, recipe, sentence, done=lambda found: None, **options):
        return super().submit(recipe, sentence, self.mailbox, done, **options)

    def cancel(self, number):
        self.mailbox.cancel(number)

    def receive_all(self):
        while self.mailbox:
            self.mailbox.receive()


@pytest.fixture
def scheduler(monkeypatch):
    # Other tests use the other cores: a step in several threads would wait for them.
    monkeypatch.setattr("fairseq_fastdec.translating.scheduler.cores.n_usable", lambda cores: 1)
    made = []

    def start(**settings):
        made.append(OwnScheduler(**{"threads": 1, **settings}))
        return made[-1]

    yield start
    for own in made:
        own.mailbox.cancel_all()
        own.close()


def of_length(n):
    return " ".join(LETTERS.split()[:n])


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def busy(scheduler, jobs):
    """Have the only thread decode a long output."""
    number = scheduler.submit(*jobs("a b", **LONG))
    wait_until(lambda: scheduler.queued()[0] == 0)
    return number


@pytest.mark.parametrize("policy, order", [("fcfs", [5, 2, 9, 3]), ("shortest", [2, 3, 5, 9])])
def test_the_order_of_a_policy(scheduler, jobs, policy, order, monkeypatch):
    monkeypatch.setattr("fairseq_fastdec.translating.scheduler.LONGEST_WAIT", 1e9)
    own, done = scheduler(batch_size=1, policy=policy), []
    busy(own, jobs)
    for n in (5, 2, 9, 3):
        own.submit(*jobs(of_length(n)), lambda found, n=n: done.append(n))
    assert own.queued() == (4, 1)
    own.receive_all()
    assert done == order


def test_a_long_sentence_does_not_starve(scheduler, jobs, monkeypatch):
    monkeypatch.setattr("fairseq_fastdec.translating.scheduler.LONGEST_WAIT", 0.001)
    own, done = scheduler(batch_size=1, policy="shortest"), []
    busy(own, jobs)
    for n in (9, 2, 3):
        own.submit(*jobs(of_length(n)), lambda found, n=n: done.append(n))
    time.sleep(0.005)
    own.receive_all()
    assert done == [9, 2, 3]


def test_sentences_join_while_others_are_under_way(scheduler, jobs):
    own, done = scheduler(batch_size=4), []
    busy(own, jobs)
    for n in (5, 3, 1):
        own.submit(*jobs(of_length(n)), lambda found, n=n: done.append(n))
    while len(done) < 3:
        own.mailbox.receive()
    assert sorted(done) == [1, 3, 5]
    # The long output was under way all the time.
    assert own.queued() == (0, 1)


def test_drafts_change_no_output(scheduler, translator, jobs):
    """Right ones, those of other sentences, and none, in two threads."""
    own, done = scheduler(threads=2, batch_size=3), []
    texts = [of_length(1 + n % 10) for n in range(60)]
    alone = [translator.job(text, {}).recipe.decoded(jobs(text)[1], 1) for text in texts]
    outputs = [found[0].tokens for found in alone]
    drafts = [None, *outputs[:-1]]
    drafts[::3] = outputs[::3]
    for n, (text, draft) in enumerate(zip(texts, drafts)):
        recipe, sentence = jobs(text)
        drafted = sentence._replace(draft=draft)
        own.submit(recipe, drafted, lambda found, n=n: done.append((n, found)))
    own.receive_all()
    assert len(done) == len(texts)
    for n, found in done:
        assert found[0].tokens.tolist() == outputs[n].tolist()


def test_capacity_is_kept(scheduler, jobs):
    own = scheduler(batch_size=2)
    for _ in range(5):
        own.submit(*jobs("a b", **LONG))
    wait_until(lambda: own.queued() == (3, 2))


def test_threads_share_what_waits(scheduler, jobs):
    own = scheduler(threads=2, batch_size=4)
    for _ in range(8):
        own.submit(*jobs("a b", **LONG))
    wait_until(lambda: own.queued() == (0, 8))


def test_waiting_for_others(scheduler, jobs):
    """With a thread that is more than half in use, sentences wait for others for a while."""
    own, done = scheduler(batch_size=3, max_wait_ms=60_000.0), []
    busy(own, jobs)
    number = own.submit(*jobs("a b", **LONG), lambda found: done.append("long"))
    wait_until(lambda: own.queued() == (0, 2))
    own.submit(*jobs("a"), lambda found: done.append("short"))
    time.sleep(0.005)
    assert own.queued() == (1, 2) and done == []
    own.cancel(number)
    own.close()
    own.receive_all()
    assert done == ["short"]


def test_a_queue_that_is_full(scheduler, jobs):
    own = scheduler(batch_size=1, max_queue=2)
    busy(own, jobs)
    for _ in range(2):
        own.submit(*jobs("a"), is_bounded=True)
    with pytest.raises(QueueFull, match="2 sentences are waiting already"):
        own.submit(*jobs("a"), is_bounded=True)
    own.submit(*jobs("a"))  # not bounded
    assert own.queued() == (3, 1)


def test_cancelling(scheduler, jobs):
    own, done = scheduler(batch_size=1), []
    under_way = busy(own, jobs)
    waiting = own.submit(*jobs("a b c"), lambda found: done.append("waiting"))
    own.submit(*jobs("a"), lambda found: done.append("last"))
    own.cancel(waiting)
    own.cancel(waiting)
    assert own.queued() == (1, 1)
    own.cancel(under_way)
    own.close()
    own.receive_all()
    assert done == ["last"] and own.queued() == (0, 0)
    own.cancel(12345)


def test_a_sentence_that_cannot_be_decoded(scheduler, jobs):
    own, (recipe, sentence) = scheduler(), jobs("a b")
    with pytest.raises(IndexError, match="not in the dictionary"):
        own.submit(recipe, SourceSentence(np.array([10**6, 2])))
    assert not own.mailbox and own.queued() == (0, 0)
    done = []
    own.submit(recipe, sentence, done.append)
    own.receive_all()
    assert done[0][0].tokens.tolist()


def test_closing_decodes_what_was_submitted(jobs):
    own, done = OwnScheduler(threads=2, batch_size=1), []
    for _ in range(9):
        own.submit(*jobs("a b c"), done.append)
    own.close()
    own.close()
    own.mailbox.receive()
    assert len(done) == 9
    with pytest.raises(RuntimeError, match="closed"):
        own.submit(*jobs("a"), done.append)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": None}, "batch_size None: must be a whole number of at least 1"),
        ({"batch_size": True}, "batch_size True: must be a whole number"),
        ({"threads": 1.5}, "threads 1.5: must be a whole number of at least 1"),
        ({"threads": "2"}, "threads '2': must be a whole number"),
        ({"max_queue": 2.0}, "max_queue 2.0: must be a whole number"),
        ({"max_wait_ms": "1"}, "max_wait_ms '1': must be a number of at least 0"),
        ({"threads": 0}, "at least 1"),
        ({"max_queue": 0}, "at least 1"),
        ({"max_wait_ms": -1.0}, "at least 0"),
        ({"max_wait_ms": float("nan")}, "at least 0"),
        ({"policy": "lifo"}, "policy lifo: unknown; choose from fcfs, shortest"),
    ],
)
def test_settings_that_mean_nothing(settings, message):
    with pytest.raises(ValueError, match=message):
        SchedulerOptions(**settings)


@forks
def test_threads_that_cannot_start():
    def start_many():
        limit = 4096 * int(Path("/proc/self/statm").read_text().split()[0]) + 200 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with pytest.raises(OSError, match="^threads 500: cannot be started .*[Rr]esource"):
            # Each thread has a stack of 8 MiB.
            Scheduler(SchedulerOptions(threads=500))

    assert exit_status(start_many) == 0


@forks
def test_a_service_ends_while_its_thread_frees_a_model(translator, tmp_path):
    """The thread needs the GIL for that, and the end of the service waits for the thread."""
    export(translator, tmp_path / "model.fastdec")
    content, sentence = read(tmp_path / "model.fastdec"), SourceSentence(np.array([4, 5, 2]))

    def run():
        service = library().Service(
            workers=1, capacity=8, threads=1, max_wait=0, takes_shortest=False, longest_wait=2
        )
        mailbox = library().Mailbox()
        # The thread keeps the searches of four recipes; each recipe has its own models.
        for number in range(5):
            own = BundleTranslator(content, {})._usual[0]
            given = dict(service=service, mailbox=mailbox, most_waiting=99)
            own.admit(own.search, number, sentence, **given)
            del own
            if number < 4:
                os.read(mailbox.fileno(), 1)
                mailbox.take()
        del service

    for _ in range(3):
        assert exit_status(run) == 0


@forks
def test_a_forked_process_starts_threads_of_its_own(translator):
    expected = translator.translate(LETTERS)
    assert [found.text for _, found in translator.translate_stream([LETTERS])] == [expected]

    def translate():
        stream = translator.translate_stream([LETTERS] * 3)
        assert [found.text for _, found in stream] == [expected] * 3
        translator.close()

    assert exit_status(translate) == 0
    assert [found.text for _, found in translator.translate_stream([LETTERS])] == [expected]
    translator.close()


OPTIONS = [{}, {"beam": 3}, {"decoding": "lookahead"}, {"beam": 2, "lenpen": 2.0}, {"min_len": 5}]


@settings(max_examples=8 if SANITIZED else 25)
@given(
    drawn=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 4)), max_size=40),
    cancelled=st.sets(st.integers(0, 39)),
    threads=st.integers(1, 3),
    batch_size=st.integers(1, 5),
    max_wait_ms=st.sampled_from([0.0, 2.0]),
    policy=st.sampled_from(["fcfs", "shortest"]),
)
def test_every_sentence_ends_once_with_its_own_output(
    translator, jobs, drawn, cancelled, threads, batch_size, max_wait_ms, policy
):
    options = dict(threads=threads, batch_size=batch_size, max_wait_ms=max_wait_ms, policy=policy)
    own = OwnScheduler(**options)
    ended = []
    numbers = [
        own.submit(
            *jobs(of_length(n), **OPTIONS[option]),
            lambda found, place=place: ended.append((place, found)),
        )
        for place, (n, option) in enumerate(drawn)
    ]
    for place in cancelled & set(range(len(drawn))):
        own.cancel(numbers[place])
    own.close()
    own.receive_all()
    places = {place for place, _ in ended}
    assert len(places) == len(ended)
    assert set(range(len(drawn))) - cancelled <= places
    assert own.queued() == (0, 0)
    for place, found in ended:
        n, option = drawn[place]
        alone = translator.translate(of_length(n), details=True, **OPTIONS[option])
        words = translator.task.target_dictionary.string(found[0].tokens)
        assert tuple(words.split()) == alone.tokens
        assert found[0].score == alone.score
