"""Code shared by the examples.

- ``arguments`` options of their command lines
- ``commands`` prints and runs commands, and skips what is finished
- ``en_de`` the English-German data, their models and their trainings
- ``averaging`` averages a training's last checkpoints
- ``table`` reads the output of fairseq-generate; Markdown tables
- ``crossing`` new source sentences from old ones
- ``deeper`` checkpoints with more layers, or fewer heads
- ``model_text`` the test set in the subwords of a bundled model
- ``training_text`` text in subwords as training data
"""
