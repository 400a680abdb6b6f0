"""Hooks put in place, kept in place, and looked after."""
