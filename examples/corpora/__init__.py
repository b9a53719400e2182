"""Corpora that are translated whatever happens: kills, damage, full disks."""
