"""How well Faultline works: validity against rendered truth, benchmarks, and the pages made from both."""
