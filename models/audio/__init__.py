"""Audio for models: reading files, resampling, and spectrograms, in ops of the library."""

from rushlight.models.audio.files import Audio, load, open_audio
from rushlight.models.audio.mel import LogMel, mel_filters
from rushlight.models.audio.resample import resample
from rushlight.models.audio.wave import save, wav_bytes

__all__ = ["Audio", "LogMel", "load", "mel_filters", "open_audio", "resample", "save", "wav_bytes"]
