"""What is wrong with a run, and what is inside it. `diagnose.py` lists the checks; `inside.py` gathers the views."""
