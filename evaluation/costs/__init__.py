"""What inputs cost a gateway and a worker: a fuzzer of processor time, memory and places."""
