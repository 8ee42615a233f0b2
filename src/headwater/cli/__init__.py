"""The `headwater` command: arguments in, tables or JSON out. Holds no rule of the system."""
