"""The servers that the suite `api` leaves to its user."""

from counterpose_core.suite_servers import SuiteServers

SERVERS = SuiteServers(
    language_server="https://language.example/v1",
    language_model="qwen3-vl-8b",
    images_server="https://images.example/v1",
    images_model="qwen-image-edit",
)
