"""Bug hunts compared with rendered truth: were planted bugs found, and described by their circumstance?"""
