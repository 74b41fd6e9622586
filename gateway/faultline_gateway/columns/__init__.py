"""Columns of numbers for the items of any method: codes of strings, answers, feature rows, kept in files."""

from faultline_gateway.columns.answers import Answers, GrowingAnswers
from faultline_gateway.columns.codes import NONE, Codes, Ids
from faultline_gateway.columns.features import FeatureRows, Vectors
from faultline_gateway.columns.folder import ColumnFolder
from faultline_gateway.columns.parts import Joining, Part
from faultline_gateway.columns.stamps import Stamp, Stamps

__all__ = [
    "NONE", "Answers", "Codes", "ColumnFolder", "FeatureRows", "GrowingAnswers", "Ids", "Joining", "Part",
    "Stamp", "Stamps", "Vectors",
]  # fmt: skip
