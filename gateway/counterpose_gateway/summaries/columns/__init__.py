"""Columns of numbers for the items of any method: codes of strings, answers, feature rows, kept in files."""

from counterpose_gateway.summaries.columns.answers import Answers, GrowingAnswers, answer_of, hit, hits_of
from counterpose_gateway.summaries.columns.codes import NONE, Codes, Ids
from counterpose_gateway.summaries.columns.features import FeatureRows, Vectors
from counterpose_gateway.summaries.columns.folder import ColumnFolder
from counterpose_gateway.summaries.columns.parts import Joining, Part
from counterpose_gateway.summaries.columns.stamps import Stamps

__all__ = [
    "NONE", "Answers", "Codes", "ColumnFolder", "FeatureRows", "GrowingAnswers", "Ids", "Joining", "Part",
    "Stamps", "Vectors", "answer_of", "hit", "hits_of",
]  # fmt: skip
