"""Chats: where their templates are, and what a template is given."""
