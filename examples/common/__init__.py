"""The parts that the examples share.

- ``commands``       prints and runs commands, and skips what is finished
- ``en_de``          the English-German data, their models and their trainings
- ``averaging``      the mean of a training's last checkpoints
- ``table``          reads what fairseq-generate wrote; tables as Markdown
- ``crossing``       new source sentences from old ones
- ``deeper``         checkpoints with more layers
- ``training_text``  text in subwords as training data
"""
