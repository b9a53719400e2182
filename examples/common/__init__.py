"""The parts that the examples share.

- ``arguments``      options of their command lines
- ``commands``       prints and runs commands, and skips what is finished
- ``en_de``          the English-German data, their models and their trainings
- ``averaging``      the mean of a training's last checkpoints
- ``table``          reads what fairseq-generate wrote; tables as Markdown
- ``crossing``       new source sentences from old ones
- ``deeper``         checkpoints with more layers, or fewer heads
- ``model_text``     the test set in the subwords of a bundled model
- ``training_text``  text in subwords as training data
"""
