"""Resources: values from outside the program, and clocks."""
