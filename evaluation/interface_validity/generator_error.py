"""The generator's own error of an impact: what errors against renderings leave beside that of the seeds."""

from __future__ import annotations

import math

import numpy as np

from counterpose_core.types import Estimate

from .report import ImpactFigures

_NORMAL = 1.959964


def generator_error(figures: ImpactFigures) -> float:
    """Return the standard deviation between shifts of the errors of impacts (DerSimonian and Laird 1986)."""
    known = [row for row in figures.shifts if row.impact.estimate is not None]
    errors = np.array([(row.impact.estimate or 0.0) - (row.true_impact.estimate or 0.0) for row in known])
    variances = np.array([_variance(row.impact) + _variance(row.true_impact) for row in known])
    weights = 1.0 / variances
    mean = float(np.sum(weights * errors) / np.sum(weights))
    heterogeneity = float(np.sum(weights * (errors - mean) ** 2)) - (len(known) - 1)
    scale = float(np.sum(weights) - np.sum(weights**2) / np.sum(weights))
    return math.sqrt(max(0.0, heterogeneity / scale))


def _variance(figure: Estimate) -> float:
    return (((figure.high or 0.0) - (figure.low or 0.0)) / (2.0 * _NORMAL)) ** 2
