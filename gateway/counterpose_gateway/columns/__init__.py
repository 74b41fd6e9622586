"""Columns of numbers for the items of any method: codes of strings, answers, feature rows, kept in files."""

from counterpose_gateway.columns.answers import Answers, GrowingAnswers
from counterpose_gateway.columns.codes import NONE, Codes, Ids
from counterpose_gateway.columns.features import FeatureRows, Vectors
from counterpose_gateway.columns.folder import ColumnFolder
from counterpose_gateway.columns.parts import Joining, Part
from counterpose_gateway.columns.stamps import Stamps

__all__ = [
    "NONE", "Answers", "Codes", "ColumnFolder", "FeatureRows", "GrowingAnswers", "Ids", "Joining", "Part",
    "Stamps", "Vectors",
]  # fmt: skip
