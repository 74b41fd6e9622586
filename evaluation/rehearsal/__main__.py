"""``python -m evaluation.rehearsal``."""

from evaluation.rehearsal.command import main

main()
