"""Solvers: one step from one noise level to the next."""
