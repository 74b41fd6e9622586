"""How fast each engine is by the size of its calls: the numbers behind batches and replicas."""
