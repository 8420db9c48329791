"""Checks that need no training for a result: run in seconds, certain, and wrong the moment the code is."""
