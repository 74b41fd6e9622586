"""Which published token stands for which class of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counterpose_core.contract.dataset_interfaces import DatasetInterfaceCreate
from counterpose_core.errors import ClassMapMismatch, InvalidRequest
from counterpose_core.text.imagenet_hierarchy import class_key
from counterpose_core.types import BlobRef


def published_tokens(
    create: DatasetInterfaceCreate, classes: Sequence[str], is_there: Callable[[BlobRef], bool]
) -> dict[str, BlobRef]:
    """Return the file of each class's published token; classes that the request does not name may have none.

    ``is_there``: whether whoever asks has stored a file.

    Raises:
        InvalidRequest: a file is not in the store, a class that the request names has no token, or none has.
        ClassMapMismatch: two tokens are of the same class.
    """
    if create.tokens is None:
        return {}
    by_class = dict[str, str]()
    for name in create.tokens:
        other = by_class.setdefault(class_key(name), name)
        if other != name:
            raise ClassMapMismatch(
                f"the tokens {other!r} and {name!r} are of the same class; send one", pointer="/tokens"
            )
    found = {name: by_class[class_key(name)] for name in classes if class_key(name) in by_class}
    if not found or (create.classes is not None and len(found) < len(classes)):
        lacking = next(name for name in classes if name not in found)
        raise InvalidRequest(
            f"there is no token of {lacking!r}; there is one of {next(iter(create.tokens))!r}, for example",
            pointer="/tokens",
        )
    for name in found.values():
        if not is_there(create.tokens[name]):
            raise InvalidRequest(
                f"the token of {name!r} is not in the store; send its file to POST /v1/token-files",
                pointer=f"/tokens/{name}",
            )
    return {name: create.tokens[token] for name, token in found.items()}
