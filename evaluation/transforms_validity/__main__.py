"""Runs ``python -m evaluation.transforms_validity``."""

from evaluation.transforms_validity.validate import main

if __name__ == "__main__":
    main()
