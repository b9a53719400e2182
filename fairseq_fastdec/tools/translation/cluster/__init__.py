"""Translation on many machines, with workers on each; one process hands out the chunks.

From the bottom up:

- ``baggage``    the files that a command line names, for machines that do not have them
- ``node``       what runs on a machine: its files, its workers, the chunks that it is given
- ``pool``       the machines that there are; whoever goes gives its chunks back
- ``ray_nodes``  the same in Ray's words: nodes, actors, the object store
"""
