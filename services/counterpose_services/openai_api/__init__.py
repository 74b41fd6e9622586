"""Language models behind the OpenAI API: any server's, or a vLLM of ours that runs beside the replica."""
