"""Runs ``python -m evaluation.hunt_validity``."""

from evaluation.hunt_validity.validate import main

main()
