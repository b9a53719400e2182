"""Checks of the settings by which a command decides whether it continues its earlier output."""

import shutil


def assert_files_count_by_content(settings, corpus, baseline, tmp_path):
    """Check that settings depend on the content of the files, and not on their names.

    Args:
        settings: a function that gives the settings of a command line.
    """
    codes = tmp_path / "codes"
    bpe = ["--bpe", "subword_nmt", "--bpe-codes", codes]
    shortlist = ["--decoding", "greedy", "--shortlist", codes]
    seen = []
    for content in ("#version: 0.2\na b</w>\n", "#version: 0.2\na c</w>\n"):
        codes.write_text(content)
        seen += [settings(*bpe), settings(*shortlist)]
    model = shutil.copy(baseline, tmp_path / "model.pt")
    with open(model, "ab") as file:
        file.write(b"x")
    seen.append(settings(path=model))
    data = shutil.copytree(corpus, tmp_path / "data")
    (data / "dict.de.txt").write_text((data / "dict.de.txt").read_text().replace("a ", "A "))
    seen.append(settings(data=data))
    assert all(one != other for i, one in enumerate(seen) for other in seen[:i])
    assert str(tmp_path) not in str(seen)
