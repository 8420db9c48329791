"""Plans runs against what is stored, trains what is missing on an engine, and loses nothing when things die.

    plan.py     what is wanted against what is stored: one state per run
    store.py    experiment.json; results of equal runs reused
    lease.py    one owner per run, over processes and machines
    attempt.py  one try at one run under its lease, with its log and its failure record
    engine.py   the interface of an engine, and `run`, which feeds a plan to one
    local.py    engine: processes on this machine (worker.py is what they run)
    ray_engine.py  engine: a Ray cluster        slurm.py  an sbatch array over the plan
"""
