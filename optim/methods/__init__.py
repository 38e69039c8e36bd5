"""Methods: what each declares, which suits an instance, and the solve that runs it."""
