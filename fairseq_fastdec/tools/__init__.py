"""What prepares data and checkpoints: ``prepare_data``, ``average_checkpoints``."""
