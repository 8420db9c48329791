"""One module a verb of `run_all.py`: takes plain values, prints, returns an exit code."""
