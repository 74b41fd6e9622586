"""Programs of this machine: started, watched, started again, and ended with all their children.

Only the standard library is imported. What only Linux has stands in `system`, with what stands in for it
elsewhere.
"""
