"""How well Counterpose works: validity against rendered truth, benchmarks, and the pages made from both."""
