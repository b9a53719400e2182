"""Tests of corpus translation with kills, damage and full disks, and measurements."""
