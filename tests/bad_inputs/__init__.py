"""The bad inputs that the product promises to answer, by group, and the tests that hold it to its word.

Each module is a table of some groups:

    GROUPS = {"B1": {"a file of 0 bytes": ("test_its_name", "test_of_many[the case among them]")}}
    LATER = {"B47": "why no test can be: what the input would be sent to does not exist yet"}
    PROMISED = (1, 46)
"""
