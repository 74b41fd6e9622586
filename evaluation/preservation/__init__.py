"""Whether preservation tells what an edit changed beside what was asked, by planted faults."""
