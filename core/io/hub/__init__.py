"""Fetching files and folders: the Hugging Face hub, wheels, npm packages."""
