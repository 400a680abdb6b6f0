"""What people do with tasks: make them, look at them, check and edit them. A module for each kind of use."""
