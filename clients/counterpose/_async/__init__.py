"""The client for asyncio programs, its runs and resources: a module per noun, imported on first use.

What is written here exists a second time in ``counterpose._sync``, for blocking programs: the script
``clients/blocking_half.py`` makes it from this.
"""
