"""Isolates unit tests: no network, no Ray, no libraries that load or serve models."""

from isolation import no_network_and_no_ray as no_network_and_no_ray
from isolation import pytest_collection as pytest_collection
from isolation import pytest_collection_finish as pytest_collection_finish
