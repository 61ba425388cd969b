"""Transcription of audio of any length: windows, times of segments and words, live text."""

from rushlight.models.speech.live import LiveText, LiveTranscriber

__all__ = ["LiveText", "LiveTranscriber"]
