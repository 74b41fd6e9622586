"""Run the tests of every fault, bad input and attack, and write down which are survived."""
