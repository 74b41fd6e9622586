"""A deterministic simulation of gateway, workers, clock, network and disk over the real ledger.

One thread and one seed: `python -m simulation --seeds 2000`, and `--seed 17` for one of them again.
"""
