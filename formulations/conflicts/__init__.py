"""Why no plan exists: rule instances that clash, proved and minimal, and what would help."""
