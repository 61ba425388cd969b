"""Transcription of audio of any length: windows, times of segments and words."""
