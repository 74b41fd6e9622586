"""The servers that the suite `api` leaves to its user, and a suite of fakes whose editor asks one."""

from counterpose_core.suite import EditorSuite, Suite
from counterpose_core.suite_servers import SuiteServers
from fakes.world import fake_suite

SERVERS = SuiteServers(
    language_server="https://language.example/v1",
    language_model="qwen3-vl-8b",
    images_server="https://images.example/v1",
    images_model="qwen-image-edit",
)


def images_suite(url: str, *, draws: bool = False) -> Suite:
    """A suite whose editor asks this server; ``draws``: it makes images from text, too."""
    editor = EditorSuite.model_validate(
        {
            "model": "editor-1",
            "server": url,
            "resolution": 32,
            "default_preset": "api",
            "redraw": "api",
            "presets": {"api": {"backend": "images-api", "text_to_image": draws}},
        }
    )
    return fake_suite().model_copy(update={"editor_part": editor})
