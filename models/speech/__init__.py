"""Transcription of audio of any length with Whisper: windows, times of segments and words."""
