"""Agents (P): the composite of similarity, success, time, planning, tools and coordination."""
