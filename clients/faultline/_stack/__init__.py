"""Faultline on this machine: started as child processes, watched and stopped, never imported."""

from faultline._stack.demo_datasets import DemoDatasets
from faultline._stack.opening import open_stack
from faultline._stack.process import Process
from faultline._stack.programs import Programs
from faultline._stack.record import DEFAULT_PORT, DEFAULT_SERVICES_PORT, Record, read_record
from faultline._stack.signals import ended_by_signals, undisturbed
from faultline._stack.stack import DEMO_DATASET, DEMO_PER_CLASS, Images, Stack, demo_images
from faultline._stack.state_folder import default_state
from faultline._stack.status import ProcessStatus, StackStatus, status_of

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_SERVICES_PORT",
    "DEMO_DATASET",
    "DEMO_PER_CLASS",
    "DemoDatasets",
    "Images",
    "Process",
    "ProcessStatus",
    "Programs",
    "Record",
    "Stack",
    "StackStatus",
    "default_state",
    "demo_images",
    "ended_by_signals",
    "open_stack",
    "read_record",
    "status_of",
    "undisturbed",
]
