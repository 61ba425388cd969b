"""Files of programs that run llamas, from before GGUF or beside it."""
