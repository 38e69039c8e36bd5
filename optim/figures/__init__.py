"""The figures a plan is judged by."""
