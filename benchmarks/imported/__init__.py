"""Compares imported models with the engines that their users have, in alternating rounds."""
