"""The smoke test, ``pytest -m smoke``: a test or more of everything, in two minutes."""

# The beginnings of the names of tests.
TESTS = (
    "tests/test_compat.py::test_a_malicious_checkpoint_is_refused",
    "tests/test_compat.py::test_the_moses_tokeniser",
    "tests/test_documents.py::test_there_",
    "tests/test_documents.py::test_trainings_end",
    "tests/test_arguments.py",
    "tests/test_skips.py",
    "tests/engine/test_linear.py",
    "tests/engine/test_session.py::test_rolled_back",
    "tests/generators/test_against_fairseq.py",
    "tests/generators/test_finalization.py",
    "tests/generators/test_schedule.py",
    "tests/generators/test_statistics.py",
    "tests/models/test_from_one_token.py",
    "tests/tasks/test_beams.py::test_beam_is_fairseqs",
    "tests/tasks/test_beams.py::test_streaming_is_variable_beam",
    "tests/data/",
    "tests/distillation/",
    "tests/shortlisting/",
    "tests/visualize/test_graph.py",
    "tests/visualize/test_subwords.py",
    "tests/scripts/test_average_checkpoints.py",
    "tests/scripts/test_ddgviz.py::test_all_formats",
)
