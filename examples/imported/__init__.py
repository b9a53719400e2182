"""Imported models beside the programs that they are from."""
