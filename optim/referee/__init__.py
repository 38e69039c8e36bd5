"""The referee: figures and verdicts from instance and plan alone, and what is made of claims."""
