"""Columns of numbers for the items of any method: codes of strings, answers, feature rows."""

from faultline_gateway.columns.answers import Answers, GrowingAnswers
from faultline_gateway.columns.codes import NONE, Codes, Ids
from faultline_gateway.columns.features import FeatureRows, Vectors

__all__ = ["NONE", "Answers", "Codes", "FeatureRows", "GrowingAnswers", "Ids", "Vectors"]
