"""Counterpose on this machine: started as child processes, watched and stopped, never imported."""

from counterpose._stack.demo_datasets import DemoDatasets
from counterpose._stack.programs import Programs
from counterpose._stack.record import DEFAULT_PORT, DEFAULT_SERVICES_PORT, read_record
from counterpose._stack.stack import DEMO_DATASET, DEMO_PER_CLASS, Images, Stack, demo_images, open_stack
from counterpose._stack.state_folder import default_state, state_option
from counterpose._stack.status import ProcessStatus, StackStatus, status_of
from counterpose_processes.signals import ended_by_signals

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_SERVICES_PORT",
    "DEMO_DATASET",
    "DEMO_PER_CLASS",
    "DemoDatasets",
    "Images",
    "ProcessStatus",
    "Programs",
    "Stack",
    "StackStatus",
    "default_state",
    "demo_images",
    "ended_by_signals",
    "open_stack",
    "read_record",
    "state_option",
    "status_of",
]
