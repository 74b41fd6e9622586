"""Faultline on this machine: started as child processes, watched and stopped, never imported."""

from faultline._stack.opening import open_stack
from faultline._stack.process import Process
from faultline._stack.programs import Programs
from faultline._stack.record import DEFAULT_PORT, DEFAULT_SERVICES_PORT, Record, read_record
from faultline._stack.signals import ended_by_signals, undisturbed
from faultline._stack.stack import DEMO_DATASET, DEMO_PER_CLASS, Stack
from faultline._stack.state_folder import default_state
from faultline._stack.status import ProcessStatus, StackStatus, status_of

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_SERVICES_PORT",
    "DEMO_DATASET",
    "DEMO_PER_CLASS",
    "Process",
    "ProcessStatus",
    "Programs",
    "Record",
    "Stack",
    "StackStatus",
    "default_state",
    "ended_by_signals",
    "open_stack",
    "read_record",
    "status_of",
    "undisturbed",
]
