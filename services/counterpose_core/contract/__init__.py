"""The HTTP bodies, written once: the gateway serves them, the services serve them, the SDK parses them.

Modules here do without ``from __future__ import annotations`` where they can: pydantic would compile each
of some 800 annotations when `counterpose` is imported.
"""
