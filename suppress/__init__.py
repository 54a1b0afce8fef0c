"""Windows with grace, buffer configurations and the rules of suppression."""
