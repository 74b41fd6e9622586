"""The whole product against an earlier commit: the same stress test, from a cold start, in turn."""
