"""Fair tuning: what a protocol plans, Optuna studies over the run store, equal budgets, and the choice of a winner.

    dimensions.py ranges and choices, in Python and in YAML
    space.py      the space of one variant          defaults.py  ranges that fields and components declare
    check.py      what is wrong with them
    choice.py     the choice of a learning rate by mean validation score: pure functions
    budget.py     what is held equal: steps, tokens, FLOPs, seconds, parameters
    protocols.py  fixed, lr_grid, search: which runs an experiment needs
    samplers.py   samplers and pruners by name; no configuration is proposed twice
    storage.py    where studies lie: SQLite, PostgreSQL, a journal file
    study.py      one study: asked, told, resumed        trials.py  what it keeps of a trial
    driver.py  the one process that owns ask and tell
    session.py    from an experiment and a request to studies that are run and written
    export.py     tuning.json, trials.csv, the winner's file: what the analysis reads
"""
