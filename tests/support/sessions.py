"""What tests do to a session that nobody else does."""

from fairseq_fastdec.engine.session.step_runners import TorchRunner


def steps_by_torch(session):
    """Take a session's steps by torch from now on, until its weights are prepared anew.

    Products stay compiled. So what differs afterwards is the step and nothing else.
    """
    network = session.network
    network.runner = TorchRunner(
        network.forward_pass, network.caches, session.tokens_per_step, network.weights.embed.device
    )
