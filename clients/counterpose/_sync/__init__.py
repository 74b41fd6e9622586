# Generated from clients/counterpose/_async/__init__.py by clients/blocking_half.py; do not edit.
"""The client, its runs and resources: a module per noun, imported on first use.

What is written here exists a second time in ``counterpose._sync``, for blocking programs: the script
``clients/blocking_half.py`` makes it from this.
"""
