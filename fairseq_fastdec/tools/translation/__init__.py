"""Translation of whole corpora, text to text: every core, and nothing lost.

From the bottom up:

- ``text_files``      lines of files, compressed or not, in constant memory
- ``chunks``          consecutive lines, and files of what became of them: whole or absent
- ``translator``      lines to hypotheses, as fairseq-interactive does it
- ``output_lines``    hypotheses to lines of the output; lines that cannot be translated
- ``cores``           which processors a worker gets
- ``worker``          a process that translates chunk after chunk
- ``pool``            the workers of one machine; whoever dies is replaced
- ``machine``         how many workers it gets, and what they share
- ``cluster``         the workers of many machines
- ``progress_bar``    lines a second, and the time left
- ``coordinator``     hands out what is missing, and puts the output together
- ``manifest``        what the output depends on
- ``directory_lock``  no two processes do the same work

``scripts/translate_corpus.py`` is the command.
"""
