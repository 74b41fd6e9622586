"""Counterpose on this machine: started as child processes, watched and stopped, never imported."""

from counterpose._stack.demo_datasets import DemoDatasets
from counterpose._stack.opening import open_stack
from counterpose._stack.process import Process
from counterpose._stack.programs import Programs
from counterpose._stack.record import DEFAULT_PORT, DEFAULT_SERVICES_PORT, Record, read_record
from counterpose._stack.signals import ended_by_signals, undisturbed
from counterpose._stack.stack import DEMO_DATASET, DEMO_PER_CLASS, Images, Stack, demo_images
from counterpose._stack.state_folder import default_state
from counterpose._stack.status import ProcessStatus, StackStatus, status_of

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
