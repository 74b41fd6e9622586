"""``client.classifiers``: the classifiers that can be tested."""

from __future__ import annotations

from faultline._calls import Call, reading
from faultline.resources._lists import AsyncListing, Listing
from faultline_core.contract.classifiers import ClassifierList

LIST: Call[ClassifierList] = Call(method="GET", path="/v1/classifiers", parse=reading(ClassifierList))


class Classifiers(Listing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = LIST


class AsyncClassifiers(AsyncListing[ClassifierList]):
    """``/v1/classifiers``: the classifiers that can be tested."""

    _call = LIST
