"""Pure rules: values in, values out. No disk, no git, no clock, no environment; time and ids arrive as arguments."""
