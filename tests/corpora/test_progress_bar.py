"""The number of lines that are done, and of those to come."""

from fairseq_fastdec.corpora.progress_bar import LineBar


def test_lines_are_counted_and_lost_ones_counted_back(capsys):
    bar = LineBar(100, True)
    bar.has_read(40)
    bar.count_earlier(10)
    bar.update(30)
    bar.update(-20)
    bar.update(20)
    assert (bar._bar.n, bar._bar.initial, bar._bar.total) == (40, 10, 100)
    bar.close()
    assert "40/100" in capsys.readouterr().err


def test_the_number_is_guessed_while_the_input_is_read():
    shares = iter([None, 0.1])
    bar = LineBar(None, True, lambda: next(shares))
    bar.has_read(40)
    assert bar._bar.total is None
    bar.has_read(10)
    assert bar._bar.total == 500
    bar.close()


def test_no_bar(capsys):
    bar = LineBar(10, False)
    bar.has_read(4)
    bar.count_earlier(1)
    bar.update(3)
    bar.close()
    assert capsys.readouterr().err == ""
