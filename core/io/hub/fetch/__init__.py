"""Downloads with resume, hash check and progress: files, members of wheels and of npm packages.

It uses the standard library only, and imports its own modules relative to itself, because the
build hook loads this folder by its path.
"""

from .http import (
    FetchError,
    HashError,
    Progress,
    cache_dir,
    download,
    file_hash,
)
from .packages import (
    npm_members,
    package_file,
    wheel_member,
    wheel_members,
)

__all__ = [
    "FetchError",
    "HashError",
    "Progress",
    "cache_dir",
    "download",
    "file_hash",
    "npm_members",
    "package_file",
    "wheel_member",
    "wheel_members",
]
