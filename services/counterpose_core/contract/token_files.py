"""Bodies of ``/v1/token-files``: tokens that others have learned, on their way into an interface."""

from collections import Counter

from pydantic import Field, field_validator

from counterpose_core.contract.base import ClientBody, ResponseBody
from counterpose_core.contract.tokens import ClassName
from counterpose_core.types import BlobRef

MAX_TOKEN_BYTES = 1_000_000
"""A vector has 4 kB; a larger file is not a token, or was saved with the whole table."""
MAX_FILES = 200
"""Files in one upload: ImageNet*'s have 5 kB each."""


class TokenFile(ClientBody):
    """A file with the token of one class."""

    class_name: ClassName
    """Class that the token stands for."""
    # Base64 takes four characters for three bytes.
    content_base64: str = Field(min_length=4, max_length=MAX_TOKEN_BYTES // 3 * 4 + 4)
    """Bytes of the file in base64: a token bundle of Counterpose, or a vector that `torch.save` or
    safetensors has written, as the published tokens of ImageNet* are."""


class TokenFilesAdd(ClientBody):
    """``POST /v1/token-files``: tokens to store, for a later request to name."""

    files: list[TokenFile] = Field(min_length=1, max_length=MAX_FILES)
    """The files to store."""

    @field_validator("files")
    @classmethod
    def _one_a_class(cls, files: list[TokenFile]) -> list[TokenFile]:
        twice = [name for name, count in Counter(file.class_name for file in files).items() if count > 1]
        if twice:
            raise ValueError(f"there are two tokens of {twice[0]!r}; send one for each class")
        return files


class TokenFilesAdded(ResponseBody):
    """Answer to `TokenFilesAdd`: what `tokens` of a dataset interface takes."""

    tokens: dict[str, BlobRef]
    """SHA-256 of each stored file, by class."""
