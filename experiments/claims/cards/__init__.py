"""The cards that ship, a few related ones a file; listed by hand in experiments/claims/__init__.py."""
