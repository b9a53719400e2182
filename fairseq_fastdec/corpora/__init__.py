"""The command ``translate``: text files, text to text, on all cores and resumable; and ``score``.

From the bottom up:

- ``text_files`` lines of files, compressed or not, in constant memory
- ``filters`` translations that are left out
- ``chunks`` consecutive lines, and the files of their translations
- ``output_lines`` hypotheses to lines of the output; lines that cannot be translated
- ``worker`` a process that translates chunk after chunk, with any model
- ``model`` lines to hypotheses with a bundle or checkpoints
- ``pool`` the workers of one machine; a worker that dies is replaced
- ``ray_node`` the workers of one machine of a Ray cluster
- ``ray_pool`` the machines of a Ray cluster
- ``progress_bar`` lines per second, and the remaining time
- ``coordinator`` translates missing chunks, and writes the output
- ``manifest`` the settings that the output depends on
- ``directory_lock`` prevents two processes from doing the same work
- ``arguments``, ``command`` the command line
- ``scoring`` the command ``score``
"""
